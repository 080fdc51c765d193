"""Global functions marked to be inlined become what they compute, where they are called."""

from __future__ import annotations

import tvm
from tvm.ir import GlobalVar

from ..analysis.effects import effectful, effectful_globals
from ..analysis.infer_type import infer_module, typed
from ..ir import Call, Function, Let, RelayExpr, Var, post_order, rewrite, with_functions
from .fresh_copy import fresh_copy
from .registry import ModuleTransform, relay_pass

__all__ = ["Inline", "inlined_module"]


@relay_pass(opt_level=1)
def Inline() -> ModuleTransform:
    """Return the pass that inlines the global functions whose attribute ``Inline`` is 1; see :func:`inlined_module`."""
    return lambda mod: inlined_module(typed(mod))


def inlined_module(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a typed module without the functions marked ``Inline`` that do not call themselves.

    A function that is meant for another compiler stays one, as the function called in place of its name. A function
    whose name is also used otherwise than in a call is inlined where it is called, and kept.
    """
    functions = {v: f for v, f in mod.functions.items() if isinstance(f, Function)}
    marked = [v for v, f in functions.items() if f.attrs.get("Inline") and v not in _reached(functions, v)]
    if not marked:
        return mod
    impure = effectful_globals(mod)
    done: dict[GlobalVar, Function] = {}

    def finished(gvar: GlobalVar) -> Function:
        if gvar not in done:
            done[gvar] = rewrite(functions[gvar], {}, replaced)
        return done[gvar]

    def replaced(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if not (isinstance(node, Call) and isinstance(node.op, GlobalVar) and node.op in marked):
            return node
        function = finished(node.op)
        if function.attrs.get("Compiler"):
            return Call(fresh_copy(function), list(node.args), node.attrs, list(node.type_args), node.span)
        return _applied(function, list(node.args), effectful(original, impure))

    result = {v: finished(v) if v in functions else f for v, f in mod.functions.items()}
    kept = {n for v, f in result.items() if v not in marked and v in functions for n in _names(f)}
    for gvar in marked:
        if gvar not in kept:
            del result[gvar]
    return infer_module(with_functions(mod, result))


def _names(function: Function) -> set[GlobalVar]:
    return {node for node in post_order(function) if isinstance(node, GlobalVar)}


def _reached(functions: dict[GlobalVar, Function], start: GlobalVar) -> set[GlobalVar]:
    """Return the functions that one uses, directly or through others."""
    found: set[GlobalVar] = set()
    waiting = [start]
    while waiting:
        new = {v for v in _names(functions[waiting.pop()]) if v in functions} - found
        found |= new
        waiting += new
    return found


def _applied(function: Function, args: list[RelayExpr], impure: set[RelayExpr]) -> RelayExpr:
    """Return a copy of a function's body on arguments; those with effects are bound before it, in order."""
    has_effect = any(node in impure for arg in args for node in post_order(arg))
    if not has_effect:
        return fresh_copy(function.body, dict(zip(function.params, args, strict=True)))
    names = [Var(p.name_hint, p.type_annotation) for p in function.params]
    body = fresh_copy(function.body, dict(zip(function.params, names, strict=True)))
    for name, arg in reversed(list(zip(names, args, strict=True))):
        body = Let(name, arg, body)
    return body
