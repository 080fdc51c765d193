"""Powers of float32 as arithmetic that vectors have: 2 to the power of an exponent times a logarithm, in float64.

The logarithm is a function by itself, and the power one of it: both written out within each other would be large.
"""

from __future__ import annotations

import math

import tvm
from tvm import tirx

from ..builder import constant, let, reinterpreted
from .exponential import exp
from .polynomial import polynomial
from .rounding import ROUNDINGS, is_half

__all__ = ["LOGARITHM", "POWER", "as_functions", "logarithm", "power", "power_of_calls"]

LOGARITHM, POWER = "vmkit.log2_of_size", "vmkit.power"

_F32, _F64, _BITS = "float32", "float64", "uint64"
_ONE = 1023 << 52
_SQRT_HALF = 0x3FE6A09E667F3BCD
_EXPONENT = 0xFFF << 52
_LOG2 = [2 / math.log(2) / (2 * k + 1) for k in range(8)]  # of the series of the inverse hyperbolic tangent
_EXP2 = [math.log(2) ** k / math.factorial(k) for k in range(10)]
_ROUND = 1.5 * 2.0**52 + 1023
"""Added to a small whole number n, leaves it in the low bits, which are the exponent of ``2**n``."""
_BEYOND = 200.0  # 2 to the power of which float32 has no number for, nor for its inverse
_LARGE = 2.0**200  # stands for an infinite exponent, of which 1 has a power

_LARGE_HALF = 1e6


def as_functions(call: tvm.ir.Call) -> tvm.ir.Call:
    """Return a call for a power of float32 as that of a power and, within it, that of a logarithm."""
    if getattr(call.op, "name", "") != "tirx.pow" or str(call.ty.dtype) != _F32:
        return call
    x, y = call.args
    # Numbers of float16 have so few digits, and powers so small an exponent, that float32 does for them.
    is_narrow = is_half(x) and is_half(y)
    logarithm_of = tirx.log(tirx.abs(x)) if is_narrow else tirx.call_pure_extern(_F64, LOGARITHM, x)
    return tirx.call_pure_extern(_F32, POWER, x, y, logarithm_of)


def power_of_calls(x: tirx.Expr, y: tirx.Expr, _: tirx.Expr) -> tirx.Expr:
    """Return the C library's power, where the logarithm cannot stand by itself."""
    return tirx.power(x, y)


def logarithm(argument: tirx.Expr) -> tirx.Expr:
    """Return the logarithm to base 2 of the size of a float32, in float64; the error is 1e-12."""

    def result(a: tirx.Expr) -> tirx.Expr:
        inside = let(reinterpreted(_BITS, a), scaled)
        of_zero = tirx.Select(a > _number(0), inside, _number(-math.inf))
        return tirx.Select(a < _number(math.inf), of_zero, a)

    def scaled(bits: tirx.Expr) -> tirx.Expr:
        return let(bits + constant(_ONE - _SQRT_HALF, _BITS), lambda above: parts(bits, above))

    def parts(bits: tirx.Expr, above: tirx.Expr) -> tirx.Expr:
        # The exponent in the digits of 2**52: vectors have no conversion of such integers.
        digits = (above >> constant(52, _BITS)) | constant(1075 << 52, _BITS)
        exponent = reinterpreted(_F64, digits) - _number(2.0**52 + 1023)
        fraction = reinterpreted(_F64, bits - (above & constant(_EXPONENT, _BITS)) + constant(_ONE, _BITS))
        inverse_tangent = let(fraction, lambda z: let((z - _number(1)) / (z + _number(1)), series))
        return exponent + inverse_tangent

    def series(s: tirx.Expr) -> tirx.Expr:
        return s * let(s * s, lambda square: polynomial(_LOG2, square))

    return let(tirx.abs(argument.astype(_F64)), result)


def power(x: tirx.Expr, y: tirx.Expr, log: tirx.Expr) -> tirx.Expr:
    """Return the power of a float32, given the logarithm of its size; the error is 6e-8, as near as float32 is.

    The logarithm is one to base 2 in float64, or a natural one in float32: with it, the error is 7e-6 of what float16
    has a number for. As the C library's, the power is 1 where the exponent is 0 or the base 1, and NaN of a negative
    base and a fraction.
    """
    floor = ROUNDINGS["tirx.floor"] if is_half(y) else tirx.floor

    def size(exponent: tirx.Expr) -> tirx.Expr:
        limited = tirx.Select(exponent > _number(_LARGE), _number(_LARGE), exponent)
        limited = tirx.Select(exponent < _number(-_LARGE), _number(-_LARGE), limited)
        return let(limited * log, lambda t: let(_within(t), lambda t: let(tirx.nearbyint(t), lambda n: exp2(t, n))))

    def size_of_halves(exponent: tirx.Expr) -> tirx.Expr:
        # Of what is no number the bounds lose that it is none; where that is so the result is chosen below.
        return exp(tirx.max(tirx.min(exponent, constant(_LARGE_HALF)), constant(-_LARGE_HALF)) * log)

    def exp2(t: tirx.Expr, whole: tirx.Expr) -> tirx.Expr:
        # Of a number to which one is added and taken away again TVM knows no rounding: the rest would be 0.
        scale = reinterpreted(_F64, reinterpreted(_BITS, whole + _number(_ROUND)) << constant(52, _BITS))
        return let(t - whole, lambda rest: polynomial(_EXP2, rest)) * scale

    def signed(x: tirx.Expr, y: tirx.Expr) -> tirx.Expr:
        half = y * constant(0.5)
        is_whole, is_even = floor(y) == y, floor(half) == half
        odd = tirx.Select(tirx.And(is_whole, tirx.Not(is_even)), constant(1 << 31, "uint32"), constant(0, "uint32"))
        found = let(y, size_of_halves) if str(log.ty.dtype) == _F32 else let(y.astype(_F64), size).astype(_F32)
        value = reinterpreted(_F32, reinterpreted("uint32", found) | (reinterpreted("uint32", x) & odd))
        has_none = tirx.And(tirx.And(x < constant(0.0), x > constant(-math.inf)), tirx.Not(is_whole))
        has_none = tirx.Or(has_none, tirx.isnan(y))
        is_one = tirx.Or(x == constant(1.0), y == constant(0.0))
        return tirx.Select(is_one, constant(1.0), tirx.Select(has_none, constant(math.nan), value))

    return let(x, lambda x: let(y, lambda y: signed(x, y)))


def _within(t: tirx.Expr) -> tirx.Expr:
    above = tirx.Select(t < _number(-_BEYOND), _number(-_BEYOND), t)
    return tirx.Select(t > _number(_BEYOND), _number(_BEYOND), above)


def _number(value: float) -> tirx.Expr:
    """Return a float64."""
    return constant(value, _F64)
