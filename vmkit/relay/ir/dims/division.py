"""Quotients that are simplified by what is known of sizes: common factors, and that no size is negative."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, prod

from tvm import tirx

from ..dim import Any, Dim
from .arithmetic import floordiv, floormod, maximum, mul, product, sub
from .comparison import at_least, equal
from .expressions import int64, is_any, simplify

__all__ = ["exact_division", "quotient", "truncdiv", "truncmod", "uncommon"]


def truncdiv(a: Dim, b: Dim) -> Dim:
    """Return the quotient rounded towards zero."""
    if is_any(a) or is_any(b):
        return Any()
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1)
    if at_least(a, 0) and at_least(b, 0):
        return floordiv(a, b)
    return simplify(tirx.truncdiv(int64(a), int64(b)))


def truncmod(a: Dim, b: Dim) -> Dim:
    """Return what the quotient rounded towards zero leaves."""
    return sub(a, mul(truncdiv(a, b), b))


def exact_division(a: Dim, b: Dim) -> Dim | None:
    """Return the quotient if it is surely whole, else None."""
    rest = floormod(a, b)
    return floordiv(a, b) if isinstance(rest, int) and rest == 0 else None


def quotient(dividends: Iterable[Dim], divisors: Iterable[Dim]) -> Dim:
    """Return the product of dimensions divided by that of others, of which what both have is left out.

    So ``n * 64`` by ``n * 16`` is 4, even where `n` is 0. Where what is left to divide by is 0, so is the rest.
    """
    above, below = uncommon(dividends, divisors)
    by = product(below)
    return floordiv(product(above), by if at_least(by, 1) else maximum(by, 1))


def uncommon(first: Iterable[Dim], second: Iterable[Dim]) -> tuple[list[Dim], list[Dim]]:
    """Return the factors of two products of dimensions, without what both have."""
    above = [f for d in first for f in factors(d)]
    below: list[Dim] = []
    for factor in (f for d in second for f in factors(d)):
        at = next((i for i, f in enumerate(above) if not isinstance(factor, int) and equal(f, factor)), None)
        if at is None:
            below.append(factor)
        else:
            del above[at]
    (number, above), (divisor, below) = _apart(above), _apart(below)
    common = gcd(number, divisor) or 1
    return [number // common, *above], [divisor // common, *below]


def _apart(factors: Sequence[Dim]) -> tuple[int, list[Dim]]:
    """Return the number among factors, and the rest."""
    return prod(f for f in factors if isinstance(f, int)), [f for f in factors if not isinstance(f, int)]


def factors(dim: Dim) -> list[Dim]:
    """Return the sizes that a dimension is the product of; two that are less than 0 make one, and are none."""
    if isinstance(dim, tirx.Mul):
        found = [*factors(simplify(dim.a)), *factors(simplify(dim.b))]
        if not any(isinstance(factor, int) and factor < 0 for factor in found):
            return found
    return [dim]
