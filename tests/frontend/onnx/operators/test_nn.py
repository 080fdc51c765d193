"""Convolutions, pools, normalisations and products, at several sizes from one compilation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.programs import Compiled, array, assert_agrees, check, model, node, session

IMAGE = {"x": (["n", 4, "h", "w"], "float32")}
IMAGES = [{"x": array(n, 4, h, w)} for n, h, w in ((1, 7, 6), (2, 9, 9), (3, 12, 5))]


def check_image(nodes: list, constants: dict[str, Any], outputs: str = "y", opset: int = 17) -> None:
    check(model(nodes, IMAGE, outputs, constants, opset), *IMAGES)


CONVOLUTIONS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "plain": ({}, (5, 4, 3, 3)),
    "padded and strided": ({"pads": [1, 0, 2, 1], "strides": [2, 1]}, (5, 4, 3, 3)),
    "dilated": ({"dilations": [2, 1], "pads": [2, 1, 2, 1]}, (5, 4, 3, 3)),
    "grouped": ({"group": 2}, (6, 2, 3, 3)),
    "depthwise": ({"group": 4, "pads": [1, 1, 1, 1]}, (8, 1, 3, 3)),
    "same, upper": ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (5, 4, 3, 2)),
    "same, lower": ({"auto_pad": "SAME_LOWER"}, (5, 4, 2, 4)),
    "valid": ({"auto_pad": "VALID", "strides": [1, 2]}, (5, 4, 3, 3)),
    "of one pixel": ({}, (5, 4, 1, 1)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str) -> None:
    attributes, shape = CONVOLUTIONS[name]
    check_image([node("Conv", "x w b", "y", **attributes)], {"w": array(*shape), "b": array(shape[0], seed=1)})


@pytest.mark.parametrize("rank", [1, 3])
def test_convolution_of_other_ranks(rank: int) -> None:
    inputs = {"x": (["n", 2, *["length"] * rank], "float32")}
    pads = [1] * (2 * rank)
    proto = model([node("Conv", "x w", "y", pads=pads)], inputs, "y", {"w": array(3, 2, *[3] * rank)})
    check(proto, *[{"x": array(n, 2, *[length] * rank)} for n, length in ((1, 4), (2, 6))])


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 2], "pads": [1, 0, 0, 1], "output_padding": [1, 0]},
        {"group": 2, "dilations": [2, 2]},
        {"strides": [2, 3], "auto_pad": "SAME_UPPER"},
    ],
)
def test_transposed_convolution(attributes: dict[str, Any]) -> None:
    nodes = [node("ConvTranspose", "x w b", "y", **attributes)]
    channels = 3 * attributes.get("group", 1)
    check_image(nodes, {"w": array(4, 3, 3, 3), "b": array(channels, seed=1)})


@pytest.mark.parametrize("sides", [[3, 3], ["h", "w"], [None, None]])
@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER"])
def test_transposed_convolution_to_a_size(sides: list[Any], auto_pad: str) -> None:
    nodes = [
        node("ConvTranspose", "x w b", "y", strides=[3, 2], output_shape=[10, 8], auto_pad=auto_pad),
        node("ConvTranspose", "x w", "z", strides=[2, 2], output_shape=[6, 6], auto_pad=auto_pad),
    ]
    program = model(nodes, {"x": (["n", 1, *sides], "float32")}, "y z", {"w": array(1, 2, 3, 3), "b": array(2)})
    sizes = [(2, 3, 3)] if isinstance(sides[0], int) else [(2, 3, 3), (1, 4, 3), (1, 3, 4)]
    check(program, *[{"x": array(n, 1, h, w)} for n, h, w in sizes])


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


def test_normalisations_of_images() -> None:
    constants = {
        "s": array(4) + 3, "b": array(4, seed=1), "m": array(4, seed=2), "v": abs(array(4, seed=3)) + 0.5,
    }  # fmt: skip
    nodes = [
        node("BatchNormalization", "x s b m v", "batch", epsilon=1e-3),
        node("InstanceNormalization", "x s b", "instance"),
        node("LRN", "x", "lrn", size=3, alpha=0.01, beta=0.5, bias=2.0),
        node("LpNormalization", "x", "lp", axis=1, p=1),
        node("MeanVarianceNormalization", "x", "mvn"),
    ]
    check_image(nodes, constants, " ".join(n.output[0] for n in nodes))


def test_layer_normalisation() -> None:
    nodes = [node("LayerNormalization", "x s b", "a"), node("LayerNormalization", "x s2", "b2 mean inverse", axis=1)]
    constants = {"s": array(4), "b": array(4, seed=1), "s2": array(3, 4)}
    proto = model(nodes, {"x": (["n", 3, 4], "float32")}, "a b2 mean inverse", constants)
    check(proto, {"x": array(1, 3, 4)}, {"x": array(5, 3, 4)})


def test_group_normalisation() -> None:
    proto = model(
        [node("GroupNormalization", "x s b", "y", num_groups=2)], IMAGE, "y", {"s": array(4), "b": array(4, seed=1)}, 21
    )
    check(proto, *IMAGES)


@pytest.mark.parametrize(
    "attributes", [{}, {"transB": 1}, {"transA": 1, "alpha": 0.5, "beta": 2.0}, {"transA": 1, "transB": 1}]
)
def test_gemm(attributes: dict[str, Any]) -> None:
    weight = array(5, 4) if attributes.get("transB") else array(4, 5)
    shape = [4, "n"] if attributes.get("transA") else ["n", 4]
    proto = model(
        [node("Gemm", "x w c", "y", **attributes)], {"x": (shape, "float32")}, "y", {"w": weight, "c": array(5, seed=1)}
    )
    check(proto, *[{"x": array(*[n if d == "n" else d for d in shape])} for n in (1, 2, 7)])


PRODUCTS = {
    "rows by a matrix": ((["n", 3, 4], (4, 5)), [((2, 3, 4), (4, 5))]),
    "stacks": ((["n", 3, 4], ["n", 4, "m"]), [((2, 3, 4), (2, 4, 5)), ((1, 3, 4), (1, 4, 1))]),
    "stacks of stacks": (
        (["n", 2, "t", 4], ["n", 2, 4, "t"]), [((1, 2, 3, 4), (1, 2, 4, 3)), ((2, 2, 5, 4), (2, 2, 4, 5))],
    ),
    "a stack by one matrix of a stack": ((["n", 2, 3, 4], (1, 1, 4, 5)), [((2, 2, 3, 4), (1, 1, 4, 5))]),
    "broadcast stacks": (((2, 1, 3, 4), (5, 4, 2)), [((2, 1, 3, 4), (5, 4, 2))]),
    "a vector by a matrix": (((4,), (4, "n")), [((4,), (4, 3))]),
}  # fmt: skip
PRODUCTS["a matrix by a vector"] = ((["n", 4], (4,)), [((3, 4), (4,))])
PRODUCTS["vectors"] = (((4,), (4,)), [((4,), (4,))])


@pytest.mark.parametrize("is_nt", [True, False])
@pytest.mark.parametrize("name", PRODUCTS)
def test_product(name: str, is_nt: bool) -> None:
    (left, right), cases = PRODUCTS[name]
    proto = model([node("MatMul", "x y", "z")], {"x": (left, "float32"), "y": (right, "float32")}, "z")
    feeds = [{"x": array(*a), "y": array(*b, seed=1)} for a, b in cases]
    check(proto, *feeds, convert_config={"use_nt_batch_matmul": is_nt})


def test_einsum() -> None:
    inputs = {"x": (["n", 3, 4], "float32"), "y": (["n", 4, 5], "float32")}
    proto = model([node("Einsum", "x y", "z", equation="nij,njk->nik")], inputs, "z")
    check(proto, {"x": array(2, 3, 4), "y": array(2, 4, 5)})


RESIZES = [
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    {"mode": "nearest"},
    {"mode": "linear"},
    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    {"mode": "cubic"},
]


@pytest.mark.parametrize("attributes", RESIZES)
def test_resize(attributes: dict[str, Any]) -> None:
    nodes = [node("Resize", "x _ scales", "a", **attributes), node("Resize", "x _ _ sizes", "b", **attributes)]
    constants = {"scales": np.array([1, 1, 2, 3], "float32"), "sizes": np.array([2, 4, 10, 3])}
    proto = model(nodes, {"x": ([2, 4, "h", "w"], "float32")}, "a b", constants)
    check(proto, *[{"x": array(2, 4, h, w)} for h, w in ((5, 6), (4, 3))])


def test_upsample() -> None:
    proto = model([node("Upsample", "x scales", "y")], IMAGE, "y", {"scales": np.array([1, 1, 2, 2], "float32")}, 9)
    check(proto, *IMAGES)


def test_weights_as_parameters_give_the_same_results() -> None:
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("Reshape", "r shape", "y")]
    constants = {"w": array(5, 4, 3, 3), "shape": np.array([0, 5, -1])}
    proto = model(nodes, IMAGE, "y", constants)
    compiled = Compiled(proto, freeze_params=False)
    assert [p.name_hint for p in compiled.module["main"].params] == ["x", "w"]
    np.testing.assert_array_equal(compiled.params["w"].numpy(), constants["w"])
    for feed in IMAGES:
        assert_agrees(compiled(**feed), session(proto).run(None, feed), ["y"])


@pytest.mark.parametrize("op_type", ["AveragePool", "MaxPool"])
def test_windows_that_are_longer_than_the_axis_reach_past_its_end(op_type: str) -> None:
    nodes = [
        node(op_type, "x", "a", kernel_shape=[448, 448], strides=[448, 448], ceil_mode=1),
        node(op_type, "x", "b", kernel_shape=[40, 20], strides=[39, 19], ceil_mode=1, pads=[1, 2, 0, 3]),
        node(op_type, "x", "c", kernel_shape=[3, 18], strides=[2, 17], ceil_mode=1),
    ]
    feeds = [{"x": array(n, 2, h, w)} for n, h, w in ((1, 7, 7), (2, 9, 15), (1, 50, 61))]
    check(model(nodes, {"x": (["n", 2, "h", "w"], "float32")}, "a b c"), *feeds)
    check(model(nodes, {"x": ([1, 2, 7, 9], "float32")}, "a b c"), {"x": array(1, 2, 7, 9)})
