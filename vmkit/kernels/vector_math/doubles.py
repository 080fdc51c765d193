"""The hyperbolic tangent, sine and cosine of float64 as arithmetic that vectors have."""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import tirx

from ..builder import constant, let, reinterpreted
from .polynomial import polynomial

__all__ = ["LARGEST_ANGLE", "cos", "sin", "tanh"]

_F64 = "float64"
_ROUND = 1.5 * 2.0**52 + 1023
"""1.5 * 2**52: added to a small number n, leaves it rounded to an integer in the low bits; here 1023 more, so that they
are the exponent of ``2**n``."""
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # n times the first is exact
_TERMS = [1 / math.factorial(k) for k in range(2, 15)]  # of the exponential's series, which is exact up to half of ln 2
_LARGE = 20.0  # from where on it is 1

LARGEST_ANGLE = 2.0**20
"""The largest angle that :func:`sin` and :func:`cos` take: of so many quarter turns, their number has 20 digits."""
_QUARTER = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)
"""Half of pi: 33 binary digits each in the first three, whose products with a number of 20 digits are exact."""
_NEAREST = 1.5 * 2.0**52
_SIN = [(-1) ** k / math.factorial(2 * k + 1) for k in range(1, 9)]  # of the series, which is exact up to pi / 4
_COS = [(-1) ** k / math.factorial(2 * k) for k in range(2, 9)]


def _number(value: float) -> tirx.Expr:
    """Return a float64."""
    return constant(value, _F64)


def sin(argument: tirx.Expr) -> tirx.Expr:
    """Return the sine of an angle no larger than `LARGEST_ANGLE`; the error is below one in the last place."""

    def result(x: tirx.Expr) -> tirx.Expr:
        return tirx.Select(tirx.abs(x) < _number(2.0**-27), x, _wave(x, 0))

    return let(argument, result)


def cos(argument: tirx.Expr) -> tirx.Expr:
    """Return the cosine of an angle no larger than `LARGEST_ANGLE`; the error is below one in the last place."""
    return let(argument, lambda x: _wave(x, 1))


def _wave(x: tirx.Expr, ahead: int) -> tirx.Expr:
    """Return the sine of an angle and so many quarter turns."""

    def whole(rounded: tirx.Expr) -> tirx.Expr:
        quarters = reinterpreted("int64", rounded) + constant(ahead, "int64")
        return let(rounded - _number(_NEAREST), lambda n: _rest(x, n, lambda r, low: turned(quarters, r, low)))

    def turned(quarters: tirx.Expr, r: tirx.Expr, low: tirx.Expr) -> tirx.Expr:
        return let(quarters, lambda q: let(r * r, lambda square: signed(q, value(q, r, low, square))))

    def value(q: tirx.Expr, r: tirx.Expr, low: tirx.Expr, square: tirx.Expr) -> tirx.Expr:
        is_odd = (q & constant(1, "int64")) != constant(0, "int64")
        return tirx.Select(is_odd, _cos(r, low, square), r + (r * square * polynomial(_SIN, square) + low))

    def signed(q: tirx.Expr, found: tirx.Expr) -> tirx.Expr:
        sign = (q & constant(2, "int64")) << constant(62, "int64")
        return reinterpreted(_F64, reinterpreted("int64", found) ^ sign)

    return let(x * _number(2 / math.pi) + _number(_NEAREST), whole)


def _rest(x: tirx.Expr, n: tirx.Expr, then: Callable[[tirx.Expr, tirx.Expr], tirx.Expr]) -> tirx.Expr:
    """Return an expression of what n quarter turns leave of an angle, in two numbers: the second has its lower digits.

    Digits that cancel are exact, so near a multiple of a quarter turn as many are left as elsewhere.
    """
    first, second, third, fourth = map(_number, _QUARTER)

    def less_second(a: tirx.Expr) -> tirx.Expr:
        return let(n * second, lambda b: let(a - b, lambda r: less_third(r, (a - r) - b)))

    def less_third(a: tirx.Expr, lost: tirx.Expr) -> tirx.Expr:
        return let(n * third, lambda b: let(a - b, lambda r: less_fourth(r, n * fourth - ((a - r) - b + lost))))

    def less_fourth(a: tirx.Expr, less: tirx.Expr) -> tirx.Expr:
        return let(less, lambda b: let(a - b, lambda r: let((a - r) - b, lambda low: then(r, low))))

    return let(x - n * first, less_second)


def _cos(r: tirx.Expr, low: tirx.Expr, square: tirx.Expr) -> tirx.Expr:
    half = square * _number(0.5)

    def exact(half: tirx.Expr, near: tirx.Expr) -> tirx.Expr:
        return near + ((_number(1) - near - half) + (square * square * polynomial(_COS, square) - r * low))

    return let(half, lambda h: let(_number(1) - h, lambda near: exact(h, near)))


def tanh(argument: tirx.Expr) -> tirx.Expr:
    """Return the hyperbolic tangent of a float64; the error is 5e-16.

    It is ``e / (e + 2)``, with e what the exponential of twice the number is above 1, near 0 with all of its digits.
    """

    def result(x: tirx.Expr) -> tirx.Expr:
        size = tirx.abs(x)
        twice = tirx.Select(size > _number(_LARGE), _number(2 * _LARGE), size + size)
        value = let(let(twice, exponential), lambda e: e / (e + _number(2)))
        signed = let(value, lambda v: tirx.Select(x < _number(0), _number(0) - v, v))
        return tirx.Select(size < _number(2.0**-28), x, signed)

    def exponential(y: tirx.Expr) -> tirx.Expr:
        return let(y * _number(1 / math.log(2)) + _number(_ROUND), lambda rounded: reduced(y, rounded))

    def reduced(y: tirx.Expr, rounded: tirx.Expr) -> tirx.Expr:
        n = rounded - _number(_ROUND)
        rest = y - n * _number(_LN2_HIGH) - n * _number(_LN2_LOW)
        power = reinterpreted(_F64, reinterpreted("int64", rounded) << constant(52, "int64"))
        return let(power, lambda scale: let(let(rest, above_one), lambda q: scale * q + (scale - _number(1))))

    def above_one(r: tirx.Expr) -> tirx.Expr:
        return r + r * r * polynomial(_TERMS, r)

    return let(argument, result)
