"""Where a shared expression is bound: the innermost scope that encloses all its uses."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..ir import Function, If, Let, Match, RelayExpr, children, pattern_vars, post_order

__all__ = ["ScopePlan"]


class _Scope:
    """A scope of the text to be: the whole, a branch, a clause, the body of a function, what follows a Let."""

    __slots__ = ("depth", "outer")

    def __init__(self, outer: _Scope | None = None) -> None:
        self.outer = outer
        self.depth: int = outer.depth + 1 if outer is not None else 1


def _enclosing(a: _Scope, b: _Scope) -> _Scope:
    while a is not b:
        if a.depth >= b.depth:
            a = a.outer or b
        else:
            b = b.outer or a
    return a


class ScopePlan:
    """The uses of each expression below `root`, and how many scopes enclose the place where it is bound."""

    def __init__(self, root: RelayExpr) -> None:
        order = list(post_order(root))
        self.uses = Counter(child for expr in order for child in children(expr))
        homes: dict[Any, _Scope] = {root: _Scope()}
        for expr in reversed(order):
            home = homes[expr]
            for child, scope in zip(children(expr), _scopes_below(expr, home), strict=True):
                known = homes.get(child)
                homes[child] = scope if known is None else _enclosing(known, scope)
        self.depths = {expr: home.depth for expr, home in homes.items()}


def _scopes_below(expr: RelayExpr, home: _Scope) -> list[_Scope]:
    """Return the scope that each child of an expression is printed in."""
    if isinstance(expr, Let):
        return [home, home, _Scope(home)]
    if isinstance(expr, If):
        return [home, _Scope(home), _Scope(home)]
    if isinstance(expr, Match):
        clauses = [(_Scope(home), len(list(pattern_vars(clause.lhs))) + 1) for clause in expr.clauses]
        return [home, *(scope for scope, count in clauses for _ in range(count))]
    if isinstance(expr, Function):
        inner = _Scope(home)
        return [inner] * (len(expr.params) + 1)
    return [home] * len(children(expr))
