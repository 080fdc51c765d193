"""Where shared expressions are computed: once, in the innermost scope that all their uses are in.

A branch of an If is a scope, and so is a clause of a Match. An expression that only one branch uses is computed there,
and so perhaps never; one that both branches use, or a branch and what follows the If, is computed before the If. Left
to the place of its first use it would be computed again in every branch, and a chain of Ifs would double with each
link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ir import Call, If, Let, Match, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, children, post_order

__all__ = ["computed_before"]


_COMPUTED = Call | If | Let | Match | RefCreate | RefRead | RefWrite | Tuple | TupleGetItem


@dataclass(frozen=True, eq=False)
class _Scope:
    """A function body, or a branch of `owner`."""

    parent: _Scope | None
    owner: If | Match | None
    depth: int

    def branch(self, owner: If | Match) -> _Scope:
        return _Scope(self, owner, self.depth + 1)


def computed_before(body: Any) -> dict[If | Match, list[Any]]:
    """Return, for every If and Match of a function body, the expressions to compute before it that its branches share.

    Parameters
    ----------
    body : Expr
        The body; its local functions have been lifted.

    Returns
    -------
    dict
        Expressions in an order in which each can be computed after those before it.
    """
    order = list(post_order(body))
    scopes: dict[Any, _Scope] = {body: _Scope(None, None, 0)}
    uses: list[tuple[Any, _Scope]] = []
    # Users come before what they use, so a node's scope is final when it is reached.
    for node in reversed(order):
        own = scopes.get(node)
        if own is None:  # inside a function value
            continue
        for part, scope in _parts(node, own):
            uses.append((part, scope))
            scopes[part] = _common(scopes[part], scope) if part in scopes else scope
    position = {node: i for i, node in enumerate(order)}
    found: dict[If | Match, dict[Any, None]] = {}
    for expr, scope in uses:
        if scopes[expr] is not scope and isinstance(expr, _COMPUTED):
            found.setdefault(_entered(scope, scopes[expr]), {})[expr] = None
    return {owner: sorted(shared, key=position.__getitem__) for owner, shared in found.items()}


def _parts(node: Any, scope: _Scope) -> list[tuple[Any, _Scope]]:
    if isinstance(node, If):
        branches = [(node.true_branch, scope.branch(node)), (node.false_branch, scope.branch(node))]
        return [(node.cond, scope), *branches]
    if isinstance(node, Match):
        return [(node.data, scope), *((clause.rhs, scope.branch(node)) for clause in node.clauses)]
    if isinstance(node, _COMPUTED):
        return [(part, scope) for part in children(node)]
    return []


def _common(a: _Scope, b: _Scope) -> _Scope:
    """Return the innermost scope that holds both."""
    while a is not b:
        if a.depth >= b.depth and a.parent is not None:
            a = a.parent
        elif b.parent is not None:
            b = b.parent
    return a


def _entered(inner: _Scope, outer: _Scope) -> If | Match:
    """Return the If through which one goes from an outer scope towards an inner one."""
    while inner.parent is not outer and inner.parent is not None:
        inner = inner.parent
    assert inner.owner is not None
    return inner.owner
