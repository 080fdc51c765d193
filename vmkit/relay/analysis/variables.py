"""The variables of an expression."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir import Function, Let, Match, Pattern, RelayExpr, Var, free_vars, pattern_vars, post_order

__all__ = ["all_vars", "binders", "bound_vars", "free_vars"]


def binders(node: RelayExpr) -> Iterable[Var]:
    """Return the variables that a node itself binds."""
    if isinstance(node, Function):
        return list(node.params)
    if isinstance(node, Let):
        return [node.var]
    if isinstance(node, Match):
        return [v for clause in node.clauses for v in pattern_vars(clause.lhs)]
    return []


def all_vars(expr: RelayExpr) -> list[Var]:
    """Return all variables of an expression, in the order in which they are first met."""
    return [node for node in post_order(expr) if isinstance(node, Var)]


def bound_vars(expr: RelayExpr | Pattern) -> list[Var]:
    """Return the variables that an expression (or a pattern) binds, in the order in which they are first met."""
    if isinstance(expr, Pattern):
        return list(pattern_vars(expr))
    bound = {v for node in post_order(expr) for v in binders(node)}
    return [v for v in all_vars(expr) if v in bound]
