"""A tuple-valued expression that unpacks in Python."""

from __future__ import annotations

from collections.abc import Iterator

import tvm_ffi

from ..._tvm.running import ObjectConvertible
from .expr import Expr, TupleGetItem

__all__ = ["TupleWrapper"]


class TupleWrapper(ObjectConvertible):
    """A tuple-valued expression of known size: index it, unpack it, or pass it where an expression is expected.

    Parameters
    ----------
    tuple_value : Expr
        An expression whose type is a tuple.
    size : int
        The number of fields.

    Examples
    --------
    >>> from vmkit import relay
    >>> left, right = relay.split(relay.var("x", shape=(2, 4)), 2, axis=1)
    >>> right.index
    1
    """

    def __init__(self, tuple_value: Expr, size: int) -> None:
        self.tuple_value = tuple_value
        self.size = size

    def asobject(self) -> tvm_ffi.Object:
        """Return the expression; TVM's FFI calls this where an expression is expected."""
        return self.tuple_value

    def astuple(self) -> Expr:
        """Return the tuple-valued expression."""
        return self.tuple_value

    def astext(self, show_meta_data: bool = True) -> str:
        """Return the text of the tuple-valued expression."""
        return str(self.tuple_value.astext(show_meta_data))

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> TupleGetItem:
        if not -self.size <= index < self.size:
            raise IndexError(f"field {index} of a tuple of {self.size}")
        return TupleGetItem(self.tuple_value, index % self.size)

    def __iter__(self) -> Iterator[TupleGetItem]:
        return (self[i] for i in range(self.size))
