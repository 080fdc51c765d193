"""What a dimension is: an int, a symbolic integer, or ``Any``, which is known only at run time."""

from __future__ import annotations

from typing import TypeAlias

import tvm

from .lifetime import py_class

__all__ = ["Any", "Dim"]


@py_class("relay.Any")
class Any(tvm.ir.Expr):
    """A dimension that is known only at run time; printed as ``?``."""

    def __str__(self) -> str:
        return "?"


Dim: TypeAlias = int | Any | tvm.ir.Expr
