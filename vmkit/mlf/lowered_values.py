"""What the variables of Relax become in a C program: tensors in memory, and tuples of them."""

from __future__ import annotations

from collections.abc import Iterator

from tvm import ir, relax, tirx

from ..errors import CompileError
from .program import Tensor

__all__ = ["Value", "as_tensor", "leaf_types", "leaves_of", "of_type", "shaped_like", "tensor_of"]

Value = Tensor | tuple["Value", ...] | None
"""What a variable of Relax is: a tensor, several, or a shape, of which nothing is left at run time."""


def leaves_of(value: Value) -> Iterator[Tensor]:
    """Yield the tensors of a value, in their order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from leaves_of(part)


def shaped_like(value: Value, leaves: Iterator[Tensor]) -> Value:
    """Return tensors in the structure of a value."""
    if isinstance(value, tuple):
        return tuple(shaped_like(part, leaves) for part in value)
    return None if value is None else next(leaves)


def of_type(ty: ir.Type, leaves: Iterator[Tensor]) -> Value:
    """Return tensors in the structure of a type."""
    if isinstance(ty, relax.TupleType):
        return tuple(of_type(part, leaves) for part in ty.fields)
    return next(leaves)


def leaf_types(ty: ir.Type) -> Iterator[ir.Type]:
    """Yield the types of the tensors of a value of a type, in their order."""
    if isinstance(ty, relax.TupleType):
        for part in ty.fields:
            yield from leaf_types(part)
    else:
        yield ty


def tensor_of(ty: ir.Type, name: str) -> Tensor:
    """Return a new tensor of a type; CompileError where its sizes are not known."""
    if not isinstance(ty, relax.TensorType):
        raise CompileError(f"{name} is a {type(ty).__name__.removesuffix('Type').lower()}: C gets tensors alone")
    shape = getattr(ty.shape, "values", None)
    if shape is None or not all(isinstance(d, tirx.IntImm) for d in shape):
        raise CompileError(f"{name} is {ty}: C needs sizes that are known when it is compiled")
    return Tensor.new(str(ty.dtype), [int(d) for d in shape])


def as_tensor(value: Value, name: str) -> Tensor:
    """Return a value that is one tensor; CompileError where it is not."""
    if not isinstance(value, Tensor):
        raise CompileError(f"{name}: expected a tensor, got {'several' if value else 'a shape'}")
    return value
