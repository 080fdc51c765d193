"""``tvm.runtime.container``: values that are not arrays, under their old names."""

from __future__ import annotations

from typing import Any

import tvm_ffi

from vmkit.values import ADT

__all__ = ["ADT", "ShapeTuple", "String", "tuple_object"]

String = str
ShapeTuple = tvm_ffi.Shape


def tuple_object(fields: Any = None) -> tuple[Any, ...]:
    """Return a tuple value."""
    return tuple(fields or ())
