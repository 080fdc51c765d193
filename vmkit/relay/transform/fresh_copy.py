"""A copy of an expression that shares nothing with it that is computed or bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.variables import bound_vars
from ..ir import Constant, Constructor, Function, GlobalVar, Op, RelayExpr, Var, children, post_order
from ..ir.visit import rebuilt

__all__ = ["applied_copy", "fresh_copies", "fresh_copy"]

# What is the same wherever it stands.
_SHARED = (Constant, Constructor, GlobalVar, Op, Var)


def fresh_copy(expr: RelayExpr, values: Mapping[Var, RelayExpr] | None = None) -> RelayExpr:
    """Return a copy of an expression with variables of its own, to stand beside the original in one program.

    Parameters
    ----------
    expr : Expr or Function
        The expression.
    values : mapping of Var to Expr, optional
        What stands in the place of which of its variables.
    """
    return fresh_copies(expr, values)[expr]


def fresh_copies(expr: RelayExpr, values: Mapping[Var, RelayExpr] | None = None) -> Mapping[Any, RelayExpr]:
    """Return the copies of all expressions below and including one; see :func:`fresh_copy`."""
    done: dict[Any, Any] = {v: Var(v.name_hint, v.type_annotation, v.span) for v in bound_vars(expr)}
    done.update(values or {})
    for node in post_order(expr, stop=done.copy()):
        done[node] = node if isinstance(node, _SHARED) else rebuilt(node, [done[c] for c in children(node)])
    return done


def applied_copy(function: Function, args: Sequence[RelayExpr]) -> RelayExpr:
    """Return a copy of a function's body with arguments in the place of its parameters."""
    return fresh_copy(function.body, dict(zip(function.params, args, strict=True)))
