"""Operators on the memory of values, which Relay's passes put into programs for the virtual machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax
from tvm.ir import TupleType

from ..ir.types import Type
from .registry import OpPattern, entry, operator

if TYPE_CHECKING:
    from ..ir.expr import Expr
    from ..lower.context import LowerContext, Value

__all__ = ["kill"]


@operator("memory.kill", "data", level=10, pattern=OpPattern.OPAQUE, pure=False)
class Kill:
    """Nothing; it says that the value of a variable is not needed any more."""

    @staticmethod
    def relation(attrs: None, data: Type) -> Type:
        return TupleType([])

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: Value) -> Value:
        # Relax's memory planner finds out by itself what is not needed any more.
        return relax.Tuple([])


def kill(data: Expr) -> Expr:
    """Return what says that the value of a variable is not needed any more: an empty tuple."""
    return entry("memory.kill").call(data)
