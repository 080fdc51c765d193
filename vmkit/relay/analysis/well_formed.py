"""Whether every variable is bound once, and used only where it is bound."""

from __future__ import annotations

from typing import Any

import tvm

from ..ir import Function, Let, Match, RelayExpr, Var, children, pattern_vars, post_order
from .variables import binders

__all__ = ["well_formed"]


def well_formed(expr: RelayExpr) -> bool:
    """Say whether no variable of an expression (or of a module's functions) is bound twice or leaves its scope.

    Free variables are allowed. An expression that is used in several places binds its variables once.
    """
    if isinstance(expr, tvm.IRModule):
        return all(_is_well_formed(f) for f in expr.functions.values() if isinstance(f, Function))
    return _is_well_formed(expr)


def _is_well_formed(root: RelayExpr) -> bool:
    nodes = list(post_order(root))
    bound: set[Var] = set()
    for node in nodes:
        for variable in binders(node):
            if variable in bound:
                return False
            bound.add(variable)
    free: dict[Any, frozenset[Var]] = {}
    for node in nodes:
        free[node] = _free(node, free) & bound
    return not free[root]


def _free(node: RelayExpr, free: dict[RelayExpr, frozenset[Var]]) -> frozenset[Var]:
    """Return the free variables of a node from those of its parts."""
    match node:
        case Var():
            return frozenset([node])
        case Function():
            return free[node.body] - set(node.params)
        case Let():
            # The value of a function may refer to the variable.
            value = free[node.value] - {node.var} if isinstance(node.value, Function) else free[node.value]
            return value | (free[node.body] - {node.var})
        case Match():
            parts = [free[c.rhs] - set(pattern_vars(c.lhs)) for c in node.clauses]
            return free[node.data].union(*parts)
    return frozenset().union(*(free[part] for part in children(node)))
