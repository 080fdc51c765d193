"""Operators that compute every element of their result from the same element of their operands, or only move them."""

from __future__ import annotations

from ..ir import Call, Op, RelayExpr
from .registry import OpPattern, entry

__all__ = ["MAX_POOLS", "is_broadcast", "is_move", "is_pointwise"]

MAX_POOLS = ("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d")
"""Operators each element of whose result is one of the first operand's: the largest of a window."""


def is_pointwise(expr: RelayExpr) -> bool:
    """Say whether an expression is a call of one tensor that does the same to every element, wherever it is."""
    if not (isinstance(expr, Call) and isinstance(expr.op, Op) and len(expr.args) == 1):
        return False
    known = entry(expr.op)
    return known.pattern == OpPattern.ELEMWISE and not known.by_place


def is_broadcast(expr: RelayExpr) -> bool:
    """Say whether an expression is a call of two tensors, broadcast, that does the same to every pair of elements."""
    if not (isinstance(expr, Call) and isinstance(expr.op, Op) and len(expr.args) == 2):
        return False
    return expr.attrs is None and entry(expr.op).pattern == OpPattern.BROADCAST and "broadcast" not in expr.op.name


def is_move(expr: RelayExpr) -> bool:
    """Say whether an expression is a call whose result has the elements of the first operand, in another order."""
    return isinstance(expr, Call) and isinstance(expr.op, Op) and entry(expr.op).moves
