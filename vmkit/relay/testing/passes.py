"""Passes over one expression."""

from __future__ import annotations

import tvm

from ..ir import Function, RelayExpr, free_vars
from ..prelude import Prelude
from ..transform.infer_pass import InferType

__all__ = ["run_infer_type", "run_opt_pass"]


def run_opt_pass(expr: RelayExpr, opt_pass: tvm.transform.Pass, import_prelude: bool = False) -> RelayExpr:
    """Return what a pass makes of an expression.

    Parameters
    ----------
    expr : Expr or Function
        The expression; its free variables are parameters of the function that the pass sees.
    opt_pass : tvm.transform.Pass
        The pass, over modules or functions.
    import_prelude : bool
        Whether the module that the pass sees has the prelude.

    Returns
    -------
    Function
        For a function; otherwise the body, an expression.
    """
    if not isinstance(opt_pass, tvm.transform.Pass):
        raise TypeError(f"opt_pass is a pass such as relay.transform.InferType(), not {type(opt_pass).__name__}")
    is_function = isinstance(expr, Function)
    mod = tvm.IRModule({"main": expr if is_function else Function(free_vars(expr), expr)})
    if import_prelude:
        Prelude(mod)
    result = opt_pass(mod)["main"]
    return result if is_function else result.body


def run_infer_type(expr: RelayExpr) -> RelayExpr:
    """Return an expression with types: a function for a function, otherwise the body."""
    return run_opt_pass(expr, InferType())
