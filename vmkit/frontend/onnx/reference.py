"""One node, evaluated on numpy arrays by ONNX's reference implementation."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx

__all__ = ["evaluate"]

logger = logging.getLogger(__name__)


def evaluate(node: onnx.NodeProto, version: int, inputs: Sequence[np.ndarray | None]) -> list[np.ndarray] | None:
    """Return the outputs of a node of the ONNX domain; None when the reference implementation cannot tell."""
    plain = onnx.NodeProto(op_type=node.op_type, domain="", attribute=node.attribute)
    plain.input.extend("" if i is None else f"x{n}" for n, i in enumerate(inputs))
    plain.output.extend(f"y{n}" if name else "" for n, name in enumerate(node.output))
    feeds = {f"x{n}": i for n, i in enumerate(inputs) if i is not None}
    try:
        with np.errstate(all="ignore"):
            results = _evaluator(plain.SerializeToString(deterministic=True), version).run(None, feeds)
    except Exception as error:  # the reference raises whatever numpy does
        logger.debug("onnx.reference cannot evaluate %s: %s", node.op_type, error)
        return None
    if not all(isinstance(r, np.ndarray | np.generic) for r in results):
        return None
    return [np.asarray(r) for r in results]


@lru_cache(maxsize=512)
def _evaluator(node: bytes, version: int) -> Any:
    from onnx.reference import ReferenceEvaluator

    plain = onnx.NodeProto.FromString(node)
    # The evaluator takes the opset from a model; of a bare node it reads the newest operator.
    graph = onnx.GraphProto(name="node", node=[plain])
    graph.input.extend(onnx.ValueInfoProto(name=i) for i in plain.input if i)
    graph.output.extend(onnx.ValueInfoProto(name=o) for o in plain.output if o)
    opset = onnx.helper.make_opsetid("", version)
    return ReferenceEvaluator(onnx.ModelProto(ir_version=8, graph=graph, opset_import=[opset]))
