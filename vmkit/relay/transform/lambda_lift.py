"""Local functions become global ones: what they capture is handed to them as arguments.

A function that a Let names and that is only ever called (a loop, a helper) is lifted. A function literal that is
called where it stands becomes Lets. What is left afterwards are function values: closures that are passed on, stored
or returned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, cast

import tvm
from tvm.ir import GlobalVar

from ..analysis.infer_type import infer_module, typed
from ..ir import Call, Function, Let, RelayExpr, Var, children, free_vars, post_order, rewrite, with_functions
from .fresh_copy import fresh_copy
from .registry import ModuleTransform, is_changeable, relay_pass

__all__ = ["LiftCalledFunctions", "lambda_lift"]


@relay_pass(opt_level=0)
def LiftCalledFunctions() -> ModuleTransform:
    """Return the pass that makes local functions global where they are only called; see :func:`lambda_lift`."""
    return lambda mod: lambda_lift(typed(mod))


def lambda_lift(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a typed module whose local functions have become global where they are only called."""
    functions = {v: f for v, f in mod.functions.items() if is_changeable(f)}
    if not any(_has_local_function(f) for f in functions.values()):
        return mod
    result = with_functions(mod)
    taken = {v.name_hint for v in mod.functions}
    for gvar, function in functions.items():
        lifting = _Lifting(rewrite(function, {}, _called_within), gvar.name_hint, taken)
        result[gvar] = lifting.run()
        for lifted, body in lifting.lifted.items():
            result[lifted] = body
    return infer_module(result)


def _has_local_function(function: Function) -> bool:
    return any(isinstance(node, Function) for node in post_order(function.body))


def _called_within(node: RelayExpr, original: RelayExpr) -> RelayExpr:
    """Move a call of what a Let gives into the Let: ``(let f = ..; f)(x)`` becomes ``let f = ..; f(x)``."""
    if not (isinstance(node, Call) and isinstance(node.op, Let)):
        return node
    chain, callee = [], node.op
    while isinstance(callee, Let):
        chain.append(callee)
        callee = callee.body
    result: Any = Call(callee, list(node.args), node.attrs, list(node.type_args), node.span)
    for let in reversed(chain):
        result = Let(let.var, let.value, result, let.span)
    return result


class _Lifting:
    """The local functions of one global function."""

    def __init__(self, function: Function, name: str, taken: set[str]) -> None:
        self.function = function
        self.name, self.taken = name, taken
        lets = [n for n in post_order(function) if isinstance(n, Let) and isinstance(n.value, Function)]
        called = _only_called(function, [let.var for let in lets])
        self.locals = {let.var: let.value for let in lets if let.var in called}
        self.captured = _captures(self.locals)
        parts = (part for node in post_order(function) for part in children(node))
        self.uses = Counter(part for part in parts if isinstance(part, Function))
        self.names = {variable: GlobalVar(_fresh(f"{name}_{variable.name_hint}", taken)) for variable in self.locals}
        self.lifted: dict[GlobalVar, Function] = {}

    def run(self) -> Function:
        """Return the function without its local functions; they are in :attr:`lifted`."""
        return rewrite(self.function, {}, self.replace)

    def replace(self, node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if isinstance(original, Let) and original.var in self.locals:
            self.lifted[self.names[original.var]] = self.closed(node.value, self.captured[original.var])
            return node.body
        if isinstance(original, Call) and isinstance(original.op, Var) and original.op in self.locals:
            return Call(self.names[original.op], [*self.captured[original.op], *node.args], span=node.span)
        if isinstance(node, Call) and isinstance(node.op, Function) and len(node.op.params) == len(node.args):
            if node.op.type_params:
                return self.called_globally(node)
            # Parameters become Lets, each of which needs a variable of its own.
            callee = cast("Function", fresh_copy(node.op)) if self.uses[original.op] > 1 else node.op
            return _applied(callee, list(node.args))
        return node

    def called_globally(self, call: Call) -> Call:
        """Return a call of a function literal with type parameters, which only a function can have, as a global one."""
        captured = free_vars(call.op)
        place = GlobalVar(_fresh(f"{self.name}_local", self.taken))
        self.lifted[place] = self.closed(call.op, captured)
        return Call(place, [*captured, *call.args], span=call.span)

    def closed(self, function: Function, captured: Iterable[Var]) -> Function:
        """Return a function that takes what it captured as its first parameters."""
        own = {v: Var(v.name_hint, v.checked_type) for v in captured}
        body = rewrite(function.body, own)
        params = [*own.values(), *function.params]
        # A local function may speak of the type parameters of the one around it.
        type_params = [*self.function.type_params, *function.type_params]
        return Function(params, body, function.ret_type, type_params, function.attrs, function.span)


def _only_called(function: Function, variables: Iterable[Var]) -> set[Var]:
    """Return those of `variables` that stand nowhere but where a function is called."""
    called = set(variables)
    for node in post_order(function):
        parts = children(node)
        if isinstance(node, Call | Let):
            parts = parts[1:]  # the callee, or the variable bound
        called.difference_update(part for part in parts if isinstance(part, Var))
    return called


def _captures(functions: Mapping[Var, Function]) -> dict[Var, list[Var]]:
    """Return the variables that each local function needs from outside, also for the local functions it calls."""
    used = {name: free_vars(function) for name, function in functions.items()}
    captured = {name: [v for v in own if v not in functions] for name, own in used.items()}
    while True:
        grown = False
        for name, own in used.items():
            needed = [v for callee in own if callee in functions for v in captured[callee]]
            bound = set(functions[name].params)
            for variable in needed:
                if variable not in captured[name] and variable not in bound:
                    captured[name].append(variable)
                    grown = True
        if not grown:
            return captured


def _applied(function: Function, args: list[RelayExpr]) -> RelayExpr:
    body = function.body
    for parameter, arg in reversed(list(zip(function.params, args, strict=True))):
        body = Let(parameter, arg, body)
    return body


def _fresh(name: str, taken: set[str]) -> str:
    number, chosen = 0, name
    while chosen in taken:
        number += 1
        chosen = f"{name}_{number}"
    taken.add(chosen)
    return chosen
