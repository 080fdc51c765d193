"""Zero points that a program finds when it runs, as PyTorch's dynamic quantisation writes them.

That one is an integer of the type whose zero it is follows from how the program limits it. Only then are products of
differences from it sums of few bits.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm import ir, relax

from ...relay.ir import Expr, Var, is_call
from ...relay.op.registry import build
from ...relay.op.saturation import integer_range
from .operands import Operands

__all__ = ["zero_point_of"]

_INTEGERS = ("int32", "int64")
_SAME_NUMBERS = ("relax.reshape", "relax.astype", "relax.expand_dims", "relax.squeeze")
_ENDS = {"relax.maximum": 0, "relax.minimum": 1}


def zero_point_of(value: Expr, dtype: str, operands: Operands) -> Expr | None:
    """Return the integer of a type, of no axes, that a value is as float32; None where that is not certain.

    Parameters
    ----------
    value
        Of a part: a parameter of one element that is cast and reshaped.
    dtype
        ``int8`` or ``uint8``.
    """
    if not is_call(value, "cast") or value.attrs.dtype != "float32":
        return None
    source = value.args[0]
    while is_call(source, "reshape") or (is_call(source, "cast") and source.attrs.dtype in _INTEGERS):
        source = source.args[0]
    if not isinstance(source, Var) or source.type_annotation.dtype not in _INTEGERS:
        return None
    outside = operands.outside(source)
    if outside is None or any(not isinstance(size, int) or size != 1 for size in source.type_annotation.shape):
        return None
    low, high = integer_range(dtype)
    # Both within: a limit that the other one passes is where all numbers end, as 9 in maximum(minimum(x, 5), 9).
    if any(limit is None or not low <= limit <= high for limit in _limits(outside, operands.bound)):
        return None
    return build("cast", build("reshape", source, newshape=[]), dtype=dtype)


def _limits(value: relax.Expr, bound: Mapping[relax.Var, relax.Expr]) -> list[float | None]:
    """Return below and above what an integer is limited; None where it is not."""
    limits: list[float | None] = [None, None]
    while None in limits:
        call = bound.get(value) if isinstance(value, relax.Var) else None
        if not isinstance(call, ir.Call) or not isinstance(call.op, ir.Op):
            break
        if call.op.name in _ENDS:
            end, number = _ENDS[call.op.name], _number(call.args[1])
            if number is None:
                break
            limits[end] = number if limits[end] is None else limits[end]
        elif call.op.name not in _SAME_NUMBERS or not _keeps_integers(call):
            break
        value = call.args[0]
    return limits


def _keeps_integers(call: ir.Call) -> bool:
    """Say whether what a call makes of integers are the same ones: of int64 as int32 they need not be."""
    source, made = str(call.args[0].ty.dtype), str(call.ty.dtype)
    return source in _INTEGERS and made in (source, "int64")


def _number(value: relax.Expr) -> float | None:
    """Return a number that is known."""
    return float(value.value.numpy()) if isinstance(value, ir.GenericConst) and value.value.shape == () else None
