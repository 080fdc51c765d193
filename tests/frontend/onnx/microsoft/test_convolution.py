"""Convolutions of com.microsoft, at several sizes of one compilation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, assert_agrees, check, model, node, session
from vmkit.errors import VMError


def test_convolutions() -> None:
    nodes = [
        ms("FusedConv", "x w c", "d", activation="Relu", pads=[1, 1, 1, 1]),
        ms("FusedConv", "x w c z", "e", activation="Clip", activation_params=[0.0, 1.0], pads=[1, 1, 1, 1]),
        ms("FusedConv", "x w", "f", activation="LeakyRelu", activation_params=[0.2]),
        ms("ConvTransposeWithDynamicPads", "x t p", "g", strides=[2, 2]),
    ]
    constants = {"w": array(4, 3, 3, 3), "c": array(4), "t": array(3, 2, 3, 3), "p": np.array([1, 1, 1, 1])}
    inputs = {"x": (["n", 3, "h", 6], "float32"), "z": (["n", 4, "h", 6], "float32")}
    feeds = [{"x": array(n, 3, h, 6), "z": array(n, 4, h, 6, seed=1)} for n, h in ((1, 5), (2, 7))]
    check(microsoft(nodes, inputs, "d e f g", constants), *feeds)


def test_a_transposed_convolution_with_pads_from_an_input() -> None:
    nodes = [ms("ConvTransposeWithDynamicPads", "x t p b", "y", strides=[2, 2])]
    inputs = {"x": (["n", 3, "h", 6], "float32"), "p": ([4], "int64")}
    compiled = Compiled(microsoft(nodes, inputs, "y", {"t": array(3, 2, 3, 3), "b": array(2)}))
    for h, pads in ((5, [1, 0, 2, 1]), (4, [0, 0, 0, 0])):
        x = array(1, 3, h, 6)
        known = [node("ConvTranspose", "x t b", "y", strides=[2, 2], pads=pads)]
        plain = session(model(known, {"x": inputs["x"]}, "y", {"t": array(3, 2, 3, 3), "b": array(2)}))
        assert_agrees(compiled(x=x, p=np.array(pads)), plain.run(None, {"x": x}), ["y"])
    for pads in ([-1, 0, 0, 0], [9, 0, 9, 0]):
        with pytest.raises(VMError, match="Pads are negative, or cut off more than the whole result"):
            compiled(x=array(1, 3, 5, 6), p=np.array(pads))


def test_channels_last() -> None:
    first = [
        node("Transpose", "x", "t", perm=[0, 3, 1, 2]), node("Conv", "t w c", "u", pads=[1, 1, 1, 1]),
        node("Relu", "u", "v"), node("Transpose", "v", "y", perm=[0, 2, 3, 1]),
        node("Transpose", "u", "z", perm=[0, 2, 3, 1]),
    ]  # fmt: skip
    inputs, constants = {"x": (["n", "h", 6, 3], "float32")}, {"w": array(4, 3, 3, 3), "c": array(4)}
    x = array(2, 5, 6, 3)
    expected = Compiled(model(first, inputs, "y z", constants))(x=x)
    last = [
        ms("NhwcFusedConv", "x w c", "y", activation="Relu", pads=[1, 1, 1, 1]),
        # Only this one has the channels of its weight last.
        ms("NhwcConv", "x l c", "z", pads=[1, 1, 1, 1]),
    ]
    moved = constants | {"l": constants["w"].transpose(0, 2, 3, 1).copy()}
    assert_agrees(Compiled(microsoft(last, inputs, "y z", moved))(x=x), expected, ["y", "z"])
