"""Arithmetic, comparison and logic, element by element."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from .... import relay
from ....relay.formulas import whole_power
from ....relay.ir import Expr
from ....relay.op import build
from ..context import Context
from ..registry import converter
from ..typing import typed

__all__ = ["aligned", "binary"]

_UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan",
    "Atanh": "atanh", "BitwiseNot": "bitwise_not", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf",
    "Exp": "exp", "Floor": "floor", "IsNaN": "isnan", "Log": "log", "Neg": "negative", "Not": "logical_not",
    "Round": "contrib_round_to_even",
    "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
_BINARY = {
    "Add": "add", "And": "logical_and", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "Div": "divide", "Equal": "equal", "Greater": "greater",
    "GreaterOrEqual": "greater_equal", "Less": "less", "LessOrEqual": "less_equal", "Mul": "multiply",
    "Or": "logical_or", "Sub": "subtract", "Xor": "logical_xor",
}  # fmt: skip


def _unary(op_type: str, name: str) -> None:
    @converter(op_type)
    def convert(ctx: Context, x: Expr, *, consumed_inputs: Any = None) -> Expr:
        return build(name, x)


def _binary(op_type: str, name: str) -> None:
    @converter(op_type)
    def convert(
        ctx: Context, a: Expr, b: Expr, *, axis: int | None = None, broadcast: int = 0, consumed_inputs: Any = None
    ) -> Expr:
        return build(name, a, aligned(ctx, a, b, axis if broadcast else None))


for _op_type, _name in _UNARY.items():
    _unary(_op_type, _name)
for _op_type, _name in _BINARY.items():
    _binary(_op_type, _name)


def aligned(ctx: Context, a: Expr, b: Expr, axis: int | None) -> Expr:
    """Return `b` for numpy's broadcasting with `a`: before opset 7, its first dimension lies at `axis` of `a`."""
    if axis is None:
        return b
    missing = ctx.rank(a) - ctx.axis(axis, ctx.rank(a)) - ctx.rank(b)
    return relay.expand_dims(b, ctx.rank(b), missing) if missing > 0 else b


def binary(ctx: Context, name: str, a: Expr, b: Any) -> Expr:
    """Return an operator of a tensor and a number or a tensor of the same data type."""
    return build(name, a, b if isinstance(b, Expr) else _number(ctx, b, ctx.dtype(a)))


def _number(ctx: Context, value: float, dtype: str) -> Expr:
    """Return a number as a constant: where float16 has no digits for it, one that stays whole in float32."""
    if dtype != "float16" or float(np.float16(value)) == value:
        return ctx.constant(value, dtype)
    return typed(relay.cast(ctx.constant(value, "float32"), dtype))


@converter("Identity")
def identity(ctx: Context, x: Expr) -> Expr:
    return x


@converter("Reciprocal")
def reciprocal(ctx: Context, x: Expr, *, consumed_inputs: Any = None) -> Expr:
    return relay.divide(ctx.constant(1, ctx.dtype(x)), x)


@converter("IsInf")
def is_inf(ctx: Context, x: Expr, *, detect_negative: int = 1, detect_positive: int = 1) -> Expr:
    found, zero = relay.isinf(x), ctx.constant(0, ctx.dtype(x))
    if detect_negative and detect_positive:
        return found
    if not detect_negative and not detect_positive:
        return relay.logical_and(found, ctx.constant(False, "bool"))
    return relay.logical_and(found, relay.less(x, zero) if detect_negative else relay.greater(x, zero))


@converter("Pow")
def power(ctx: Context, x: Expr, y: Expr, *, axis: int | None = None, broadcast: int = 0) -> Expr:
    exponent = ctx.scalar(y) if ctx.rank(y) <= ctx.rank(x) else None
    if exponent == 2 or ctx.dtype(x).startswith("float"):
        product = whole_power(x, exponent)
        if product is not None:
            return product
    dtype, own = ctx.dtype(y), ctx.dtype(x)
    y = aligned(ctx, x, y, axis if broadcast else None)
    if own.startswith("float"):
        return relay.power(x, y if dtype == own else relay.cast(y, own))
    # Powers of integers are taken in floating point, as wide as the integers are exact in it.
    return relay.cast(relay.power(relay.cast(x, "float64"), relay.cast(y, "float64")), own)


@converter("Mod")
def mod(ctx: Context, a: Expr, b: Expr, *, fmod: int = 0) -> Expr:
    if fmod or not ctx.dtype(a).startswith(("float", "bfloat")):
        return relay.mod(a, b) if fmod else relay.floor_mod(a, b)
    # As Python has it: what is left has the sign of the divisor.
    rest, zero = relay.mod(a, b), ctx.constant(0, ctx.dtype(a))
    differs = relay.not_equal(relay.less(rest, zero), relay.less(b, zero))
    turns = relay.logical_and(differs, relay.not_equal(rest, zero))
    return relay.where(turns, relay.add(rest, b), rest)


@converter("BitShift")
def bit_shift(ctx: Context, x: Expr, y: Expr, *, direction: str) -> Expr:
    """By the width of the type or more, or by less than nothing, all bits are shifted out."""
    if direction not in ("LEFT", "RIGHT"):
        ctx.fail(f"direction is {direction!r}; it is LEFT or RIGHT")
    dtype, known = ctx.dtype(x), ctx.static(y)
    width = int(dtype.lstrip("uint"))
    shift = relay.left_shift if direction == "LEFT" else relay.right_shift
    if known is not None and (known >= 0).all() and (known < width).all():
        return shift(x, y)
    zero, last = ctx.constant(0, dtype), ctx.constant(width - 1, dtype)
    outside = relay.logical_or(relay.less(y, zero), relay.greater(y, last))
    some = relay.where(outside, zero, y)
    if direction == "RIGHT" and not dtype.startswith("u"):
        # The sign is all that stays.
        return relay.where(outside, shift(x, last), shift(x, some))
    return relay.where(outside, zero, shift(x, some))


def _variadic(op_type: str, combine: Callable[[Expr, Expr], Expr]) -> None:
    @converter(op_type)
    def convert(ctx: Context, *inputs: Expr, consumed_inputs: Any = None) -> Expr:
        return reduce(combine, inputs)


_variadic("Max", lambda a, b: relay.maximum(a, b))
_variadic("Min", lambda a, b: relay.minimum(a, b))
_variadic("Sum", lambda a, b: relay.add(a, b))


@converter("Mean")
def mean(ctx: Context, *inputs: Expr, consumed_inputs: Any = None) -> Expr:
    return binary(ctx, "divide", reduce(lambda a, b: relay.add(a, b), inputs), len(inputs))


@converter("Where")
def where(ctx: Context, condition: Expr, x: Expr, y: Expr) -> Expr:
    return relay.where(condition, x, y)


@converter("Clip")
def clip_by_attributes(
    ctx: Context, x: Expr, *, min: float | None = None, max: float | None = None, consumed_inputs: Any = None
) -> Expr:
    return _clipped(ctx, x, min, max)


@converter("Clip", since=11)
def clip(ctx: Context, x: Expr, low: Expr | None = None, high: Expr | None = None) -> Expr:
    return _clipped(ctx, x, low, high)


def _clipped(ctx: Context, x: Expr, low: Any, high: Any) -> Expr:
    """Return `x` limited from below, then from above: where the limits cross, the upper one counts."""
    if low is not None:
        x = binary(ctx, "maximum", x, low)
    return x if high is None else binary(ctx, "minimum", x, high)
