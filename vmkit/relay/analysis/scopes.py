"""Where shared expressions are computed: once, in the innermost scope that all their uses are in.

The body of a function, a branch of an If and the right side of a clause are scopes: what stands in them is computed
when they are entered, and so perhaps never, or many times. An expression that only one branch uses is computed there;
one that both branches use, or a branch and what follows the If, is computed before the If. Left to the place of its
first use it would be computed again in every branch, and a chain of Ifs would double with each link.
"""

from __future__ import annotations

from typing import TypeAlias

from ..._dataclasses import dataclass
from ..ir import (
    Constant,
    Constructor,
    Function,
    GlobalVar,
    If,
    Match,
    Op,
    RelayExpr,
    Var,
    children,
    pattern_vars,
    post_order,
)
from .variables import binders

__all__ = ["Owner", "Scope", "check_basic_block_normal_form", "hoisted", "scopes"]


Owner: TypeAlias = Function | If | Match
"""What scopes are parts of."""


@dataclass(frozen=True, eq=False)
class Scope:
    """A scope, and the function, If or Match that it is a part of; the outermost has none."""

    parent: Scope | None = None
    owner: Owner | None = None
    depth: int = 0

    def within(self, owner: Owner) -> Scope:
        """Return a new scope inside this one."""
        return Scope(self, owner, self.depth + 1)

    def is_in(self, other: Scope) -> bool:
        """Say whether this scope is another or inside it."""
        scope: Scope | None = self
        while scope is not None and scope.depth > other.depth:
            scope = scope.parent
        return scope is other


def scopes(body: RelayExpr) -> dict[RelayExpr, Scope]:
    """Return the scope of every expression below (and including) one, which is the innermost that holds its uses."""
    found, _ = _uses(body)
    return found


def hoisted(body: RelayExpr, *, enter_functions: bool = True) -> dict[Owner, list[RelayExpr]]:
    """Return, for each function, If and Match, the expressions to compute before it that its scopes share with others.

    Parameters
    ----------
    body : Expr or Function
        The expression.
    enter_functions : bool
        Whether the bodies of functions are scopes of it. Otherwise a function is a name, which computes nothing here.

    Returns
    -------
    dict
        Expressions other than constants, variables and names, in an order in which each can be computed after those
        before it.
    """
    names: tuple[type, ...] = (Constant, Constructor, GlobalVar, Op, Var, *(() if enter_functions else (Function,)))
    own, uses = _uses(body, enter_functions)
    position = {node: i for i, node in enumerate(post_order(body))}
    shared: dict[Owner, dict[RelayExpr, None]] = {}
    for expr, scope in uses:
        if scope is not own[expr] and not isinstance(expr, names):
            shared.setdefault(_entered(scope, own[expr]), {})[expr] = None
    return {owner: sorted(exprs, key=position.__getitem__) for owner, exprs in shared.items()}


def check_basic_block_normal_form(expr: RelayExpr) -> bool:
    """Say whether every expression, but for constants and bound variables, is used in one scope only."""
    own, uses = _uses(expr)
    bound = {v for node in own for v in binders(node)}
    return all(
        scope is own[used] or used in bound or isinstance(used, Constant | Constructor | GlobalVar | Op)
        for used, scope in uses
    )


def _uses(
    body: RelayExpr, enter_functions: bool = True
) -> tuple[dict[RelayExpr, Scope], list[tuple[RelayExpr, Scope]]]:
    """Return the scope of every expression, and every use of an expression with the scope that it is in."""
    own: dict[RelayExpr, Scope] = {body: Scope()}
    uses: list[tuple[RelayExpr, Scope]] = []
    # Users come before what they use, so a node's scope is final when it is reached.
    for node in reversed(list(post_order(body))):
        if node not in own or (isinstance(node, Function) and not enter_functions):
            continue
        for part, scope in _parts(node, own[node]):
            uses.append((part, scope))
            own[part] = _common(own[part], scope) if part in own else scope
    return own, uses


def _parts(node: RelayExpr, scope: Scope) -> list[tuple[RelayExpr, Scope]]:
    match node:
        case If():
            branches = [(part, scope.within(node)) for part in (node.true_branch, node.false_branch)]
            return [(node.cond, scope), *branches]
        case Function():
            inner = scope.within(node)
            return [(part, inner) for part in children(node)]
        case Match():
            return [(node.data, scope), *_clause_parts(node, scope)]
    return [(part, scope) for part in children(node)]


def _clause_parts(match: Match, scope: Scope) -> list[tuple[RelayExpr, Scope]]:
    parts: list[tuple[RelayExpr, Scope]] = []
    for clause in match.clauses:
        inner = scope.within(match)
        parts += [(part, inner) for part in (*pattern_vars(clause.lhs), clause.rhs)]
    return parts


def _common(a: Scope, b: Scope) -> Scope:
    while a is not b:
        if a.depth >= b.depth and a.parent is not None:
            a = a.parent
        elif b.parent is not None:
            b = b.parent
    return a


def _entered(inner: Scope, outer: Scope) -> Owner:
    """Return the node through which one goes from an outer scope towards an inner one."""
    while inner.parent is not outer and inner.parent is not None:
        inner = inner.parent
    assert inner.owner is not None
    return inner.owner
