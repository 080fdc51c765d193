"""Windows padded to as many as there are strides, where the sizes have names, and where only the run knows them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.programs import Compiled, array, check, model, node, outputs_of

# Of which the last axis has a size that no type tells.
CUT = node("Compress", "x m", "cut", axis=3)
SIZES = [(1, 5, 7), (2, 6, 9), (1, 9, 4)]


def _feeds(cut: bool) -> list[dict[str, np.ndarray]]:
    masks = [{"m": np.arange(w + 2) < w} for _, _, w in SIZES] if cut else [{}] * len(SIZES)
    return [{"x": array(n, 4, h, w + 2 * cut), **mask} for (n, h, w), mask in zip(SIZES, masks, strict=True)]


def _program(nodes: list[onnx.NodeProto], cut: bool, constants: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:
    image = (["n", 4, "h", "w"], "float32")
    inputs = {"x": image, "m": (["w"], "bool")} if cut else {"x": image}
    return model([CUT, *nodes] if cut else nodes, inputs, outputs_of(nodes), constants or {}, opset=18)


@pytest.mark.parametrize("cut", [False, True], ids=["named", "unknown"])
def test_windows(cut: bool) -> None:
    x, halved = "cut" if cut else "x", {"kernel_shape": [3, 2], "strides": [2, 2]}
    nodes = [
        node("Conv", f"{x} k", "conv", auto_pad="SAME_UPPER", **halved),
        node("MaxPool", x, "max", auto_pad="SAME_LOWER", ceil_mode=1, **halved),
        node("AveragePool", x, "mean", auto_pad="SAME_LOWER", kernel_shape=[3, 5], strides=[1, 3]),
        node("LpPool", x, "norm", auto_pad="SAME_UPPER", **halved),
    ]
    check(_program(nodes, cut, {"k": array(5, 4, 3, 2)}), *_feeds(cut))


def test_a_window_shorter_than_its_stride_may_need_no_padding() -> None:
    # onnxruntime takes what is missing to be less than nothing.
    nodes = [node("MaxPool", "x", "y", kernel_shape=[2, 1], strides=[3, 2], auto_pad="SAME_UPPER")]
    compiled = Compiled(_program(nodes, False))
    for h, rows in ((4, [(0, 2), (3, 4)]), (5, [(0, 2), (3, 5)]), (6, [(0, 2), (3, 5)])):
        x = array(1, 4, h, 5)
        expected = np.stack([x[:, :, slice(*r), ::2].max(2) for r in rows], 2)
        np.testing.assert_array_equal(compiled(x=x)[0], expected)


@pytest.mark.parametrize("cut", [False, True], ids=["named", "unknown"])
@pytest.mark.parametrize("order", [0, 1], ids=["rows", "columns"])
def test_where_maxima_were(order: int, cut: bool) -> None:
    x, window = "cut" if cut else "x", {"kernel_shape": [3, 2], "strides": [2, 2]}
    nodes = [
        node("MaxPool", x, f"{name} {name}_at", auto_pad=pad, storage_order=order, **window)
        for name, pad in (("upper", "SAME_UPPER"), ("lower", "SAME_LOWER"))
    ]
    check(_program(nodes, cut), *_feeds(cut))


def test_where_maxima_were_that_are_no_larger_than_padding() -> None:
    nodes = [node("MaxPool", "x", "most at", auto_pad="SAME_LOWER", kernel_shape=[3], strides=[2])]
    compiled = Compiled(model(nodes, {"x": ([1, 1, "w"], "uint8")}, "most at", opset=12))
    for w, places in ((3, [0, 1]), (4, [0, 1])):
        most, at = compiled(x=np.zeros((1, 1, w), "uint8"))
        np.testing.assert_array_equal(most, np.zeros((1, 1, 2)))
        np.testing.assert_array_equal(at, [[places]])


def test_sizes_of_a_deep_chain_keep_their_names() -> None:
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}
    nodes = [node("MaxPool", "x" if not k else f"y{k - 1}", f"y{k}", **window) for k in range(6)]
    program = _program(nodes, False)
    compiled = Compiled(program)
    assert "?" not in str(compiled.module["main"].ret_type)
    check(program, {"x": array(1, 4, 67, 32)}, {"x": array(2, 4, 20, 129)})
