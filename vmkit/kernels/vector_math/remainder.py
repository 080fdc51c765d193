"""The remainder of a division of float32 as arithmetic that vectors have."""

from __future__ import annotations

import math

from tvm import tirx

from ..builder import constant, let
from .rounding import is_half

__all__ = ["fmod"]

_F64 = "float64"
_DIGITS = 28
"""Binary digits of the quotient that are taken off at once: their product with a float32 is exact in float64."""
_STEPS = 10
"""All digits of a quotient of two finite float32, which is below 2**277."""
_STEPS_OF_HALVES = 2
"""Of two float16, whose quotient is below 2**40."""
_BEYOND = 2.0**200  # stands for an infinite divisor, of which every finite number is the remainder


def fmod(dividend: tirx.Expr, divisor: tirx.Expr) -> tirx.Expr:
    """Return what a division leaves whose quotient is rounded towards zero, exact as the C library's.

    It has the sign of the dividend, zero too. By 0, of infinity, and of NaN it is NaN.
    """
    steps = _STEPS_OF_HALVES if is_half(dividend) and is_half(divisor) else _STEPS

    def of(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
        # A bound loses what is no number, and a choice of the divisor would be one within every step.
        positive = tirx.min(tirx.abs(b), constant(_BEYOND, _F64))
        rest = let(positive, lambda p: let(constant(1.0, _F64) / p, lambda inverse: reduced(a, p, inverse, steps)))
        return tirx.Select(tirx.isnan(b), constant(math.nan), rest)

    def reduced(rest: tirx.Expr, b: tirx.Expr, inverse: tirx.Expr, steps: int) -> tirx.Expr:
        if not steps:
            # The nearest quotient's rest is at most half of the divisor, on either side.
            return tirx.Select(rest < constant(0.0, _F64), rest + b, rest).astype("float32")
        scale = 2.0 ** (_DIGITS * (steps - 1))
        quotient = tirx.nearbyint(rest * (inverse * constant(1 / scale, _F64)))
        return let(rest - quotient * (b * constant(scale, _F64)), lambda r: reduced(r, b, inverse, steps - 1))

    def signed(x: tirx.Expr) -> tirx.Expr:
        wide = tirx.abs(x).astype(_F64)
        rest = let(wide, lambda a: let(divisor.astype(_F64), lambda b: of(a, b)))
        return tirx.copysign(rest, x)

    return let(dividend, signed)
