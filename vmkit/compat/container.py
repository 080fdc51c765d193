"""``tvm.runtime.container``: values that are not arrays, under their old names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tvm_ffi

from vmkit.values import conversion as values

__all__ = ["ADT", "ShapeTuple", "String", "tuple_object"]

String = str
ShapeTuple = tvm_ffi.Shape


class _TupleOrADT(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, values.ADT | tuple)

    def __call__(cls, tag: int, fields: Sequence[Any]) -> values.ADT:
        return values.ADT(tag, fields)


class ADT(metaclass=_TupleOrADT):
    """Makes a value of a data type; ``isinstance`` knows them, and tuples, which had the same class in Relay."""


def tuple_object(fields: Iterable[Any] | None = None) -> tuple[Any, ...]:
    """Return a tuple value."""
    return tuple(fields or ())
