"""Comparison of sizes that are limited by others, as those of slices are: ``max(min(n + p, 64) - min(p, 64), 0)``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, product
from typing import TypeAlias, TypeGuard

import tvm
from tvm import tirx

from ..dim import Dim

__all__ = ["is_limited", "is_never_less", "rows"]

# The largest of the smallest: an expression as rows of alternatives without max and min in them.
Rows: TypeAlias = list[list[tvm.ir.Expr]]
_MOST = 64


def is_limited(value: Dim) -> TypeGuard[tvm.ir.Expr]:
    """Say whether an expression is a largest or smallest of others, or a sum or difference of such."""
    if isinstance(value, tirx.Max | tirx.Min):
        return True
    return isinstance(value, tirx.Add | tirx.Sub) and (is_limited(value.a) or is_limited(value.b))


def is_never_less(a: tvm.ir.Expr, b: tvm.ir.Expr, decide: Callable[[tvm.ir.Expr, tvm.ir.Expr], bool | None]) -> bool:
    """Say whether ``a >= b`` can be proved by parts: `decide` compares expressions without max and min.

    ``max(x, y)`` is no more than `a` if neither is, ``min(x, y)`` if one of them is; sums and differences are
    distributed over both.
    """
    above, below = rows(a), rows(b)
    return all(any(all(any(decide(x, y) for y in row) for x in upper) for upper in above) for row in below)


def rows(value: tvm.ir.Expr) -> Rows:
    """Return an expression as the largest of rows, each the smallest of expressions without max and min."""
    match value:
        case tirx.Max():
            found = rows(value.a) + rows(value.b)
        case tirx.Min():
            found = [x + y for x, y in product(rows(value.a), rows(value.b))]
        case tirx.Add() | tirx.Sub() if is_limited(value):
            other = rows(value.b) if isinstance(value, tirx.Add) else _negative(rows(value.b))
            if len(other) * len(first := rows(value.a)) > _MOST:
                return [[value]]
            found = [[x + y for x, y in product(p, q)] for p, q in product(first, other)]
        case _:
            return [[value]]
    return found if sum(map(len, found)) <= _MOST else [[value]]


def _negative(found: Rows) -> Rows:
    """Return the rows of ``-value``: the largest of smallest becomes the smallest of largest, which is turned round."""
    return [[-x for x in chosen] for chosen in islice(product(*found), _MOST + 1)]
