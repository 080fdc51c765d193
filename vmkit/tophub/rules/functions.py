"""Exponential, logistic, hyperbolic tangent and error function of float32 as arithmetic that LLVM makes vectors of.

LLVM calls the C library for them, one element at a time. Here they are sums, products and shifts of bits, exact to
:data:`RELATIVE_ERROR`, also where the result is infinite, zero, denormal or not a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

__all__ = ["RELATIVE_ERROR", "with_vector_functions"]

RELATIVE_ERROR = 3e-7
"""The largest error of a function, relative to its value: some units in the last place of a float32."""

# Adding 1.5 * 2**23 to a number below 2**22 leaves the nearest whole number in the lowest bits of the sum.
_ROUNDING = 1.5 * 2.0**23
_ROUNDING_BITS = 0x4B400000
# The logarithm of 2 as the sum of two numbers; a product of the first one with a whole number is exact.
_LN2_HIGH = 0.693359375
_LN2_LOW = math.log(2) - _LN2_HIGH


def with_vector_functions(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel in which the functions above are arithmetic."""
    body = tvm_ffi.structural_map(function.body, (tvm.ir.Call, _replaced))
    return function if body.same_as(function.body) else function.with_body(body)


def _replaced(call: Any) -> Any:
    name = getattr(call.op, "name", "")
    if name not in _FUNCTIONS or str(call.ty.dtype) != "float32":
        return call
    inner: list[Any] = []
    tvm_ffi.structural_walk(call.args[0], (tirx.Let, inner.append))
    # TVM puts what is bound in place of its names again, so that functions of functions would grow without end.
    return call if inner else _bound("x", call.args[0], _FUNCTIONS[name])


def _bound(name: str, value: Any, body: Callable[[Any], Any]) -> Any:
    """Return an expression that uses a value several times and computes it once."""
    var = tirx.Var(name, str(value.ty.dtype))
    return tirx.Let(var, value, body(var))


def _number(value: float) -> Any:
    return tirx.const(value, "float32")


def _polynomial(x: Any, coefficients: list[float]) -> Any:
    """Return the polynomial with these coefficients, the highest one first."""
    value = _number(coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + _number(coefficient)
    return value


def _clamped(x: Any, low: float, high: float) -> Any:
    """Return x within bounds; one that is not a number stays so."""
    return tirx.Select(x < _number(low), _number(low), tirx.Select(x > _number(high), _number(high), x))


def _power_of_two(exponent: Any) -> Any:
    return tirx.reinterpret("float32", (exponent + 127) << 23)


def _split(x: Any, body: Callable[[Any, Any], Any]) -> Any:
    """Return what `body` makes of n and exp(r) - 1, where x = n * log(2) + r and r is at most half of log(2)."""
    # The series of exp(r) - 1 without its first term, divided by r ** 2.
    series = [1 / math.factorial(k) for k in range(7, 1, -1)]

    def of_sum(total: Any) -> Any:
        exponent = tirx.reinterpret("int32", total) - tirx.const(_ROUNDING_BITS, "int32")
        whole = total - _number(_ROUNDING)
        rest = (x - whole * _number(_LN2_HIGH)) - whole * _number(_LN2_LOW)

        def of_rest(r: Any) -> Any:
            return body(exponent, r + r * r * _polynomial(r, series))

        return _bound("rest", rest, of_rest)

    return _bound("total", x * _number(1 / math.log(2)) + _number(_ROUNDING), of_sum)


def _exp(x: Any) -> Any:
    def scaled(exponent: Any, grown: Any) -> Any:
        # In two steps, for 2 ** n alone may be out of range where the result is not.
        def of_exponent(n: Any) -> Any:
            half = n >> 1
            return (grown + _number(1.0)) * _power_of_two(half) * _power_of_two(n - half)

        return _bound("exponent", exponent, of_exponent)

    # Beyond these bounds the result is zero or infinite.
    return _bound("near", _clamped(x, -104.0, 89.0), lambda near: _split(near, scaled))


def _sigmoid(x: Any) -> Any:
    return _number(1.0) / (_number(1.0) + _exp(_number(0.0) - x))


def _tanh(x: Any) -> Any:
    """With e = exp(2 x) - 1, the hyperbolic tangent is e / (e + 2); beyond 10 it is 1."""

    def of_parts(exponent: Any, grown: Any) -> Any:
        def of_scale(scale: Any) -> Any:
            return _bound("e", grown * scale + (scale - _number(1.0)), lambda e: e / (e + _number(2.0)))

        return _bound("scale", _power_of_two(exponent), of_scale)

    return _bound("near", _clamped(x, -10.0, 10.0) * _number(2.0), lambda near: _split(near, of_parts))


def _erf(x: Any) -> Any:
    """Up to 1 the series in x; beyond, formula 7.1.26 of Abramowitz and Stegun, Handbook of Mathematical Functions."""
    series = [2 / math.sqrt(math.pi) * (-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(10, -1, -1)]
    far = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592, 0.0]

    def of_square(square: Any) -> Any:
        size = tirx.Select(x < _number(0.0), _number(0.0) - x, x)

        def of_fraction(t: Any) -> Any:
            large = _number(1.0) - _polynomial(t, far) * _exp(_number(0.0) - square)
            return tirx.Select(
                square < _number(1.0),
                x * _polynomial(square, series),
                tirx.Select(x < _number(0.0), _number(0.0) - large, large),
            )

        return _bound("t", _number(1.0) / (_number(1.0) + _number(0.3275911) * size), of_fraction)

    return _bound("square", x * x, of_square)


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "tirx.exp": _exp,
    "tirx.sigmoid": _sigmoid,
    "tirx.tanh": _tanh,
    "tirx.erf": _erf,
}
