"""Basic block normal form: what several scopes share is bound before all of them; all else stays a graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import tvm
from tvm.ir import GlobalVar

from ..analysis.effects import effectful, effectful_globals
from ..analysis.infer_type import typed
from ..ir import Function, RelayExpr
from .normal_form import normalized
from .registry import ModuleTransform, on_functions, relay_pass

__all__ = ["ToBasicBlockNormalForm", "to_basic_block_normal_form"]


@relay_pass(opt_level=1)
def ToBasicBlockNormalForm() -> ModuleTransform:
    """Return the pass that binds what several scopes share; see :func:`to_basic_block_normal_form`."""

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        impure = effectful_globals(mod)
        return on_functions(typed(mod), lambda f: cast("Function", to_basic_block_normal_form(f, impure)))

    return on_module


def to_basic_block_normal_form(expr: RelayExpr, impure_globals: Iterable[GlobalVar] = ()) -> RelayExpr:
    """Return an expression (or function) in which every expression is used in one scope only.

    Expressions with effects are bound, too, where bindings would otherwise pass them by.

    Parameters
    ----------
    expr : Expr or Function
        The expression.
    impure_globals : iterable of GlobalVar
        The global functions whose calls have effects.
    """
    found = effectful(expr, impure_globals)
    return normalized(expr, found.__contains__, bind_results=False)
