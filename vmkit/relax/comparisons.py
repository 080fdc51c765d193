"""Relax operators of two tensors in place of TVM's kernels, which LLVM takes otherwise: bool, and what is no number.

LLVM compares bool as floats, knows no order of it and cannot add or multiply it; and of two numbers it is asked whether
they differ where one of them is NaN, which differs from everything.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, relax, te, tirx

from ..relay.ir import dims
from ..relay.op.broadcast import agree, broadcast_index, differ, ordered
from ..relay.op.ordering import has_nan, larger, smaller

__all__ = ["COMPARED"]

_Combine = Callable[[tirx.Expr, tirx.Expr], tirx.Expr]
_Legalize = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

_OF_BOOL: dict[str, _Combine] = {
    "add": tirx.any,
    "multiply": tirx.all,
    "equal": agree,
    "not_equal": differ,
    "greater": ordered(lambda a, b: a > b),
    "greater_equal": ordered(lambda a, b: a >= b),
    "less": ordered(lambda a, b: a < b),
    "less_equal": ordered(lambda a, b: a <= b),
    "maximum": tirx.any,
    "minimum": tirx.all,
}
_OF_NAN: dict[str, _Combine] = {"equal": agree, "maximum": larger, "minimum": smaller, "not_equal": differ}


def _compared(name: str) -> _Legalize:
    """Return the rule for an operator: what TVM makes of it where that is right."""

    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        types = [each.ty for each in call.args]
        if not all(isinstance(ty, relax.TensorType) and ty.shape is not None for ty in (*types, call.ty)):
            return _by_tvm(builder, call)
        dtype = str(types[0].dtype)
        # A number is not NaN, and beside one the largest or smallest is one instruction.
        is_limit = name in ("maximum", "minimum") and any(isinstance(each, ir.GenericConst) for each in call.args)
        combine = _OF_BOOL.get(name) if dtype == "bool" else None if is_limit else _OF_NAN.get(name)
        if combine is None or (dtype != "bool" and not has_nan(dtype)):
            return _by_tvm(builder, call)
        combine_pair = combine

        def kernel(a: te.Tensor, b: te.Tensor, shape: list[tirx.Expr]) -> te.Tensor:
            def element(*at: tirx.Expr) -> tirx.Expr:
                return combine_pair(_operand(a, shape, at), _operand(b, shape, at))

            return te.compute(shape, element, name=name, tag="broadcast")

        return builder.call_te(kernel, *call.args, list(call.ty.shape), primfunc_name_hint=name)

    return legalize


def _operand(x: te.Tensor, shape: list[tirx.Expr], at: tuple[tirx.Expr, ...]) -> tirx.Expr:
    """Return the element of an operand for one of a result of a shape."""
    first = len(at) - len(x.shape)
    return x(*broadcast_index([dims.simplify(d) for d in x.shape], shape[first:], at[first:]))


def _by_tvm(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    return call.op.get_attr("FLegalize")(builder, call)


COMPARED: dict[str, _Legalize] = {f"relax.{name}": _compared(name) for name in _OF_BOOL}
"""How operators become kernels, by their names."""
