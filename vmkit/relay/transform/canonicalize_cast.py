"""A widening cast that several operators share is done by each of them, so that it fuses into each."""

from __future__ import annotations

from typing import Any

import tvm

from ...values.element_types import stored_type
from ..ir import Call, Expr, Function, Op, RelayExpr, is_call, rewrite
from ..op.registry import OpPattern, entry
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["CanonicalizeCast"]


@relay_pass(opt_level=3)
def CanonicalizeCast() -> ModuleTransform:
    """Return the pass that gives elementwise and broadcasting operators casts of their own."""
    return per_function(_canonical)


def _canonical(function: Function) -> Function:
    used: set[Any] = set()

    def own(arg: Expr) -> Expr:
        if not _is_widening(arg):
            return arg
        if arg in used:
            return Call(arg.op, list(arg.args), arg.attrs, list(arg.type_args), arg.span)
        used.add(arg)
        return arg

    def with_own_casts(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if not (isinstance(node, Call) and isinstance(node.op, Op)):
            return node
        if entry(node.op).pattern > OpPattern.BROADCAST:
            return node
        args = [own(a) for a in node.args]
        if all(a.same_as(b) for a, b in zip(args, node.args, strict=True)):
            return node
        return Call(node.op, args, node.attrs, list(node.type_args), node.span)

    return rewrite(function, {}, with_own_casts)


def _is_widening(expr: RelayExpr) -> bool:
    if not is_call(expr, "cast"):
        return False
    source = getattr(expr.args[0].checked_type_, "dtype", None)
    return source is not None and _bits(source) < _bits(expr.attrs.dtype)


def _bits(dtype: str) -> int:
    return tvm.DataType(stored_type(dtype)).bits
