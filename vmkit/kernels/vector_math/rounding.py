"""Numbers of float16 rounded to whole ones, in float32.

LLVM takes a rounding between two conversions, to float32 and back, as one of 16 bits, which most processors lack, and
computes it element by element. Sums it leaves as they are: beside a large number float32 has no digits behind the
point, and those of float16 are all far below it.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx

__all__ = ["ROUNDINGS", "is_half"]

_LARGE = 1.5 * 2**23


def is_half(value: tirx.Expr) -> bool:
    """Tell whether a float32 is a number of float16 as it is."""
    return isinstance(value, tirx.Cast) and str(value.value.ty.dtype).startswith("float16")


def _rounded(x: tirx.Expr, correct: Callable[[tirx.Expr, tirx.Expr], tirx.Expr]) -> tirx.Expr:
    """Return what `correct` makes of the nearest integer and the number, with the sign of the number."""
    large, sign = tirx.const(_LARGE, "float32"), tirx.const(1 << 31, "uint32")
    # TVM, which takes sums of floats apart, does not see through what is looked at as bits.
    nearest = tirx.reinterpret("float32", tirx.reinterpret("uint32", x + large)) - large
    bits = tirx.reinterpret("uint32", correct(nearest, x))
    return tirx.reinterpret("float32", bits | (tirx.reinterpret("uint32", x) & sign))  # a zero that was below has it


def _one_if(condition: tirx.Expr) -> tirx.Expr:
    return tirx.Select(condition, tirx.const(1, "float32"), tirx.const(0, "float32"))


def _floor(x: tirx.Expr) -> tirx.Expr:
    return _rounded(x, lambda nearest, x: nearest - _one_if(nearest > x))


def _ceil(x: tirx.Expr) -> tirx.Expr:
    return _rounded(x, lambda nearest, x: nearest + _one_if(nearest < x))


def _trunc(x: tirx.Expr) -> tirx.Expr:
    zero = tirx.const(0, "float32")
    return tirx.Select(x < zero, _ceil(x), _floor(x))


def _nearest(x: tirx.Expr) -> tirx.Expr:
    return _rounded(x, lambda nearest, x: nearest)


ROUNDINGS: dict[str, Callable[[tirx.Expr], tirx.Expr]] = {
    "prim.ceil": _ceil,
    "tirx.floor": _floor,
    "tirx.nearbyint": _nearest,
    "tirx.trunc": _trunc,
}
"""The roundings of float32 for numbers of float16, by TVM's name."""
