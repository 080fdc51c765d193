"""References: cells whose value changes."""

from __future__ import annotations

from typing import Any

from tvm.ir import Span

from .expr import Expr, RelayExpr
from .lifetime import py_class
from .types import RefType

__all__ = ["RefCreate", "RefRead", "RefType", "RefWrite"]


@py_class("relay.RefCreate", structural_eq="dag", init=False, repr=False)
class RefCreate(Expr):
    """A new cell that holds a value."""

    value: Any

    def __init__(self, value: RelayExpr, span: Span | None = None) -> None:
        self.__ffi_init__(value=value, span=span)


@py_class("relay.RefRead", structural_eq="dag", init=False, repr=False)
class RefRead(Expr):
    """The value that a cell holds now."""

    ref: Any

    def __init__(self, ref: RelayExpr, span: Span | None = None) -> None:
        self.__ffi_init__(ref=ref, span=span)


@py_class("relay.RefWrite", structural_eq="dag", init=False, repr=False)
class RefWrite(Expr):
    """Put a value into a cell; gives the empty tuple."""

    ref: Any
    value: Any

    def __init__(self, ref: RelayExpr, value: RelayExpr, span: Span | None = None) -> None:
        self.__ffi_init__(ref=ref, value=value, span=span)
