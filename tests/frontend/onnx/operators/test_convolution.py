"""Convolutions and transposed convolutions, at several sizes from one compilation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.feeds import IMAGE, IMAGES, check_image
from tests.frontend.onnx.programs import Compiled, array, assert_agrees, check, model, node, session

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


@pytest.mark.sweep
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


def test_weights_as_parameters_give_the_same_results() -> None:
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("Reshape", "r shape", "y")]
    constants = {"w": array(5, 4, 3, 3), "shape": np.array([0, 5, -1])}
    proto = model(nodes, IMAGE, "y", constants)
    compiled = Compiled(proto, freeze_params=False)
    assert [p.name_hint for p in compiled.module["main"].params] == ["x", "w"]
    np.testing.assert_array_equal(compiled.params["w"].numpy(), constants["w"])
    for feed in IMAGES:
        assert_agrees(compiled(**feed), session(proto).run(None, feed), ["y"])
