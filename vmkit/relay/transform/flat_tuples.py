"""Values of nested tuples as their tensors in order, and back."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import ModelError
from ..ir import RelayExpr, TensorType, Tuple, TupleGetItem, TupleType, Type, type_text

__all__ = ["leaves", "structured", "tensor_types"]


def tensor_types(ty: Type) -> list[TensorType]:
    """Return the types of the tensors in a tensor or a tuple; ModelError where there is anything else in it."""
    if isinstance(ty, TupleType):
        return [part for each in ty.fields for part in tensor_types(each)]
    if not isinstance(ty, TensorType):
        raise ModelError(f"a primitive function takes and gives tensors and tuples of them, not {type_text(ty)}")
    return [ty]


def leaves(ty: Type, value: RelayExpr) -> list[RelayExpr]:
    """Return the tensors in a value of a type."""
    if isinstance(ty, TupleType):
        return [part for i, each in enumerate(ty.fields) for part in leaves(each, TupleGetItem(value, i))]
    return [value]


def structured(ty: Type, tensors: Iterator[RelayExpr]) -> RelayExpr:
    """Return a value of a type that has the tensors that follow."""
    return Tuple([structured(each, tensors) for each in ty.fields]) if isinstance(ty, TupleType) else next(tensors)
