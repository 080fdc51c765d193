"""Hyperbolic functions and their inverses of float32 as arithmetic that vectors have.

Near 0 they are polynomials, since differences of exponentials, and logarithms of what is near 1, lose digits there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tvm import tirx

from ..builder import constant, let
from .exponential import exp, log
from .polynomial import odd_polynomial, or_small, polynomial, with_sign_of

__all__ = ["acosh", "asinh", "atanh", "cosh", "sinh"]

_SINH = (0.1666666667, 0.008333333276, 0.0001984129605, 2.755206399e-06, 2.552982252e-08)
_ASINH = (
    *(-0.1666666551, 0.07499930122, -0.04462831969, 0.03023381692),
    *(-0.02151784179, 0.01435706541, -0.007329050534, 0.001958343581),
)
_ACOSH = (
    *(1.0, -0.08333332646, 0.01874979835, -0.005578105064),
    *(0.001886389649, -0.0006606720609, 0.0002021568398, -3.649046197e-05),
)
_ATANH = (
    *(0.333333331, 0.2000002894, 0.1428447104, 0.1113679648),
    *(0.08800265282, 0.09574023954, -0.001405736595, 0.1788956917),
)
_LARGE = 1e4  # the square of what is larger is that plus or minus 1


def sinh(argument: tirx.Expr) -> tirx.Expr:
    """Return the hyperbolic sine; the error is 5e-7."""
    return _odd(argument, 1.0, _SINH, lambda size: _halves(size, lambda half, inverse: half - inverse))


def cosh(argument: tirx.Expr) -> tirx.Expr:
    """Return the hyperbolic cosine; the error is 5e-7."""
    return _halves(tirx.abs(argument), lambda half, inverse: half + inverse)


def asinh(argument: tirx.Expr) -> tirx.Expr:
    """Return the inverse hyperbolic sine; the error is 5e-7."""
    return _odd(argument, 0.75, _ASINH, lambda size: _log_of_sum(size, 1.0))


def acosh(argument: tirx.Expr) -> tirx.Expr:
    """Return the inverse hyperbolic cosine; the error is 5e-7, and it is NaN below 1."""

    def result(x: tirx.Expr) -> tirx.Expr:
        near = let(x - constant(1.0), lambda t: tirx.sqrt(t + t) * polynomial(_ACOSH, t))
        return tirx.Select(x < constant(1.75), near, _log_of_sum(x, -1.0))

    return let(argument, result)


def atanh(argument: tirx.Expr) -> tirx.Expr:
    """Return the inverse hyperbolic tangent; the error is 5e-7, and it is NaN beyond 1."""
    one = constant(1.0)
    return _odd(argument, 0.5, _ATANH, lambda size: log((one + size) / (one - size), 0.5))


def _odd(
    argument: tirx.Expr, limit: float, coefficients: Sequence[float], outer: Callable[[tirx.Expr], tirx.Expr]
) -> tirx.Expr:
    """Return an odd function: a polynomial up to a limit, and beyond what `outer` makes of the absolute value."""

    def result(x: tirx.Expr) -> tirx.Expr:
        inner = let(x * x, lambda square: odd_polynomial(coefficients, x, square))
        value = tirx.Select(tirx.abs(x) <= constant(limit), inner, with_sign_of(x, let(tirx.abs(x), outer)))
        return or_small(x, value)

    return let(argument, result)


def _halves(size: tirx.Expr, then: Callable[[tirx.Expr, tirx.Expr], tirx.Expr]) -> tirx.Expr:
    """Return an expression of half of the exponential of a positive number, and of half of its inverse.

    They are made of the root, which is a float32 also where only half of the exponential is.
    """
    half = constant(0.5)
    return let(exp(size * half), lambda root: then(half * root * root, half / (root * root)))


def _log_of_sum(x: tirx.Expr, one: float) -> tirx.Expr:
    """Return the logarithm of ``x + sqrt(x * x + one)``."""
    is_large = x > constant(_LARGE)
    total = tirx.Select(is_large, x, x + tirx.sqrt(x * x + constant(one)))
    return log(total) + tirx.Select(is_large, constant(math.log(2)), constant(0.0))
