"""Values of Relax expressions that follow from constants alone, while a program is still being built."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm
from tvm import ir, relax
from tvm.relax import transform

__all__ = ["value_of"]

Binding = Callable[[relax.Var], "relax.Expr | None"]


class _Unknown(Exception):
    """Something of an expression is no constant."""


def value_of(expr: relax.Expr, binding: Binding) -> np.ndarray | None:
    """Return what an expression computes from constants; None where a parameter is a part of it.

    Parameters
    ----------
    expr : relax.Expr
        The expression.
    binding : callable
        Returns what a variable was bound to, None for a parameter.
    """
    try:
        closed = _closed(expr, binding, {})
    except _Unknown:
        return None
    builder = relax.BlockBuilder()
    with builder.function("main", []):
        builder.emit_func_output(closed)
    with tvm.transform.PassContext(opt_level=3):
        body = transform.FoldConstant()(transform.LegalizeOps()(builder.get()))["main"].body
    bound = {each.var: each.value for block in body.blocks for each in block.bindings}
    result = bound.get(body.body, body.body)
    return np.array(result.value.numpy()) if isinstance(result, ir.GenericConst) else None


def _closed(expr: relax.Expr, binding: Binding, made: dict[relax.Var, relax.Expr]) -> relax.Expr:
    """Return an expression with what its variables are bound to in their places."""
    match expr:
        case relax.Var():
            if expr not in made:
                bound = binding(expr)
                if bound is None:
                    raise _Unknown
                made[expr] = _closed(bound, binding, made)
            return made[expr]
        case ir.Call():
            args = [_closed(a, binding, made) for a in expr.args]
            return relax.Call(expr.op, args, expr.attrs, expr.ty_args)
        case relax.Tuple():
            return relax.Tuple([_closed(f, binding, made) for f in expr.fields])
        case relax.TupleGetItem():
            return relax.TupleGetItem(_closed(expr.tuple_value, binding, made), expr.index)
    return expr
