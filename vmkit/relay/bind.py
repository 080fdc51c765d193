"""Put expressions in the place of variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from .ir import Function, RelayExpr, Var, free_vars, rewrite

__all__ = ["bind"]


def bind(expr: RelayExpr, binds: Mapping[Var | str, RelayExpr]) -> RelayExpr:
    """Return an expression with expressions in the place of free variables, or of parameters of a function.

    Parameters
    ----------
    expr : Expr or Function
        A function loses the parameters that are bound. Variables that came in with the new expressions and were not
        there before become its last parameters.
    binds : mapping of Var to Expr
        What stands in the place of which variable. As in Relay, a variable may be given by its name.

    Raises
    ------
    InputError
        When a name is not that of one free variable or parameter.
    """
    if not isinstance(expr, Function):
        return rewrite(expr, _by_variable(free_vars(expr), binds))
    before = free_vars(expr)
    values = _by_variable([*expr.params, *before], binds)
    body = rewrite(expr.body, values)
    params = [p for p in expr.params if p not in values]
    made = Function(params, body, expr.ret_type, list(expr.type_params), expr.attrs, expr.span)
    new = [v for v in free_vars(made) if v not in before]
    return Function([*params, *new], body, expr.ret_type, list(expr.type_params), expr.attrs, expr.span)


def _by_variable(variables: list[Var], binds: Mapping[Var | str, RelayExpr]) -> dict[Var, RelayExpr]:
    values: dict[Var, Any] = {}
    for key, value in binds.items():
        if isinstance(key, Var):
            values[key] = value
            continue
        named = [v for v in variables if v.name_hint == key]
        if len(named) != 1:
            raise InputError(f"{len(named)} variables are named {key!r}; bind the variable itself")
        values[named[0]] = value
    return values
