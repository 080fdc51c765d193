"""Which element types an operator takes: what ONNX declares of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import onnx

from ...errors import ModelError
from ...relay.ir import Expr, TensorType
from ...values.element_types import is_stored_type
from .dtype import declared_name
from .schema import schema_of
from .typing import typed

__all__ = ["require_elements"]


def require_elements(domain: str, op_type: str, version: int, inputs: Sequence[Expr | None]) -> None:
    """Raise ModelError when an input has elements of a type that the operator takes in no opset.

    What a later opset took is taken in an earlier one too: the kernels are the same. An operator of which ONNX declares
    nothing takes what its converter takes; so does an input that later opsets do not have, and one whose elements are
    stored as another type's, which kernels that move elements take.
    """
    declared = _declared(domain, op_type, version)
    if not declared:
        return
    for place, value in enumerate(inputs):
        name, taken = declared[min(place, len(declared) - 1)]
        own = None if value is None else typed(value).checked_type_
        if not taken or not isinstance(own, TensorType) or (is_stored_type(own.dtype) and own.dtype != "string"):
            continue
        if own.dtype not in taken:
            raise ModelError(f"the input {name} has elements of type {own.dtype}; it takes {', '.join(sorted(taken))}")


@lru_cache(maxsize=1024)
def _declared(domain: str, op_type: str, version: int) -> list[tuple[str, frozenset[str]]]:
    """Return the name of every input and the element types of the tensors that may be given for it."""
    newest = schema_of(domain, op_type, onnx.defs.onnx_opset_version()) if domain == "" else None
    # onnxruntime takes some operators in opsets before that in which ONNX has them first.
    schema = schema_of(domain, op_type, version) or newest
    if schema is None:
        return []
    newest = newest if domain == "" else schema
    texts: list[set[str]] = [set(i.types) for i in schema.inputs]
    inputs = [] if newest is None else newest.inputs
    for own, later in zip(texts, inputs, strict=False):
        own |= set(later.types)
    for own in texts[len(inputs) :]:
        own.clear()
    names = [frozenset(filter(None, map(_element, t))) for t in texts]
    return [(i.name, n) for i, n in zip(schema.inputs, names, strict=True)]


def _element(declared: str) -> str | None:
    """Return the element type of a tensor type as ONNX writes it, such as ``tensor(float)``; None for other types."""
    if not declared.startswith("tensor("):
        return None
    return declared_name(declared.removeprefix("tensor(").removesuffix(")"))
