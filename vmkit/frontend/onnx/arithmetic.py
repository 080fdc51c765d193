"""Arithmetic on sizes: ints and symbolic integers, of which nothing is known but that a symbol is not negative.

Every function returns None for what has no such value. Truth values are 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from tvm import tirx

from ...relay.ir import Dim, dims

__all__ = ["ELEMENTWISE", "exact_division", "maximum", "minimum", "truncated_remainder", "unequal"]


def _comparison(
    decide: Callable[[Dim, Dim], bool | None], holds: Callable[[Any, Any], Any]
) -> Callable[[Dim, Dim], Dim]:
    """Return a comparison as 0 or 1, decided at once if no size could change it."""

    def compare(a: Dim, b: Dim) -> Dim:
        decided = decide(a, b)
        return int(decided) if decided is not None else dims.select(holds(dims.as_expr(a), dims.as_expr(b)), 1, 0)

    return compare


def _opposite(decided: bool | None) -> bool | None:
    return None if decided is None else not decided


def _is_more(a: Dim, b: Dim) -> bool | None:
    return dims.at_least(a, dims.add(b, 1))


def _is_equal(a: Dim, b: Dim) -> bool | None:
    same = dims.equal(a, b)
    if same is None and (_is_more(a, b) or _is_more(b, a)):
        return False
    return same


unequal = _comparison(lambda a, b: _opposite(_is_equal(a, b)), tirx.NE)
_equal = _comparison(_is_equal, tirx.EQ)


def _truncated_division(a: Dim, b: Dim) -> Dim | None:
    """Return the quotient of integers, rounded towards zero as ONNX does."""
    if isinstance(b, int) and b == 0:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1)
    if dims.at_least(a, 0) and dims.at_least(b, 0):
        return dims.floordiv(a, b)
    return dims.simplify(tirx.truncdiv(dims.as_expr(a), dims.as_expr(b)))


def exact_division(a: Dim, b: Dim) -> Dim | None:
    """Return the quotient of whole numbers if it is whole as well."""
    rest = _floor_remainder(a, b)
    return dims.floordiv(a, b) if isinstance(rest, int) and rest == 0 else None


def _floor_remainder(a: Dim, b: Dim) -> Dim | None:
    if isinstance(b, int) and b == 0:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return dims.simplify(tirx.floormod(dims.as_expr(a), dims.as_expr(b)))


def truncated_remainder(a: Dim, b: Dim) -> Dim | None:
    """Return what the quotient rounded towards zero leaves."""
    quotient = _truncated_division(a, b)
    return None if quotient is None else dims.sub(a, dims.mul(quotient, b))


def _power(a: Dim, b: Dim) -> Dim | None:
    return reduce(dims.mul, [a] * b, 1) if isinstance(b, int) and 0 <= b <= 8 else None


def _choose(condition: Dim, a: Dim, b: Dim) -> Dim:
    if isinstance(condition, int):
        return a if condition else b
    return dims.select(condition != 0, a, b)


def maximum(a: Dim, b: Dim) -> Dim:
    """Return the larger of two, without a comparison left where none is needed."""
    larger = dims.at_least(a, b)
    if larger is None and dims.at_least(b, a):
        return b
    return dims.maximum(a, b) if larger is None else a if larger else b


def minimum(a: Dim, b: Dim) -> Dim:
    """Return the smaller of two, without a comparison left where none is needed."""
    larger = dims.at_least(a, b)
    if larger is None and dims.at_least(b, a):
        return a
    return dims.minimum(a, b) if larger is None else b if larger else a


def _itself(a: Dim) -> Dim:
    return a


ELEMENTWISE: dict[str, Callable[..., Dim | None]] = {
    "Abs": lambda a: maximum(a, dims.sub(0, a)),
    "Add": dims.add,
    "And": dims.mul,
    "Ceil": _itself,
    "Div": _truncated_division,
    "Equal": _equal,
    "Floor": _itself,
    "Greater": _comparison(_is_more, lambda a, b: a > b),
    "GreaterOrEqual": _comparison(dims.at_least, lambda a, b: a >= b),
    "Less": _comparison(lambda a, b: _opposite(dims.at_least(a, b)), lambda a, b: a < b),
    "LessOrEqual": _comparison(lambda a, b: _opposite(_is_more(a, b)), lambda a, b: a <= b),
    "Max": maximum,
    "Min": minimum,
    "Mod": _floor_remainder,
    "Mul": dims.mul,
    "Neg": lambda a: dims.sub(0, a),
    "Not": lambda a: _equal(a, 0),
    "Or": maximum,
    "Pow": _power,
    "Round": _itself,
    "Sub": dims.sub,
    "Sum": dims.add,
    "Where": _choose,
}
