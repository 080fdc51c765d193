"""The hyperbolic tangent of float64 as arithmetic that vectors have."""

from __future__ import annotations

import math

from tvm import tirx

from ..builder import constant, let, reinterpreted

__all__ = ["tanh"]

_F64 = "float64"
_ROUND = 1.5 * 2.0**52 + 1023
"""1.5 * 2**52: added to a small number n, leaves it rounded to an integer in the low bits; here 1023 more, so that they
are the exponent of ``2**n``."""
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # n times the first is exact
_TERMS = [1 / math.factorial(k) for k in range(2, 15)]  # of the exponential's series, which is exact up to half of ln 2
_LARGE = 20.0  # from where on it is 1


def tanh(argument: tirx.Expr) -> tirx.Expr:
    """Return the hyperbolic tangent of a float64; the error is 5e-16.

    It is ``e / (e + 2)``, with e what the exponential of twice the number is above 1, near 0 with all of its digits.
    """

    def number(value: float) -> tirx.Expr:
        return constant(value, _F64)

    def result(x: tirx.Expr) -> tirx.Expr:
        size = tirx.abs(x)
        twice = tirx.Select(size > number(_LARGE), number(2 * _LARGE), size + size)
        value = let(let(twice, exponential), lambda e: e / (e + number(2)))
        signed = let(value, lambda v: tirx.Select(x < number(0), number(0) - v, v))
        return tirx.Select(size < number(2.0**-28), x, signed)

    def exponential(y: tirx.Expr) -> tirx.Expr:
        return let(y * number(1 / math.log(2)) + number(_ROUND), lambda rounded: reduced(y, rounded))

    def reduced(y: tirx.Expr, rounded: tirx.Expr) -> tirx.Expr:
        n = rounded - number(_ROUND)
        rest = y - n * number(_LN2_HIGH) - n * number(_LN2_LOW)
        power = reinterpreted(_F64, reinterpreted("int64", rounded) << constant(52, "int64"))
        return let(power, lambda scale: let(let(rest, above_one), lambda q: scale * q + (scale - number(1))))

    def above_one(r: tirx.Expr) -> tirx.Expr:
        total = number(_TERMS[-1])
        for term in reversed(_TERMS[:-1]):
            total = total * r + number(term)
        return r + r * r * total

    return let(argument, result)
