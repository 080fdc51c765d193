"""Functions of PyTorch that are no elementary ones: of gamma, Bessel and error, and of integers and bits.

They are computed in float64: series and quotients lose digits, of which PyTorch's own functions have nearly all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ...relay.op.kernel import grid
from .arguments import Converter, Importing, arguments_of, cast_to, dtype_of, refused
from .functions import mapped, mapped_tensors
from .matrix_kernels import WIDE, number
from .relay_operators import looped

if TYPE_CHECKING:
    from torch import fx

__all__ = ["SPECIAL_FUNCTIONS"]


def _polynomial(x: tirx.Expr, coefficients: Sequence[float]) -> tirx.Expr:
    """Return a polynomial by its coefficients, that of the highest power first."""
    value = number(coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + number(coefficient)
    return value


def _sine_of_turns(x: tirx.Expr) -> tirx.Expr:
    """Return the sine of a number times pi, exactly 0 at whole numbers; its sign is not that of the sine."""
    return tirx.sin((x - tirx.floor(x)) * number(math.pi))


_LANCZOS = 7
_LANCZOS_TERMS = (
    676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip


def _log_gamma(x: tirx.Expr) -> tirx.Expr:
    """Return the logarithm of the size of gamma: Lanczos' approximation, and the reflection below one half."""
    is_left = x < number(0.5)
    z = tirx.Select(is_left, -x, x - number(1))
    total = number(0.99999999999980993)
    for k, factor in enumerate(_LANCZOS_TERMS, 1):
        total = total + number(factor) / (z + number(k))
    base = z + number(_LANCZOS + 0.5)
    # As one product, (z + 1/2) log(base) - base loses nothing where both are large.
    right = (z + number(0.5)) * (tirx.log(base) - number(1)) - number(_LANCZOS)
    right = right + tirx.log(total) + number(0.5 * math.log(2 * math.pi))
    left = number(math.log(math.pi)) - tirx.log(tirx.abs(_sine_of_turns(x))) - right
    return tirx.Select(tirx.isinf(x), number(math.inf), tirx.Select(is_left, left, right))


_SHIFT = 10
_BERNOULLI = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)


def _digamma(x: tirx.Expr) -> tirx.Expr:
    """Return the derivative of the logarithm of gamma, by Stirling's series ten places on."""
    is_left = x < number(0)
    z = tirx.Select(is_left, number(1) - x, x)
    far = z + number(_SHIFT)
    inverse = number(1) / (far * far)
    value = tirx.log(far) - number(0.5) / far - _polynomial(inverse, _BERNOULLI) * inverse
    for k in range(_SHIFT):
        value = value - number(1) / (z + number(k))
    turns = (x - tirx.floor(x)) * number(math.pi)
    value = value - tirx.Select(is_left, number(math.pi) * tirx.cos(turns) / tirx.sin(turns), number(0))
    is_pole = tirx.all(is_left, tirx.EQ(x, tirx.floor(x)))
    # -inf at 0 and inf at the 0 below it.
    at_zero = number(-1) / x
    value = tirx.Select(is_pole, number(math.nan), tirx.Select(tirx.EQ(x, number(0)), at_zero, value))
    return tirx.Select(tirx.EQ(x, number(math.inf)), x, value)


_NEAR = 20.0  # from here on the asymptotic series is exact to all digits


def _bessel(x: tirx.Expr, *, order: int, is_scaled: bool) -> tirx.Expr:
    """Return the modified Bessel function of the first kind of order 0 or 1, divided by exp(abs(x)) if asked for."""
    size = tirx.abs(x)
    # The terms are positive: none takes digits from another. Far away the series would be endless.
    quarter = tirx.min(size, number(_NEAR)) * tirx.min(size, number(_NEAR)) * number(0.25)
    powers = [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(60, -1, -1)]
    near = _polynomial(quarter, powers)
    near = near * size * number(0.5) if order else near
    near = near * tirx.exp(-size) if is_scaled else near
    inverse = number(1) / tirx.max(size, number(_NEAR))
    terms = [1.0]
    for k in range(1, 24):
        terms.append(terms[-1] * ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k))
    far = _polynomial(inverse, terms[::-1]) * tirx.sqrt(inverse / number(2 * math.pi))
    # In two halves: exp(x) alone is endless before the function is.
    far = far if is_scaled else far * tirx.exp(size * number(0.5)) * tirx.exp(size * number(0.5))
    value = tirx.Select(size < number(_NEAR), near, far)
    value = tirx.Select(x < number(0), -value, value) if order else value
    endless = tirx.Select(tirx.isinf(x), number(0) if is_scaled else (x if order else size), value)
    return tirx.Select(tirx.isnan(x), x, endless)


# Giles, "Approximating the erfinv function", 2010: of w - 2.5 and of sqrt(w) - 3.
_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def _erf_inverse_near(x: tirx.Expr) -> tirx.Expr:
    w = -tirx.log((number(1) - x) * (number(1) + x))
    centre, tail = _polynomial(w - number(2.5), _CENTRE), _polynomial(tirx.sqrt(w) - number(3), _TAIL)
    return x * tirx.Select(w < number(5), centre, tail)


