"""Experimental operators of the first opsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.feeds import four
from tests.frontend.onnx.programs import Compiled, array, check, model, node
from vmkit.errors import ModelError


def test_retired_operators() -> None:
    nodes = [
        node("Affine", "x", "a", alpha=2.0, beta=-0.5), node("Scale", "x", "b", scale=3.0),
        node("ScaledTanh", "x", "c", alpha=1.5, beta=0.5), node("ParametricSoftplus", "x", "d", alpha=2.0, beta=3.0),
        node("ImageScaler", "x", "e", scale=0.5, bias=[1.0, 2.0, 3.0]), node("Crop", "x", "f", border=[1, 2, 1, 0]),
        node("Crop", "x", "g", border=[1, 0, 0, 0], scale=[2, 3]),
    ]  # fmt: skip
    proto = model(nodes, {"x": (["n", 3, "h", "w"], "float32")}, "a b c d e f g", opset=7)
    proto.ir_version = 3
    for output in proto.graph.output:
        output.type.tensor_type.elem_type = 1
    check(proto, {"x": four(1, 3, 4, 5, 0)}, {"x": four(2, 3, 5, 4, 1)})


def test_operators_that_no_opset_declares() -> None:
    nodes = [
        node("MeanVarianceNormalization", "x", "a"), node("MeanVarianceNormalization", "x", "b", across_channels=1),
        node("MeanVarianceNormalization", "x", "c", normalize_variance=0),
        node("DynamicSlice", "x first end", "d"), node("DynamicSlice", "x first end axes", "e"),
    ]  # fmt: skip
    steering = {"first": [0, 1], "end": [2, -1], "axes": [2, 3]}
    inputs: dict[str, Any] = {"x": (["n", 3, "h", "w"], "float32")} | {n: ([2], "int64") for n in steering}
    proto = model(nodes, inputs, "a b c d e", opset=7)
    proto.ir_version = 3
    for output in proto.graph.output:
        output.type.tensor_type.elem_type = 1
    given = {n: np.array(v) for n, v in steering.items()}
    check(proto, {"x": four(1, 3, 4, 5, 0)} | given, {"x": four(2, 3, 5, 4, 1)} | given)


def test_copies_to_another_device_are_nothing() -> None:
    nodes = [node("MemcpyFromHost", "x", "a"), node("Relu", "a", "b"), node("MemcpyToHost", "b", "y")]
    (y,) = Compiled(model(nodes, {"x": (["n"], "float32")}, "y"))(x=array(5))
    np.testing.assert_array_equal(y, np.maximum(array(5), 0))


def test_a_bias_for_each_channel_is_needed() -> None:
    proto = model([node("ImageScaler", "x", "y", bias=[1.0])], {"x": ([1, 3, 4, 4], "float32")}, "y", opset=7)
    with pytest.raises(ModelError, match="there are 1 biases"):
        Compiled(proto)(x=array(1, 3, 4, 4))
