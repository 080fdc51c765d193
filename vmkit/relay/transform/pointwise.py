"""Operators that compute every element of their result from the same element of their operands."""

from __future__ import annotations

from ..ir import Call, Op, RelayExpr
from ..op.registry import OpPattern, entry

__all__ = ["is_broadcast", "is_pointwise"]

# Elementwise for fusion, but what they do depends on the place of the element.
_BY_PLACE = {"trilu", "fixed_point_multiply_per_axis"}


def is_pointwise(expr: RelayExpr) -> bool:
    """Say whether an expression is a call of one tensor that does the same to every element, wherever it is."""
    if not (isinstance(expr, Call) and isinstance(expr.op, Op) and len(expr.args) == 1):
        return False
    return entry(expr.op).pattern == OpPattern.ELEMWISE and expr.op.name not in _BY_PLACE


def is_broadcast(expr: RelayExpr) -> bool:
    """Say whether an expression is a call of two tensors, broadcast, that does the same to every pair of elements."""
    if not (isinstance(expr, Call) and isinstance(expr.op, Op) and len(expr.args) == 2):
        return False
    return expr.attrs is None and entry(expr.op).pattern == OpPattern.BROADCAST and "broadcast" not in expr.op.name
