"""Loops: functions that call themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .ir import Function, Let, Tuple, Var, var
from .scope_builder import ScopeBuilder

__all__ = ["while_loop"]


def while_loop(cond: Callable[..., Any], loop_vars: Sequence[Any], loop_bodies: Callable[..., Sequence[Any]]) -> Let:
    """Return a function that computes a loop: called with the initial values, it gives a tuple of the final ones.

    Parameters
    ----------
    cond : callable
        Takes the loop's variables and returns whether to go on, a boolean scalar.
    loop_vars : sequence of Expr
        What gives the variables their types, and, where they are variables, their names.
    loop_bodies : callable
        Takes the loop's variables and returns the next values of all of them.
    """
    builder = ScopeBuilder()
    loop = Var("while_loop")
    variables = [
        var(given.name_hint if isinstance(given, Var) else f"arg{i}", builder.type_of(given))
        for i, given in enumerate(loop_vars)
    ]
    with builder.if_scope(cond(*variables)):
        builder.ret(loop(*loop_bodies(*variables)))
    with builder.else_scope():
        builder.ret(Tuple(variables))
    return Let(loop, Function(variables, builder.get()), loop)
