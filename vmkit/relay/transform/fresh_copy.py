"""A copy of an expression that shares nothing with it that is computed or bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.variables import bound_vars
from ..expr_functor import ExprMutator
from ..ir import Function, RelayExpr, Var

__all__ = ["applied_copy", "fresh_copy"]


class _Copy(ExprMutator):
    def __init__(self, values: Mapping[Var, RelayExpr]) -> None:
        super().__init__()
        self.memo_map.update(values)


def fresh_copy(expr: RelayExpr, values: Mapping[Var, RelayExpr] | None = None) -> RelayExpr:
    """Return a copy of an expression with variables of its own, to stand beside the original in one program.

    Parameters
    ----------
    expr : Expr or Function
        The expression.
    values : mapping of Var to Expr, optional
        What stands in the place of which of its variables.
    """
    replaced: dict[Any, Any] = {v: Var(v.name_hint, v.type_annotation, v.span) for v in bound_vars(expr)}
    replaced.update(values or {})
    return _Copy(replaced).visit(expr)


def applied_copy(function: Function, args: Sequence[RelayExpr]) -> RelayExpr:
    """Return a copy of a function's body with arguments in the place of its parameters."""
    return fresh_copy(function.body, dict(zip(function.params, args, strict=True)))