def _erf_inverse_step(y: tirx.Expr, x: tirx.Expr) -> tirx.Expr:
    """Return an inverse that is nearer by a step of Newton's; at the ends, and beyond them, there is no step."""
    slope = number(2 / math.sqrt(math.pi)) * tirx.exp(-y * y)
    nearer = y - (tirx.erf(y) - x) / slope
    size = tirx.abs(x)
    end = tirx.Select(x > number(0), number(math.inf), number(-math.inf))
    beyond = tirx.Select(tirx.EQ(size, number(1)), end, number(math.nan))
    return tirx.Select(size < number(1), nearer, beyond)


def _erf_inverse(importer: Importing, node: fx.Node) -> relax.Expr:
    dtype = dtype_of(node)
    x = cast_to(importer, importer.env[arguments_of(node)[0]], WIDE)
    found = mapped_tensors(importer, [x], WIDE, _erf_inverse_near, name="erfinv_near")
    for _ in range(2):
        found = mapped_tensors(importer, [found, x], WIDE, _erf_inverse_step, name="erfinv_step")
    return cast_to(importer, found, dtype)


def _next_after(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the number beside another one in its type, towards a third."""
    dtype = dtype_of(node)
    if dtype not in ("float32", "float64"):
        raise refused(node, f"steps through numbers of {dtype}; there are steps of float32 and float64")
    bits = "int" + dtype[-2:]

    def step(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
        own, zero = tirx.reinterpret(bits, a), tirx.const(0, dtype)
        one = tirx.const(1, bits)
        is_away = tirx.Select(a > zero, b > a, b < a)
        moved = tirx.Select(is_away, own + one, own - one)
        least = tirx.reinterpret(dtype, one)
        from_zero = tirx.Select(b > zero, least, -least)
        value = tirx.Select(tirx.EQ(a, zero), from_zero, tirx.reinterpret(dtype, moved))
        value = tirx.Select(tirx.EQ(a, b), b, value)
        return tirx.Select(tirx.isnan(a), a, tirx.Select(tirx.isnan(b), b, value))

    return mapped(importer, node, function=step)


def _divisor(importer: Importing, node: fx.Node, *, is_multiple: bool) -> relax.Expr:
    """Return the greatest common divisor of integers beside each other, or their least common multiple."""
    dtype = dtype_of(node)
    emit, op = importer.block_builder.emit, relax.op
    first, second = (cast_to(importer, importer.env[each], dtype) for each in arguments_of(node))
    shape = emit(op.add(first, second)).ty.shape
    wide = [emit(op.broadcast_to(each, shape)) for each in (first, second)]

    def body(outputs: list[tirx.Buffer], a: tirx.Buffer, b: tirx.Buffer) -> None:
        out, pair = outputs
        zero = tirx.const(0, dtype)
        with grid(list(a.shape)) as i:
            at = tuple(i)
            for k, given in enumerate((a, b)):
                T.buffer_store(pair, _size_of(given[at]), [k])
            with T.While(pair[1] != zero):
                rest = T.bind(tirx.truncmod(pair[0], pair[1]))
                T.buffer_store(pair, pair[1], [0])
                T.buffer_store(pair, rest, [1])
            found = pair[0]
            if is_multiple:
                # Divided first: the product of both may be larger than any number.
                divisor = tirx.Select(tirx.EQ(found, zero), tirx.const(1, dtype), _size_of(found))
                found = _size_of(tirx.truncdiv(a[at], divisor) * b[at])
            T.buffer_store(out, found, i)

    results: list[Any] = [(list(shape), dtype), ([2], dtype)]
    return cast("relax.Expr", looped(importer, results, body, *wide, name="divisor")[0])


def _size_of(value: tirx.Expr) -> tirx.Expr:
    zero = tirx.const(0, value.ty.dtype)
    return value if str(value.ty.dtype).startswith("uint") else tirx.Select(value < zero, zero - value, value)


def _wide(function: Callable[..., tirx.Expr]) -> Converter:
    return partial(mapped, function=function, wide=WIDE)


SPECIAL_FUNCTIONS: dict[str, Converter] = {
    "digamma.default": _wide(_digamma),
    "erfinv.default": _erf_inverse,
    "gcd.default": partial(_divisor, is_multiple=False),
    "i0.default": _wide(partial(_bessel, order=0, is_scaled=False)),
    "lcm.default": partial(_divisor, is_multiple=True),
    "lgamma.default": _wide(_log_gamma),
    "nextafter.default": _next_after,
    "special_i0e.default": _wide(partial(_bessel, order=0, is_scaled=True)),
    "special_i1.default": _wide(partial(_bessel, order=1, is_scaled=False)),
    "special_i1e.default": _wide(partial(_bessel, order=1, is_scaled=True)),
}
"""The converters, by the names of PyTorch's operators."""
