"""Where a shared expression is bound: the innermost scope that encloses all its uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ..ir import Function, If, Let, Match, RelayExpr, children, pattern_vars, post_order

__all__ = ["ScopePlan"]


class _Scope:
    """A scope of the text to be: the whole, a branch, a clause, the body of a function, what follows a Let."""

    __slots__ = ("depth", "far", "outer")

    def __init__(self, outer: _Scope | None = None) -> None:
        self.outer = outer or self
        self.depth: int = outer.depth + 1 if outer is not None else 1
        # An enclosing scope so far out that any other is found in steps that grow with the logarithm of the depth.
        self.far = self.outer
        if outer is not None and outer.depth + outer.far.far.depth == 2 * outer.far.depth:
            self.far = outer.far.far


def _enclosing(a: _Scope, b: _Scope) -> _Scope:
    """Return the innermost scope that encloses two; a chain of Lets is as deep as the program is long."""
    while a.depth != b.depth:
        if a.depth < b.depth:
            a, b = b, a
        a = a.far if a.far.depth >= b.depth else a.outer
    while a is not b:
        a, b = (a.far, b.far) if a.far is not b.far else (a.outer, b.outer)
    return a


class ScopePlan:
    """The uses of each expression below `root`, and how many scopes enclose the place where it is bound."""

    def __init__(self, root: RelayExpr) -> None:
        order = [(expr, children(expr)) for expr in post_order(root)]
        self.uses = Counter(child for _, below in order for child in below)
        homes: dict[Any, _Scope] = {root: _Scope()}
        for expr, below in reversed(order):
            home = homes[expr]
            scopes = _SCOPES[type(expr)](expr, home) if type(expr) in _SCOPES else [home] * len(below)
            for child, scope in zip(below, scopes, strict=True):
                known = homes.get(child)
                homes[child] = scope if known is None else _enclosing(known, scope)
        self.depths = {expr: home.depth for expr, home in homes.items()}


def _match_scopes(match: Match, home: _Scope) -> list[_Scope]:
    clauses = [(_Scope(home), len(list(pattern_vars(clause.lhs))) + 1) for clause in match.clauses]
    return [home, *(scope for scope, count in clauses for _ in range(count))]


# The scope that each part of an expression is printed in, where that is not the one of the expression itself.
_SCOPES: dict[type, Callable[[Any, _Scope], list[_Scope]]] = {
    Function: lambda e, home: [_Scope(home)] * (len(e.params) + 1),
    If: lambda e, home: [home, _Scope(home), _Scope(home)],
    Let: lambda e, home: [home, home, _Scope(home)],
    Match: _match_scopes,
}
