"""Quadratic forms that are products: ``x*x + 2*x*y + y*y`` is ``(x + y) * (x + y)``."""

from __future__ import annotations

from math import isqrt
from typing import Any

from ...ir import Call, Expr, RelayExpr, const, is_call
from ...op.registry import build
from ..known_type import type_of
from .matching import rule, same_type, scalar_value

__all__: list[str] = []

# The coefficient of a product, and its other factors.
_Term = tuple[int, list[Any]]


@rule("add")
def factored_binomial(call: Call) -> RelayExpr | None:
    """``x*x + b*x*y + c*y*y`` is ``(x + p*y) * (x + q*y)``, where p and q are whole."""
    terms = [_term(part) for part in _operands(call, "add", 3)]
    if len(terms) != 3 or any(t is None or not _is_square_sized(t, call) for t in terms):
        return None
    known: list[_Term] = [t for t in terms if t is not None]
    squares = [t for t in known if t[1][0].same_as(t[1][1])]
    mixed = [t for t in known if not t[1][0].same_as(t[1][1])]
    if len(squares) != 2 or len(mixed) != 1:
        return None
    (a, (x, _)), (c, (y, _)), (b, factors) = *squares, mixed[0]
    if not all(any(f.same_as(v) for f in factors) for v in (x, y)):
        return None
    if c == 1 and a > 1:
        (a, x), (c, y) = (c, y), (a, x)
    return _product(x, y, a, b, c, type_of(call).dtype)


def _product(x: Expr, y: Expr, a: int, b: int, c: int, dtype: str) -> RelayExpr | None:
    root = b * b - 4 * c
    if a != 1 or root < 0 or isqrt(root) ** 2 != root or (b + isqrt(root)) % 2:
        return None
    p, q = (b + isqrt(root)) // 2, (b - isqrt(root)) // 2
    first = _sum(x, y, p, dtype)
    return build("multiply", first, first if p == q else _sum(x, y, q, dtype))


def _sum(x: Expr, y: Expr, factor: int, dtype: str) -> Expr:
    return build("add", x, y if factor == 1 else build("multiply", const(factor, dtype), y))


def _operands(expr: RelayExpr, name: str, most: int) -> list[RelayExpr]:
    """Return what a nested sum or product is made of, or more than `most` operands when there are."""
    parts: list[Any] = []
    waiting = [expr]
    while waiting and len(parts) <= most:
        current = waiting.pop()
        if is_call(current, name):
            waiting += reversed(list(current.args))
        else:
            parts.append(current)
    return parts + waiting


def _term(expr: RelayExpr) -> _Term | None:
    """Return a product as its whole coefficient and two factors."""
    coefficient, factors = 1, []
    for part in _operands(expr, "multiply", 3):
        value = scalar_value(part)
        if value is None:
            factors.append(part)
        elif float(value).is_integer() and not isinstance(value, bool):
            coefficient *= int(value)
        else:
            return None
    return (coefficient, factors) if len(factors) == 2 and coefficient > 0 else None


def _is_square_sized(term: _Term, call: Call) -> bool:
    return all(same_type(factor, call) for factor in term[1])
