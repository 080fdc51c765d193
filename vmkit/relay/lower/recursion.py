"""Which functions of a module are recursive, and which of their calls are tail calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm.ir import GlobalVar

from ..ir.expr import Call, Function, If, Let
from ..ir.visit import post_order

__all__ = ["RECURSION_LIMIT", "recursive_functions", "tail_calls"]

# A level of a recursion takes some 5 kB of stack in TVM's virtual machine; the machine's deep stack holds this many.
RECURSION_LIMIT = 200_000


def recursive_functions(functions: Mapping[GlobalVar, Function]) -> set[GlobalVar]:
    """Return the functions that may call themselves, directly or through others."""
    callees = {gvar: _referenced(function) for gvar, function in functions.items()}
    return {gvar for gvar in functions if _reaches(gvar, callees)}


def _referenced(function: Function) -> set[GlobalVar]:
    """Return the global functions that a function mentions."""
    return {node for node in post_order(function) if isinstance(node, GlobalVar)}


def _reaches(start: GlobalVar, callees: Mapping[GlobalVar, set[GlobalVar]]) -> bool:
    waiting, seen = list(callees[start]), set()
    while waiting:
        gvar = waiting.pop()
        if gvar.same_as(start):
            return True
        if gvar not in seen:
            seen.add(gvar)
            waiting.extend(callees.get(gvar, ()))
    return False


def tail_calls(body: Any) -> set[Any]:
    """Return the expressions whose value is the value of a function body: its tail calls and tail branches."""
    tails: set[Any] = set()
    waiting = [body]
    while waiting:
        expr = waiting.pop()
        while isinstance(expr, Let):
            expr = expr.body
        if isinstance(expr, If):
            tails.add(expr)
            waiting += [expr.true_branch, expr.false_branch]
        elif isinstance(expr, Call):
            tails.add(expr)
    return tails
