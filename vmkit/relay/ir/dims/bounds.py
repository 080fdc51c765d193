"""Between which numbers an expression of sizes is, as far as sums, multiples and quotients tell: no proof by search.

An expression is taken as a sum of multiples of its *terms*: symbols, quotients, remainders, largest and smallest. Equal
terms cancel. A quotient that is left is what it divides, less a remainder, by the divisor, and so on until symbols are
left: ``(n + 31) // 96 * 6 + 6 - (n + 31) // 32 * 2`` is from 1/16 to 127/16, as ``n`` cancels.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, inf
from typing import NamedTuple, TypeAlias

import tvm
import tvm_ffi
from tvm import tirx

from ..dim import Dim
from .expressions import REMEMBERED, parts, structural_key

__all__ = ["bounds"]

_MOST_STEPS = 32
_DEEPEST = 8

End: TypeAlias = Fraction | float  # a number, or an infinity where nothing is known


class _Range(NamedTuple):
    least: End
    most: End

    def times(self, factor: Fraction) -> _Range:
        """Return the range of a multiple."""
        ends = sorted(end * factor if isinstance(end, Fraction) else end * float(factor) for end in self)
        return _Range(*ends)

    def plus(self, other: _Range) -> _Range:
        """Return the range of a sum."""
        return _Range(self.least + other.least, self.most + other.most)


class _Sum(NamedTuple):
    """Multiples of terms, and the range of what is added to them."""

    multiples: Mapping[tvm_ffi.StructuralKey, Fraction]
    rest: _Range

    def plus(self, other: _Sum, factor: Fraction) -> _Sum:
        """Return the sum with a multiple of another."""
        multiples = dict(self.multiples)
        for term, multiple in other.multiples.items():
            multiples[term] = multiples.get(term, Fraction(0)) + multiple * factor
        kept = {term: multiple for term, multiple in multiples.items() if multiple}
        return _Sum(kept, self.rest.plus(other.rest.times(factor)))


_UNKNOWN = _Range(-inf, inf)
_SIZE = _Range(Fraction(0), inf)


def bounds(value: Dim) -> tuple[int | None, int | None]:
    """Return the least and the largest that an expression may be, whatever its symbols are; None where not known.

    A symbol is a size: it is not negative.
    """
    if isinstance(value, int):
        return value, value
    found = _bounds(structural_key(value), 0)
    return ceil(found.least) if found.least != -inf else None, floor(found.most) if found.most != inf else None


@lru_cache(REMEMBERED)
def _bounds(key: tvm_ffi.StructuralKey, depth: int) -> _Range:
    if depth > _DEEPEST:
        return _UNKNOWN
    total = _sum(key.key)
    best = _range(total, depth)
    for _ in range(_MOST_STEPS):
        quotients = [t for t in total.multiples if isinstance(t.key, tirx.FloorDiv) and _divisor(t.key)]
        if not quotients:
            break
        term = max(quotients, key=lambda t: parts(t.key))  # One that is inside of another may cancel out first.
        multiple = total.multiples[term]
        without = _Sum({t: m for t, m in total.multiples.items() if t is not term}, total.rest)
        total = without.plus(_written_out(term.key), multiple)
        found = _range(total, depth)
        best = _Range(max(best.least, found.least), min(best.most, found.most))
    return best


def _sum(value: tvm.ir.Expr) -> _Sum:
    """Return an expression as a sum of multiples of terms."""
    match value:
        case tirx.IntImm():
            number = Fraction(int(value.value))
            return _Sum({}, _Range(number, number))
        case tirx.Add() | tirx.Sub():
            return _sum(value.a).plus(_sum(value.b), Fraction(1 if isinstance(value, tirx.Add) else -1))
        case tirx.Mul() if isinstance(value.b, tirx.IntImm):
            return _number(0).plus(_sum(value.a), Fraction(int(value.b.value)))
    return _Sum({structural_key(value): Fraction(1)}, _number(0).rest)


def _number(number: int) -> _Sum:
    return _Sum({}, _Range(Fraction(number), Fraction(number)))


def _written_out(quotient: tirx.FloorDiv) -> _Sum:
    by = int(quotient.b.value)
    lost = _Sum({}, _Range(Fraction(1 - by), Fraction(0)))
    return _number(0).plus(lost.plus(_sum(quotient.a), Fraction(1)), Fraction(1, by))


def _range(total: _Sum, depth: int) -> _Range:
    found = total.rest
    for term, multiple in total.multiples.items():
        found = found.plus(_term(term.key, depth).times(multiple))
    return found


def _term(value: tvm.ir.Expr, depth: int) -> _Range:
    """Return the range of what is no sum."""

    def of(operand: tvm.ir.Expr) -> _Range:
        return _bounds(structural_key(operand), depth + 1)

    match value:
        case tvm.ir.Var():
            return _SIZE
        case tirx.FloorMod() if _divisor(value):
            return _Range(Fraction(0), Fraction(_divisor(value) - 1))
        case tirx.FloorDiv() if of(value.a).least >= 0 and of(value.b).least >= 1:
            return _SIZE
        case tirx.Mul() if of(value.a).least >= 0 and of(value.b).least >= 0:
            return _SIZE
        case tirx.Max():
            a, b = of(value.a), of(value.b)
            return _Range(max(a.least, b.least), max(a.most, b.most))
        case tirx.Min():
            a, b = of(value.a), of(value.b)
            return _Range(min(a.least, b.least), min(a.most, b.most))
        case tirx.Select():
            a, b = of(value.true_value), of(value.false_value)
            return _Range(min(a.least, b.least), max(a.most, b.most))
    return _UNKNOWN


def _divisor(value: tirx.FloorDiv | tirx.FloorMod) -> int:
    """Return the number that a quotient or remainder is by; 0 where it is not a number, or negative."""
    return max(int(value.b.value), 0) if isinstance(value.b, tirx.IntImm) else 0
