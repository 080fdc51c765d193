"""Models of operators of com.microsoft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper

from tests.frontend.onnx.programs import array, model, node

# Rows of texts, of which there are any number of any length.
WIDTH = 8
X = {"x": (["b", "s", WIDTH], "float32")}
ROWS = [{"x": array(b, s, WIDTH)} for b, s in ((1, 3), (2, 5))]


def ms(op_type: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Return a node of the domain, as :func:`node` does."""
    return node(op_type, inputs, outputs, domain="com.microsoft", **attributes)


def microsoft(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Any],
    outputs: str,
    constants: Mapping[str, Any] | None = None,
    integers: Mapping[str, int] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """Return a model whose outputs are float32 but for those that `integers` has the element type of."""
    proto = model(nodes, inputs, outputs, constants, opset)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    for output in proto.graph.output:
        output.type.tensor_type.elem_type = (integers or {}).get(output.name, TensorProto.FLOAT)
    return proto
