"""Sine, cosine, tangent and their inverses of float32 as arithmetic that vectors have."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

from tvm import tirx

from ..builder import constant, let
from .polynomial import odd_polynomial, or_small, polynomial, with_sign_of

__all__ = ["acos", "asin", "atan", "cos", "sin", "tan"]

_F64 = "float64"
_CHUNK = 29
_TURNS = (85445659, 240010261, 88048874, 524801235, 249589169, 156865476, 119571452)
"""The first 203 binary digits of 1 / (2 pi), in chunks: the product of one with a float32 is exact in float64."""
_SIN = (-0.1666666666, 0.008333331847, -0.0001984007656, 2.724891163e-06)
_COS = (1.0, -0.5, 0.04166666415, -0.001388826924, 2.454351993e-05)
_ASIN = (0.1666665987, 0.07500510917, 0.04451572051, 0.03181760918, 0.01440261544, 0.03756518778)
_ATAN = (
    *(-0.3333332743, 0.1999969261, -0.1428013074, 0.1106024455, -0.08818848317),
    *(0.06759572145, -0.04494644602, 0.02276034108, -0.007422637767, 0.001134878341),
)


def sin(argument: tirx.Expr) -> tirx.Expr:
    """Return the sine of any float32; the error is 2e-7."""

    def wave(r: tirx.Expr, quarter: tirx.Expr) -> tirx.Expr:
        return tirx.Select(_is_odd(quarter), _cos(r), _sin(r)) * _half_wave(quarter - constant(0.5))

    return let(argument, lambda x: or_small(x, _in_quarter(x, wave)))


def cos(argument: tirx.Expr) -> tirx.Expr:
    """Return the cosine of any float32; the error is 2e-7."""

    def wave(r: tirx.Expr, quarter: tirx.Expr) -> tirx.Expr:
        return tirx.Select(_is_odd(quarter), _sin(r), _cos(r)) * _half_wave(quarter + constant(0.5))

    return let(argument, lambda x: _in_quarter(x, wave))


def tan(argument: tirx.Expr) -> tirx.Expr:
    """Return the tangent of any float32; the error is 4e-7."""

    def quotient(r: tirx.Expr, quarter: tirx.Expr) -> tirx.Expr:
        return let(_sin(r), lambda s: let(_cos(r), lambda c: turned(s, c, _is_odd(quarter))))

    def turned(s: tirx.Expr, c: tirx.Expr, is_odd: tirx.Expr) -> tirx.Expr:
        return tirx.Select(is_odd, constant(0.0) - c, s) / tirx.Select(is_odd, s, c)

    return let(argument, lambda x: or_small(x, _in_quarter(x, quotient)))


def asin(argument: tirx.Expr) -> tirx.Expr:
    """Return the inverse sine; the error is 3e-7, and it is NaN beyond 1."""

    def turned(x: tirx.Expr, arc: tirx.Expr, is_inner: tirx.Expr) -> tirx.Expr:
        return tirx.Select(is_inner, arc, with_sign_of(x, constant(math.pi / 2) + arc))

    return _arc(argument, turned)


def acos(argument: tirx.Expr) -> tirx.Expr:
    """Return the inverse cosine; the error is 3e-7, and it is NaN beyond 1."""

    def turned(x: tirx.Expr, arc: tirx.Expr, is_inner: tirx.Expr) -> tirx.Expr:
        outer = tirx.Select(x < constant(0.0), constant(math.pi) + arc, constant(0.0) - arc)
        return tirx.Select(is_inner, constant(math.pi / 2) - arc, outer)

    return _arc(argument, turned)


def atan(argument: tirx.Expr) -> tirx.Expr:
    """Return the inverse tangent; the error is 3e-7."""

    def result(x: tirx.Expr) -> tirx.Expr:
        is_outer = tirx.abs(x) > constant(1.0)
        arc = let(tirx.Select(is_outer, constant(-1.0) / x, x), inner)
        quarter = with_sign_of(x, constant(math.pi / 2))
        return or_small(x, let(arc, lambda a: tirx.Select(is_outer, quarter + a, a)))

    def inner(x: tirx.Expr) -> tirx.Expr:
        return let(x * x, lambda square: odd_polynomial(_ATAN, x, square))

    return let(argument, result)


def _in_quarter(x: tirx.Expr, then: Callable[[tirx.Expr, tirx.Expr], tirx.Expr]) -> tirx.Expr:
    """Return an expression of an angle within an eighth of a turn around 0, and of how many quarters it was from there.

    These are -2 to 2. Whole turns are taken off each product of the angle and some digits of 1 / (2 pi), which leaves
    what is not whole exact, however large the angle. Infinities give NaN.
    """

    def fraction(digits: int, chunk: int) -> tirx.Expr:
        turns = x.astype(_F64) * constant(digits * 2.0 ** (-_CHUNK * (chunk + 1)), _F64)
        return let(turns, lambda t: t - tirx.nearbyint(t))

    def reduced(turns: tirx.Expr) -> tirx.Expr:
        quarters = (turns - tirx.nearbyint(turns)) * constant(4.0, _F64)
        return let(quarters, lambda q: let(tirx.nearbyint(q), lambda whole: named(q, whole)))

    def named(quarters: tirx.Expr, whole: tirx.Expr) -> tirx.Expr:
        rest = ((quarters - whole) * constant(math.pi / 2, _F64)).astype("float32")
        return let(rest, lambda r: let(whole.astype("float32"), lambda quarter: then(r, quarter)))

    smallest_first = [fraction(digits, chunk) for chunk, digits in reversed(list(enumerate(_TURNS)))]
    return let(reduce(lambda total, part: total + part, smallest_first), reduced)


def _is_odd(quarter: tirx.Expr) -> tirx.Expr:
    return quarter * quarter == constant(1.0)


def _half_wave(quarters: tirx.Expr) -> tirx.Expr:
    """Return 1 within a quarter turn, and -1 beyond.

    It is a factor: a choice of signs by what was chosen before takes TVM up to sixty times as long to simplify.
    """
    return tirx.Select(tirx.abs(quarters) > constant(1.0), constant(-1.0), constant(1.0))


def _sin(r: tirx.Expr) -> tirx.Expr:
    return let(r * r, lambda square: odd_polynomial(_SIN, r, square))


def _cos(r: tirx.Expr) -> tirx.Expr:
    return let(r * r, lambda square: polynomial(_COS, square))


def _arc(argument: tirx.Expr, then: Callable[[tirx.Expr, tirx.Expr, tirx.Expr], tirx.Expr]) -> tirx.Expr:
    """Return an expression of a number, an arc, and whether it is the number's: up to a half it is its inverse sine.

    Beyond, where the inverse sine is steep, it is -2 times that of the root of ``(1 - |x|) / 2``.
    """

    def result(x: tirx.Expr) -> tirx.Expr:
        is_inner = tirx.abs(x) <= constant(0.5)
        square = tirx.Select(is_inner, x * x, (constant(1.0) - tirx.abs(x)) * constant(0.5))
        return let(square, lambda s: arc(x, s, is_inner))

    def arc(x: tirx.Expr, square: tirx.Expr, is_inner: tirx.Expr) -> tirx.Expr:
        start = tirx.Select(is_inner, x, constant(-2.0) * tirx.sqrt(square))
        return let(let(start, lambda z: odd_polynomial(_ASIN, z, square)), lambda a: then(x, a, is_inner))

    return let(argument, result)
