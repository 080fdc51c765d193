"""Expressions become simpler ones of the same value; the rules are in the package ``simplify``."""

from __future__ import annotations

from ..ir import Call, Function, Op, RelayExpr
from .known_type import rewrite_typed, type_of
from .registry import ModuleTransform, per_function, relay_pass
from .simplify import RULES

__all__ = ["SimplifyExpr", "simplify_expr"]

# A rule may make work for another, and none undoes what another did; this many rounds are never needed.
_MOST_ROUNDS = 100


@relay_pass(opt_level=0)
def SimplifyExpr() -> ModuleTransform:
    """Return the pass that simplifies calls of operators; see :func:`simplify_expr`."""
    return per_function(simplify_expr)


@relay_pass(opt_level=0)
def SimplifyExprPostAlterOp() -> ModuleTransform:
    """Return the pass of this name, which does what ``SimplifyExpr`` does."""
    return per_function(simplify_expr)


def simplify_expr(function: Function) -> Function:
    """Return a typed function to which no rule of simplification applies any more."""
    for _ in range(_MOST_ROUNDS):
        simpler = rewrite_typed(function, _simplified)
        if simpler.same_as(function):
            break
        function = simpler
    return function


def _simplified(node: RelayExpr) -> RelayExpr:
    for _ in range(_MOST_ROUNDS):
        changed = _applied(node)
        if changed is None:
            break
        type_of(changed)
        node = changed
    return node


def _applied(node: RelayExpr) -> RelayExpr | None:
    if not (isinstance(node, Call) and isinstance(node.op, Op)):
        return None
    results = (rule(node) for rule in RULES.get(node.op.name, ()))
    return next((result for result in results if result is not None), None)
