"""Which expressions do more than give a value: change a cell, draw a random number, print.

Dropping, doubling or reordering such an expression changes what a program does. An error at run time is no effect,
nor is a loop that does not end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tvm

from ..ir import (
    Call,
    Constructor,
    Function,
    GlobalVar,
    Let,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    Var,
    children,
    post_order,
)
from ..op.registry import entry

__all__ = ["effectful", "effectful_globals"]


def effectful(expr: RelayExpr, impure_globals: Iterable[GlobalVar] = ()) -> set[RelayExpr]:
    """Return the expressions at or below one whose evaluation may have an effect.

    Making a function has none; calling it may. A function that is not known, such as a parameter, is taken to have
    effects.

    Parameters
    ----------
    expr : Expr or Function
        The expression; for a function, its body is meant.
    impure_globals : iterable of GlobalVar
        The global functions whose calls have effects; see :func:`effectful_globals`.
    """
    nodes = list(post_order(expr.body if isinstance(expr, Function) else expr))
    functions = {n.var: n.value for n in nodes if isinstance(n, Let) and isinstance(n.value, Function)}
    impure = set(impure_globals)
    found: set[Any] = set()
    # A recursive function is taken to be pure until its body is seen not to be.
    while True:
        before = len(found)
        for node in nodes:
            if node not in found and _is_effectful(node, found, functions, impure):
                found.add(node)
        if len(found) == before:
            return found


def effectful_globals(mod: tvm.IRModule) -> set[GlobalVar]:
    """Return the global functions of a module whose calls may have effects."""
    functions = {v: f for v, f in mod.functions.items() if isinstance(f, Function)}
    found: set[GlobalVar] = {v for v in mod.functions if v not in functions}
    while True:
        new = {v for v, f in functions.items() if v not in found and f.body in effectful(f, found)}
        if not new:
            return found
        found |= new


def _is_effectful(
    node: RelayExpr, found: set[RelayExpr], functions: Mapping[Var, Function], impure: set[GlobalVar]
) -> bool:
    if isinstance(node, RefCreate | RefRead | RefWrite):
        return True
    if isinstance(node, Function):
        return False
    if any(part in found for part in children(node)):
        return True
    return isinstance(node, Call) and _has_effect_when_called(node.op, found, functions, impure)


def _has_effect_when_called(
    callee: RelayExpr, found: set[RelayExpr], functions: Mapping[Var, Function], impure: set[GlobalVar]
) -> bool:
    if isinstance(callee, Op):
        return not entry(callee).is_pure
    if isinstance(callee, Constructor):
        return False
    if isinstance(callee, GlobalVar):
        return callee in impure
    if isinstance(callee, Function):
        return callee.body in found
    if isinstance(callee, Var) and callee in functions:
        return functions[callee].body in found
    return True
