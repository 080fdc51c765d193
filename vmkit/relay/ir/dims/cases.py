"""Sizes that are simpler than they look: what holds where no symbol is 0, proved for the sizes of 0 too."""

from __future__ import annotations

from collections.abc import Mapping

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer

from ..dim import Any, Dim
from .arithmetic import maximum
from .comparison import equal
from .expressions import choices, has_too_many_choices, simplify, substitute, symbols
from .parts import parts_of

__all__ = ["by_cases", "in_ranges"]

_MOST_SYMBOLS = 3  # every one of them doubles the cases
_LARGEST = 1 << 40
_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)


def by_cases(value: Dim) -> Dim:
    """Return a size with fewer choices (max, min, select) in it if one has the same value whatever the symbols are.

    A slice from ``p - 1`` on of what is ``2 * p - 1`` long has `p` elements, which TVM proves only for ``p >= 1``: a
    start of -1 is taken from the end. For ``p == 0`` the size is 0, which is `p` again. And the parts of what is cut
    in two at 3, ``max(n - 3, 0)`` and ``min(3, n)``, are `n` together.
    """
    found = symbols([value])
    if isinstance(value, int | Any) or not choices(value) or len(found) > _MOST_SYMBOLS:
        return value
    if has_too_many_choices(value):
        return value
    whole = _of_both_parts(value)
    if choices(whole) < choices(value):
        return by_cases(whole)
    analyzer = Analyzer()
    for symbol in found:
        analyzer.bind(symbol, tvm.ir.Range(tirx.IntImm("int64", 1), tirx.IntImm("int64", _LARGEST)))
    inside = simplify(analyzer.simplify(value))
    for simpler in (inside, maximum(inside, 0)):
        if choices(simpler) < choices(value) and all(_agree(value, simpler, symbol) for symbol in found):
            return simpler
    return value


def _of_both_parts(value: tvm.ir.Expr) -> Dim:
    """Return a size of which the least of two is written as one of them less what it is larger than the other.

    Which of the two, is what is left with fewer choices.
    """
    best: Dim = value
    for turned in (False, True) if any(isinstance(part, tirx.Min) for part in parts_of(value)) else ():

        def written(part: tirx.Min, turned: bool = turned) -> tvm.ir.Expr:
            a, b = (part.b, part.a) if turned else (part.a, part.b)
            return a - tirx.max(a - b, 0)

        other = simplify(tvm_ffi.structural_map(value, (tirx.Min, written)))
        best = other if choices(other) < choices(best) else best
    return best


def in_ranges(value: Dim, ranges: Mapping[tirx.Var, tuple[int, int]]) -> Dim:
    """Return a size as simple as it is where symbols are from the least to the largest size that a mapping gives."""
    limited = [] if isinstance(value, int | Any) else [s for s in symbols([value]) if s in ranges]
    if not limited or has_too_many_choices(value):
        return value
    analyzer = Analyzer()
    for symbol in symbols([value]):
        least, most = ranges.get(symbol, (0, _LARGEST))
        span = tvm.ir.Range.from_min_extent(tirx.IntImm("int64", least), tirx.IntImm("int64", most - least + 1))
        analyzer.bind(symbol, span)
    bound = analyzer.const_int_bound(value)
    if bound.min_value == bound.max_value:
        return int(bound.min_value)
    return simplify(analyzer.simplify(value))


def _agree(value: Dim, simpler: Dim, symbol: tirx.Var) -> bool:
    """Say whether two sizes are surely equal where a symbol is 0."""
    nothing = {symbol: tirx.IntImm("int64", 0)}
    if _divides_by_nothing(value, nothing):
        return True  # it has no value there that the other could differ from
    if _divides_by_nothing(simpler, nothing):
        return False
    return bool(equal(by_cases(substitute(value, nothing)), by_cases(substitute(simpler, nothing))))


def _divides_by_nothing(value: Dim, mapping: Mapping[tirx.Var, tvm.ir.Expr]) -> bool:
    """Say whether something in a size is divided by 0 where symbols have these values, as TVM's arithmetic refuses."""
    if isinstance(value, int | Any):
        return False
    divisors = [part.b for part in parts_of(value) if isinstance(part, _DIVISIONS)]
    return any(_divides_by_nothing(by, mapping) or equal(substitute(by, mapping), 0) for by in divisors)
