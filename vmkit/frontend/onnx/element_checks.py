"""Which element types an operator takes: what ONNX declares of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import onnx

from ...errors import ModelError
from ...relay.ir import Expr, TensorType
from .dtype import declared_name
from .schema import schema_of
from .typing import typed

__all__ = ["require_elements"]


def require_elements(domain: str, op_type: str, version: int, inputs: Sequence[Expr | None]) -> None:
    """Raise ModelError when an input has elements of a type that the operator takes in no opset.

    What a later opset took is taken in an earlier one too: the kernels are the same. An operator of which ONNX declares
    nothing takes what its converter takes.
    """
    declared = _declared(domain, op_type, version)
    if not declared:
        return
    for place, value in enumerate(inputs):
        name, taken = declared[min(place, len(declared) - 1)]
        own = None if value is None else typed(value).checked_type_
        if taken and isinstance(own, TensorType) and own.dtype not in taken:
            raise ModelError(f"the input {name} has elements of type {own.dtype}; it takes {', '.join(sorted(taken))}")


@lru_cache(maxsize=1024)
def _declared(domain: str, op_type: str, version: int) -> list[tuple[str, frozenset[str]]]:
    """Return the name of every input and the element types of the tensors that may be given for it."""
    schema = schema_of(domain, op_type, version)
    if schema is None:
        return []
    newest = schema_of(domain, op_type, onnx.defs.onnx_opset_version()) if domain == "" else schema
    texts: list[set[str]] = [set(i.types) for i in schema.inputs]
    for own, later in zip(texts, [] if newest is None else newest.inputs, strict=False):
        own |= set(later.types)
    names = [frozenset(filter(None, map(_element, t))) for t in texts]
    return [(i.name, n) for i, n in zip(schema.inputs, names, strict=True)]


def _element(declared: str) -> str | None:
    """Return the element type of a tensor type as ONNX writes it, such as ``tensor(float)``; None for other types."""
    if not declared.startswith("tensor("):
        return None
    return declared_name(declared.removeprefix("tensor(").removesuffix(")"))
