"""Where the values of variables are not needed any more is written into the program."""

from __future__ import annotations

from typing import cast

import tvm

from ...stack import on_deep_stack
from ..analysis.infer_type import infer_module
from ..analysis.liveness import Liveness, live_variables
from ..expr_functor import ExprMutator
from ..ir import Function, Let, RelayExpr, Var, with_functions
from ..op.memory import kill
from .registry import ModuleTransform, relay_pass

__all__ = ["ManifestLifetimes", "with_lifetimes"]


@relay_pass(opt_level=0)
def ManifestLifetimes() -> ModuleTransform:
    """Return the pass that binds ``memory.kill(x)`` where ``x`` is not needed any more; see :func:`with_lifetimes`.

    vmkit's compiler finds that out by itself: the pass is for scripts that look at it.
    """

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        functions = dict(mod.functions.items())
        changed = {v: with_lifetimes(f) for v, f in functions.items() if _is_walked(f)}
        return infer_module(with_functions(mod, {**functions, **changed}))

    return on_module


def _is_walked(function: tvm.ir.BaseFunc) -> bool:
    return isinstance(function, Function) and not function.attrs.get("Primitive") and not function.attrs.get("Compiler")


def with_lifetimes(function: Function) -> Function:
    """Return a function in A-normal form in which each Let is followed by kills of what is not needed after it.

    A variable that stands for another is replaced by that. What only one branch of an If or Match needs is killed in
    that branch alone.

    Raises
    ------
    ModelError
        When the function is not in A-normal form; :func:`ToANormalForm` brings it there.
    """
    plain = cast("Function", _WithoutAliases().visit(function))
    killing = _Killing(live_variables(plain))
    return cast("Function", on_deep_stack(killing.visit, plain))


class _WithoutAliases(ExprMutator):
    def visit_let(self, let: Let) -> RelayExpr:
        if isinstance(let.value, Var):
            self.memo_map[let.var] = self.visit(let.value)
            return self.visit(let.body)
        return Let(let.var, self.visit(let.value), self.visit(let.body), let.span)


class _Killing(ExprMutator):
    def __init__(self, live: Liveness) -> None:
        super().__init__()
        self.live = live

    def visit_let(self, let: Let) -> RelayExpr:
        if let not in self.live.before:  # of a function within the function
            return let
        body = self.visit(let.body)
        # In the order of their names, so that equal programs come out equal.
        ended = sorted(self.live.before[let] - self.live.after[let], key=lambda variable: variable.name_hint)
        for number, variable in reversed(list(enumerate(ended))):
            body = Let(Var(f"_{number}"), kill(variable), body)
        return Let(let.var, self.visit(let.value), body, let.span)
