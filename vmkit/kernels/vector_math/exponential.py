"""Exponential, logarithms, tanh, erf and the logistic function of float32 as arithmetic that vectors have."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tvm import tirx

from ..builder import clamped, constant, let, reinterpreted
from .polynomial import polynomial

__all__ = ["Quotient", "erf", "exp", "exp_up_to_one", "log", "sigmoid", "sigmoid_quotient", "tanh", "tanh_quotient"]

Quotient = Callable[["tirx.Expr", "tirx.Expr"], "tirx.Expr"]
"""What is made of a dividend and a divisor."""

_F32 = "float32"
_ROUND = 12582912.0 + 126.0
"""1.5 * 2**23: added to a small float n, leaves it rounded to an integer in the low bits; here 126 more, so that these
are the exponent of ``2**(n - 1)``."""
_LOG2E = 1.44269504089
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4  # their sum is ln 2; n times the first is exact
_SQRT_HALF_BITS = 0x3F3504F3
_SMALLEST_NORMAL = 1.17549435e-38
_LOG = (0.3333391099, -0.2500133666, 0.19963053, -0.1657759839, 0.1491490367, -0.1426739075, 0.08699887822)
_TWICE_EXP = [2 * c for c in (1.0, 1.0, 0.4999999345, 0.1666652061, 0.04166838828, 0.008368719341, 0.001381459365)]
_TANH = (
    (0.9999999796, 0.1338098112, 0.003495534493, 2.060818406e-05, 1.335341214e-08),
    (1.0, 0.4671429677, 0.02587677992, 0.0003285546252, 7.776046756e-07),
)
_ERF = (
    (1.128379144, 0.1915401289, 0.05287387589, 0.003807663252, 0.0002846666204, 2.025859058e-06),
    (1.0, 0.5030806982, 0.114555213, 0.01505409948, 0.001170586363, 3.783018192e-05),
)


def tanh_quotient(x: tirx.Expr, then: Quotient) -> tirx.Expr:
    """Return an expression of a dividend and a divisor of the tanh of a float32, so that products divide only once.

    The divisor is at least 1 and below 420. The error of the quotient is as stated above up to 9, from where on it
    stays at 1 or -1 to within 2e-7.
    """

    def parts(inside: tirx.Expr) -> tirx.Expr:
        return let(inside * inside, lambda square: named(inside * polynomial(over, square), square))

    def named(dividend: tirx.Expr, square: tirx.Expr) -> tirx.Expr:
        return let(dividend, lambda n: let(polynomial(under, square), lambda d: then(n, d)))

    over, under = _TANH
    below = let(x, lambda v: tirx.Select(v > constant(9.0), constant(9.0), v))
    return let(let(below, lambda v: tirx.Select(v < constant(-9.0), constant(-9.0), v)), parts)


def sigmoid_quotient(x: tirx.Expr, then: Quotient) -> tirx.Expr:
    """Return an expression of a dividend and a divisor, as in :func:`tanh_quotient`, of the logistic function.

    It is half of ``1 + tanh(x / 2)``, of which the error is absolute: 2e-7.
    """
    return tanh_quotient(x * constant(0.5), lambda over, under: then(under + over, under + under))


def exp(argument: tirx.Expr) -> tirx.Expr:
    """Return ``2**n * exp(r)`` with r within half of ln 2 around 0.

    The error is 1.2e-7, one unit in the last place; below 2**-125.5 the result is 0.
    """

    return let(
        argument,
        lambda x: let(_above_least(x), lambda v: _exp_above_least(tirx.Select(v > constant(89.0), constant(89.0), v))),
    )


def exp_up_to_one(argument: tirx.Expr) -> tirx.Expr:
    """Return :func:`exp` of what is not above 0, which needs no bound there; above 89 the result is any number."""
    return let(argument, lambda x: _exp_above_least(_above_least(x)))


def _above_least(x: tirx.Expr) -> tirx.Expr:
    """Return a bounded argument: from the bound on, half of the power of two has the bits of 0."""
    return tirx.Select(x < constant(-87.5), constant(-87.5), x)


def _exp_above_least(argument: tirx.Expr) -> tirx.Expr:
    def scaled(x: tirx.Expr) -> tirx.Expr:
        return let(x * constant(_LOG2E) + constant(_ROUND), lambda rounded: power(x, rounded))

    def power(x: tirx.Expr, rounded: tirx.Expr) -> tirx.Expr:
        n = rounded - constant(_ROUND)
        rest = x - n * constant(_LN2_HIGH) - n * constant(_LN2_LOW)
        # Half of the power of two, which is a float also where the whole would not be, times twice the polynomial.
        half = reinterpreted(_F32, reinterpreted("int32", rounded) << constant(23, "int32"))
        return let(rest, lambda r: polynomial(_TWICE_EXP, r)) * half

    return let(argument, scaled)


def log(argument: tirx.Expr, scale: float = 1.0) -> tirx.Expr:
    """Return ``scale * (n * ln 2 + log(1 + f))`` with 1 + f from the root of 1/2 to that of 2; the error is 3e-7."""

    def result(x: tirx.Expr) -> tirx.Expr:
        # What is smaller than a normal number is made one by a power of two.
        is_small = x < constant(_SMALLEST_NORMAL)
        inside = let(tirx.Select(is_small, x * constant(2.0**23), x), lambda v: finite(v, is_small))
        negative_or_nan = tirx.Select(x == constant(0.0), constant(-math.inf), constant(math.nan))
        return tirx.Select(x > constant(0.0), tirx.Select(x < constant(math.inf), inside, x), negative_or_nan)

    def finite(x: tirx.Expr, is_small: tirx.Expr) -> tirx.Expr:
        bits = reinterpreted("int32", x)
        power = (bits - constant(_SQRT_HALF_BITS, "int32")) >> constant(23, "int32")
        fraction = reinterpreted(_F32, bits - (power << constant(23, "int32"))) - constant(1.0)
        n = power.astype(_F32) - tirx.Select(is_small, constant(23.0), constant(0.0))
        return let(n, lambda n: let(fraction, lambda f: total(n, f)))

    def total(n: tirx.Expr, f: tirx.Expr) -> tirx.Expr:
        rest = f * f * (f * polynomial(_LOG, f) - constant(0.5)) + n * constant(_LN2_LOW)
        return (rest + f + n * constant(_LN2_HIGH)) * constant(scale)

    return let(argument, result)


def _odd(coefficients: tuple[Sequence[float], Sequence[float]], limit: float, argument: tirx.Expr) -> tirx.Expr:
    """Return an odd function that is x * P(x*x) / Q(x*x) up to a limit, and 1 or -1 beyond.

    Exactly so: what is left of ``1 + tanh(x)`` may be multiplied with something large, as in GELU.
    """
    over, under = coefficients

    def quotient(x: tirx.Expr) -> tirx.Expr:
        return let(x * x, lambda square: x * polynomial(over, square) / polynomial(under, square))

    def result(a: tirx.Expr) -> tirx.Expr:
        inside = let(clamped(a, -limit, limit), quotient)
        return tirx.Select(
            a < constant(-limit), constant(-1.0), tirx.Select(a > constant(limit), constant(1.0), inside)
        )

    return let(argument, result)


def tanh(x: tirx.Expr) -> tirx.Expr:
    """Return the hyperbolic tangent; the error is 5e-7."""
    return _odd(_TANH, 9.0, x)


def erf(x: tirx.Expr) -> tirx.Expr:
    """Return the error function; the error is 5e-7."""
    return _odd(_ERF, 3.95, x)


def sigmoid(x: tirx.Expr) -> tirx.Expr:
    """Return the logistic function; the error is 4e-7."""
    return constant(1.0) / (constant(1.0) + exp(constant(0.0) - x))
