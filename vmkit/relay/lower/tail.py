"""Which calls of a function are tail calls: those whose value is the function's own.

The result of a tail call is passed on untouched, so that the bytecode of a function that ends by calling itself can be
made a loop.
"""

from __future__ import annotations

from typing import Any

from ..ir.adt import Match
from ..ir.expr import Call, If, Let, RelayExpr

__all__ = ["tail_calls"]


def tail_calls(body: RelayExpr) -> set[RelayExpr]:
    """Return the expressions whose value is the value of a function body: its tail calls and tail branches."""
    tails: set[Any] = set()
    waiting = [body]
    while waiting:
        expr = waiting.pop()
        while isinstance(expr, Let):
            expr = expr.body
        if isinstance(expr, If):
            tails.add(expr)
            waiting += [expr.true_branch, expr.false_branch]
        elif isinstance(expr, Match):
            tails.add(expr)
            waiting += [clause.rhs for clause in expr.clauses]
        elif isinstance(expr, Call):
            tails.add(expr)
    return tails
