"""Pools over windows and over whole images, and maxima written back."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx.feeds import MAPS, check_image
from tests.frontend.onnx.programs import (
    Compiled,
    agrees_with_reference,
    array,
    check,
    model,
    node,
    outputs_of,
)
from vmkit.errors import ModelError, VMError

POOLS = {
    "max": [("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]})],
    "max, same": [("MaxPool", {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"})],
    "max, rounded up": [("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1})],
    "max, rounded up with idle windows": [
        ("MaxPool", {"kernel_shape": [1, 1], "strides": [2, 2], "ceil_mode": 1, "pads": [0, 0, 0, 0]})
    ],
    "average": [
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("AveragePool", {"kernel_shape": [2, 3], "strides": [2, 2]}),
    ],
    "over all": [("GlobalAveragePool", {}), ("GlobalMaxPool", {})],
    "by powers": [("LpPool", {"kernel_shape": [2, 2], "p": 3}), ("GlobalLpPool", {"p": 2})],
}


@pytest.mark.parametrize("name", POOLS)
def test_pool(name: str) -> None:
    nodes = [node(op, "x", f"y{i}", **attributes) for i, (op, attributes) in enumerate(POOLS[name])]
    check_image(nodes, {}, " ".join(n.output[0] for n in nodes))


def test_pools_of_sequences() -> None:
    nodes = [node("MaxPool", "x", "a", kernel_shape=[2]), node("GlobalAveragePool", "x", "b")]
    proto = model(nodes, {"x": (["n", 3, "t"], "float32")}, "a b")
    check(proto, {"x": array(1, 3, 4)}, {"x": array(2, 3, 7)})


@pytest.mark.parametrize("op_type", ["AveragePool", "MaxPool"])
def test_windows_that_are_longer_than_the_axis_reach_past_its_end(op_type: str) -> None:
    nodes = [
        node(op_type, "x", "a", kernel_shape=[448, 448], strides=[448, 448], ceil_mode=1),
        node(op_type, "x", "b", kernel_shape=[40, 20], strides=[39, 19], ceil_mode=1, pads=[1, 2, 0, 3]),
        node(op_type, "x", "c", kernel_shape=[3, 18], strides=[2, 17], ceil_mode=1),
    ]
    feeds = [{"x": array(n, 2, h, w)} for n, h, w in ((1, 7, 7), (2, 9, 15), (1, 50, 61), (1, 1, 7))]
    check(model(nodes, {"x": (["n", 2, "h", "w"], "float32")}, "a b c"), *feeds)
    check(model(nodes, {"x": ([1, 2, 7, 9], "float32")}, "a b c"), {"x": array(1, 2, 7, 9)})


@pytest.mark.parametrize("op_type", ["AveragePool", "LpPool", "MaxPool"])
def test_a_window_that_lacks_less_than_two_strides_is_partial_or_not_there(op_type: str) -> None:
    nodes = [
        node(op_type, "x", "a", kernel_shape=[4, 2], strides=[2, 2]),  # lacks 1 of a stride of 2
        node(op_type, "x", "b", kernel_shape=[4, 2], strides=[1, 1]),  # a whole stride
        node(op_type, "x", "c", kernel_shape=[3, 2], strides=[4, 3], dilations=[2, 1]),
        node(op_type, "x", "d", kernel_shape=[8, 4], strides=[4, 1], pads=[1, 0, 1, 1]),
        node(op_type, "x", "e", kernel_shape=[8, 3], strides=[4, 2], ceil_mode=1),
    ]
    proto = model(nodes, {"x": ([1, 2, 3, 8], "float32")}, "a b c d e", opset=22)
    check(proto, {"x": array(1, 2, 3, 8)})


def test_maxima_of_partial_windows_say_where_they_were() -> None:
    nodes = [node("MaxPool", "x", f"y{k} i{k}", kernel_shape=[k, 2], strides=[2, 2]) for k in (4, 5)]
    proto = model(nodes, {"x": ([1, 2, 3, 5], "float32")}, "y4 i4 y5 i5", opset=12)
    check(proto, {"x": array(1, 2, 3, 5)})


def test_a_window_that_lacks_two_strides_is_refused() -> None:
    proto = model([node("MaxPool", "x", "y", kernel_shape=[5])], {"x": ([1, 2, 3], "float32")}, "y")
    with pytest.raises(ModelError, match="a window that reaches over 5 lacks 2 on spatial axis 0"):
        Compiled(proto)


def test_a_window_that_does_not_fit_when_it_runs_names_the_node() -> None:
    nodes = [node("MaxPool", "x", "p", kernel_shape=[3], strides=[2], name="halved"), node("Conv", "p w", "y")]
    compiled = Compiled(model(nodes, {"x": (["n", 2, "t"], "float32")}, "y", {"w": array(4, 2, 2)}))
    assert compiled(x=array(1, 2, 5))[0].shape == (1, 4, 1)
    for count, message in (
        (2, "max_pool1d of node 'halved': a window that reaches over 3"),
        (3, "of node 'y': a window"),
    ):
        with pytest.raises(VMError, match=message):
            compiled(x=array(1, 2, count))


def test_a_window_that_lacks_its_stride_gives_nothing_when_it_runs() -> None:
    nodes = [
        node("MaxPool", "x", "a", kernel_shape=[2, 2], strides=[1, 1]),
        node("AveragePool", "x", "b", kernel_shape=[3, 3], strides=[2, 2]),
        node("MaxPool", "x", "c i", kernel_shape=[3, 2], strides=[2, 1]),
        node("LpPool", "x", "d", kernel_shape=[3, 1], strides=[2, 1]),
        node("MaxPool", "x", "e", kernel_shape=[5, 5], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", "a", "f"),
    ]
    proto = model(nodes, {"x": (["n", 3, "h", "w"], "float32")}, outputs_of(nodes), opset=18)
    one = {"x": array(2, 3, 1, 1)}
    compiled = check(proto, one, {"x": array(1, 3, 5, 5)}, {"x": array(1, 3, 7, 6)})
    assert [y.shape[2:] for y in compiled(**one)[:3]] == [(0, 0)] * 3
    for sizes in ((2, 2), (1, 2)):
        with pytest.raises(VMError, match="a window that reaches over 3 does not fit"):
            compiled(x=array(1, 3, *sizes))


def test_maxima_and_where_they_were() -> None:
    window = {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [0, 1, 1, 1]}
    nodes = [
        node("MaxPool", "x", "a i", **window),
        node("MaxPool", "x", "b j", storage_order=1, dilations=[1, 2], **window),
        node("MaxPool", "x", "c k", ceil_mode=1, **window),
        node("MaxPool", "s", "d l", kernel_shape=[2], strides=[3], ceil_mode=1),
        node("MaxPool", "v", "e m", kernel_shape=[2, 1, 2], storage_order=1),
    ]
    inputs = {
        "x": (["n", 2, "h", "w"], "float32"), "s": ([2, 1, "h"], "float32"), "v": ([1, 2, 3, 2, 3], "float32"),
    }  # fmt: skip
    proto = model(nodes, inputs, outputs_of(nodes), opset=12)
    check(
        proto,
        *[{"x": array(n, 2, h, 7), "s": array(2, 1, h), "v": array(1, 2, 3, 2, 3)} for n, h in ((2, 6), (1, 5))],
    )


def test_windows_that_begin_behind_inputs_whose_sizes_have_no_names_are_left_out() -> None:
    idle = {"kernel_shape": [1, 2], "strides": [3, 3], "ceil_mode": 1}
    nodes = [
        node("Reshape", "x shape", "u"),
        node("AveragePool", "u", "a", **idle),
        node("MaxPool", "u", "b i", pads=[0, 1, 0, 1], **idle),
        node("LpPool", "u", "c", **idle),
        node("AveragePool", "u", "d", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    ]
    proto = model(nodes, {"x": (["n", 3, "l"], "float32"), "shape": ([4], "int64")}, "a b i c d", opset=19)
    shapes = ((2, 3, 5, 6), (1, 3, 7, 4), (2, 3, 6, 8))
    check(proto, *[{"x": array(n, c, h * w), "shape": np.array([n, c, h, w])} for n, c, h, w in shapes])


def test_maxima_are_written_back() -> None:
    inputs = {"x": (["n", 2, 2, 3], "float32"), "at": (["n", 2, 2, 3], "int64"), "shape": ([4], "int64")}
    nodes = [
        node("MaxUnpool", "x at", "a", kernel_shape=[2, 2], strides=[2, 2]),
        node("MaxUnpool", "x at shape", "b", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    at = np.sort(np.random.default_rng(0).permutation(96)[:24]).reshape(2, 2, 2, 3)
    proto = model(nodes, inputs, "a b", opset=11)
    agrees_with_reference(proto, {"x": array(2, 2, 2, 3), "at": at, "shape": np.array([2, 2, 5, 8])})


@pytest.mark.parametrize("ceil", [0, 1])
def test_roots_of_sums_over_windows(ceil: int) -> None:
    nodes = [
        node("LpPool", "x", "a", kernel_shape=[2, 3], strides=[2, 2], pads=[1, 0, 0, 1], ceil_mode=ceil),
        node("LpPool", "x", "b", kernel_shape=[2, 2], dilations=[2, 1], p=3, ceil_mode=ceil),
        node("AveragePool", "x", "c", kernel_shape=[3, 2], strides=[2, 3], ceil_mode=ceil, dilations=[1, 2]),
        node("AveragePool", "x", "d", kernel_shape=[3, 3], strides=[3, 2], pads=[1, 1, 1, 1], ceil_mode=ceil,
             count_include_pad=1),
    ]  # fmt: skip
    proto = model(nodes, {"x": (["n", 2, "h", 6], "float32")}, outputs_of(nodes), opset=19)
    check(proto, {"x": array(2, 2, 6, 6)}, {"x": array(1, 2, 5, 6)})


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_windows_that_cover_inputs_of_any_size(auto_pad: str) -> None:
    window = {"kernel_shape": [3, 2], "strides": [2, 3], "auto_pad": auto_pad}
    nodes = [node("MaxPool", "x", "a", **window), node("AveragePool", "x", "b", **window)]
    nodes += [node("AveragePool", "x", "c", count_include_pad=1, **window), node("LpPool", "x", "d", **window)]
    nodes += [node("LpPool", "x", "e", ceil_mode=1, **window)]
    proto = model(nodes, MAPS, "a b c d e", opset=18)
    check(proto, {"x": array(2, 2, 6, 7)}, {"x": array(1, 2, 5, 4)})
