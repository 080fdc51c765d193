"""Small models, each of which shows one thing of onnxruntime's interface."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["info", "model", "plus_weights"]


def info(name: str, shape: Sequence[int | str | None] | None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """Return the declaration of a tensor."""
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (),
    opset: int = 18,
) -> bytes:
    """Return the bytes of a file."""
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), list(weights), doc_string="of a graph")
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_model(
        graph,
        opset_imports=opsets,
        ir_version=8,
        producer_name="a script",
        doc_string="of a model",
        domain="org.example",
        model_version=3,
    )
    helper.set_model_props(made, {"names": "cat,dog"})
    return made.SerializeToString()


def plus_weights() -> bytes:
    """Return a model of ``y = x + w`` and the shape of ``x``, where ``w`` has a value that a feed may override."""
    nodes = [helper.make_node("Add", ["x", "w"], ["y"]), helper.make_node("Shape", ["x"], ["s"])]
    weights = [numpy_helper.from_array(np.float32([1, 2, 3]), "w")]
    outputs = [info("y", None), info("s", ["k"], TensorProto.INT64)]
    return model(nodes, [info("x", ["n", 3]), info("w", [3])], outputs, weights)
