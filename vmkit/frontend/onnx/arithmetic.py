"""ONNX's operators on sizes: ints and symbolic integers, of which nothing is known but that a symbol is not negative.

Every function returns None for what has no such value. Truth values are 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable

import tvm
import tvm_ffi
from tvm import tirx

from ...relay.ir import Dim, dims

__all__ = ["ELEMENTWISE", "exact_division", "truncated_remainder", "unequal"]


def _comparison(
    decide: Callable[[Dim, Dim], bool | None], holds: Callable[[tvm.ir.Expr, tvm.ir.Expr], tvm.ir.Expr]
) -> Callable[[Dim, Dim], Dim]:
    """Return a comparison as 0 or 1, decided at once if no size could change it."""

    def compare(a: Dim, b: Dim) -> Dim:
        decided = decide(a, b)
        return int(decided) if decided is not None else dims.select(holds(dims.as_expr(a), dims.as_expr(b)), 1, 0)

    return compare


def _opposite(decide: Callable[[Dim, Dim], bool | None]) -> Callable[[Dim, Dim], bool | None]:
    def opposite(a: Dim, b: Dim) -> bool | None:
        decided = decide(a, b)
        return None if decided is None else not decided

    return opposite


unequal = _comparison(_opposite(dims.same_size), tirx.NE)
_equal = _comparison(dims.same_size, tirx.EQ)


_DIVISIONS = (tirx.Div, tirx.FloorDiv, tirx.FloorMod, tirx.Mod)


def _unless_by_zero(divide: Callable[[Dim, Dim], Dim | None]) -> Callable[[Dim, Dim], Dim | None]:
    """Return a division whose divisor is 1 where a run makes it 0, by which a processor ends the process."""

    def divided(a: Dim, b: Dim) -> Dim | None:
        if isinstance(b, int) and b == 0:
            return None
        result = divide(a, b)
        if result is None or not _may_divide_by_zero(result):
            return result
        return divide(a, dims.maximum(b, 1) if dims.at_least(b, 0) else dims.select(dims.as_expr(b) == 0, 1, b))

    return divided


def _may_divide_by_zero(size: Dim) -> bool:
    divisors: list[Dim] = []
    if not isinstance(size, int):
        tvm_ffi.structural_walk(size, (_DIVISIONS, lambda division: divisors.append(dims.simplify(division.b))))
    return not all(dims.at_least(divisor, 1) or dims.at_least(-1, divisor) for divisor in divisors)


exact_division = _unless_by_zero(dims.exact_division)
truncated_remainder = _unless_by_zero(dims.truncmod)


def _power(a: Dim, b: Dim) -> Dim | None:
    return dims.power(a, b) if isinstance(b, int) and 0 <= b <= dims.LARGEST_POWER else None


def _choose(condition: Dim, a: Dim, b: Dim) -> Dim:
    if isinstance(condition, int):
        return a if condition else b
    return dims.select(condition != 0, a, b)


def _itself(a: Dim) -> Dim:
    return a


ELEMENTWISE: dict[str, Callable[..., Dim | None]] = {
    "Abs": lambda a: dims.larger(a, dims.sub(0, a)),
    "Add": dims.add,
    "And": dims.mul,
    "Ceil": _itself,
    "Div": _unless_by_zero(dims.truncdiv),
    "Equal": _equal,
    "Floor": _itself,
    "Greater": _comparison(dims.more_than, lambda a, b: a > b),
    "GreaterOrEqual": _comparison(dims.at_least, lambda a, b: a >= b),
    "Less": _comparison(_opposite(dims.at_least), lambda a, b: a < b),
    "LessOrEqual": _comparison(_opposite(dims.more_than), lambda a, b: a <= b),
    "Max": dims.larger,
    "Min": dims.smaller,
    "Mod": _unless_by_zero(dims.floormod),
    "Mul": dims.mul,
    "Neg": lambda a: dims.sub(0, a),
    "Not": lambda a: _equal(a, 0),
    "Or": dims.larger,
    "Pow": _power,
    "Round": _itself,
    "Sub": dims.sub,
    "Sum": dims.add,
    "Where": _choose,
}
