"""Every function literal becomes a global function, closures too: as Relay lifted them for its virtual machine.

vmkit's own compiler lifts what is only called, and leaves closures to Relax; see :func:`.lambda_lift.lambda_lift`.
"""

from __future__ import annotations

from typing import Any, cast

import tvm
from tvm.ir import GlobalVar

from ..analysis.forward_graph import is_fused_or_external
from ..analysis.infer_type import infer_module, typed
from ..analysis.type_variables import free_type_vars
from ..expr_functor import ExprMutator
from ..ir import Call, Function, Let, RelayExpr, Var, free_vars, rewrite, with_functions
from .registry import ModuleTransform, relay_pass

__all__ = ["LambdaLift"]


@relay_pass(opt_level=0)
def LambdaLift() -> ModuleTransform:
    """Return the pass that makes every function literal global.

    One that uses variables from around it becomes a global function of these, with the attribute ``Closure``, that
    returns the function; kernels and functions for another compiler stay where they are.
    """

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        mod = typed(mod)
        result = dict(mod.functions.items())
        taken = {gvar.name_hint for gvar in result}
        for gvar, function in mod.functions.items():
            if isinstance(function, Function) and not is_fused_or_external(function):
                lifting = _Lifting(gvar.name_hint, taken)
                result[gvar] = lifting.within(function)
                result.update(lifting.lifted)
        return infer_module(with_functions(mod, result))

    return on_module


class _Lifting(ExprMutator):
    """Lifts the literals of one global function."""

    def __init__(self, name: str, taken: set[str]) -> None:
        super().__init__()
        self.name, self.taken = name, taken
        self.lifted: dict[GlobalVar, Function] = {}

    def within(self, function: Function) -> Function:
        """Return a function whose body has no literals."""
        return cast("Function", super().visit_function(function))

    def visit_function(self, fn: Function) -> RelayExpr:
        return fn if is_fused_or_external(fn) else self.lift(fn, None)

    def visit_let(self, let: Let) -> RelayExpr:
        value = let.value
        is_lifted = isinstance(value, Function) and not is_fused_or_external(value)
        made = self.lift(value, let.var) if is_lifted else self.visit(value)
        self.memo_map[let.var] = let.var
        return Let(let.var, made, self.visit(let.body), let.span)

    def lift(self, function: Function, own_name: Var | None) -> RelayExpr:
        """Return what stands for a function: its global name, or the call that gives a closure."""
        captured = [v for v in free_vars(function) if own_name is None or not v.same_as(own_name)]
        place = GlobalVar(self.fresh())
        standing: RelayExpr = Call(place, captured) if captured else place
        if own_name is not None:
            # Inside, the function calls itself by its global name.
            self.memo_map[own_name] = standing
        made = self.within(function)
        types = [v for v in free_type_vars(function) if v not in list(function.type_params)]
        if captured:
            params: dict[Any, Var] = {v: Var(v.name_hint, v.checked_type) for v in captured}
            body = rewrite(made, params)
            self.lifted[place] = Function(list(params.values()), body, None, types, {"Closure": 1})
        else:
            params_of, all_types = list(made.params), [*types, *made.type_params]
            self.lifted[place] = Function(params_of, made.body, made.ret_type, all_types, made.attrs, made.span)
        return standing

    def fresh(self) -> str:
        number = 0
        while f"{self.name}_lifted_{number}" in self.taken:
            number += 1
        self.taken.add(f"{self.name}_lifted_{number}")
        return f"{self.name}_lifted_{number}"
