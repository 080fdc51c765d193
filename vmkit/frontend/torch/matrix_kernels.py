"""Loops over matrices: elimination, substitution, factors and the exponential, in float64.

Each function writes what one matrix takes, in the body of :func:`vmkit.relay.op.kernel.loops`; `i` is where the matrix
stands in its stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from ...relay.op.kernel import grid

__all__ = ["WIDE", "at", "cholesky", "eliminated", "exponential", "householder", "number", "substituted", "summed"]

WIDE = "float64"
Index = Sequence[tirx.Expr]


def number(value: float) -> tirx.Expr:
    return tirx.const(float(value), WIDE)


def at(lead: Index, *index: tirx.Expr) -> tuple[tirx.Expr, ...]:
    """Return where an element stands, of a matrix that stands somewhere in its stack."""
    return (*lead, *index)


@contextmanager
def summed(total: tirx.Buffer, extent: tirx.Expr) -> Iterator[tirx.Var]:
    """Open a loop that adds to the one element of a buffer, which begins with 0."""
    T.buffer_store(total, number(0), [0])
    with grid([extent]) as (k,):
        yield k


def _add(total: tirx.Buffer, value: tirx.Expr) -> None:
    T.buffer_store(total, total[0] + value, [0])


def eliminated(
    x: tirx.Buffer, factors: tirx.Buffer, pivots: tirx.Buffer, info: tirx.Buffer, best: tirx.Buffer, i: Index
) -> None:
    """Write a matrix as a lower factor times an upper one, the rows swapped for the largest pivots.

    ``info`` is the number of the first column without a pivot, from 1 on, or 0.
    """
    rows, columns = x.shape[-2:]
    with grid([rows, columns]) as (r, c):
        T.buffer_store(factors, x[at(i, r, c)].astype(WIDE), [*i, r, c])
    T.buffer_store(info, tirx.const(0, "int32"), i)
    with grid([tirx.min(rows, columns)]) as (k,):
        T.buffer_store(best, k, [0])
        with grid([rows - k - 1]) as (r,):
            row = T.bind(k + 1 + r)
            with T.If(tirx.abs(factors[at(i, row, k)]) > tirx.abs(factors[at(i, best[0], k)])), T.Then():
                T.buffer_store(best, row, [0])
        T.buffer_store(pivots, (best[0] + 1).astype("int32"), [*i, k])
        with T.If(best[0] != k), T.Then(), grid([columns]) as (c,):
            upper, lower = T.bind(factors[at(i, k, c)]), T.bind(factors[at(i, best[0], c)])
            T.buffer_store(factors, lower, [*i, k, c])
            T.buffer_store(factors, upper, [*i, best[0], c])
        pivot = T.bind(factors[at(i, k, k)])
        with T.If(tirx.all(tirx.EQ(pivot, number(0)), tirx.EQ(info[tuple(i)], tirx.const(0, "int32")))), T.Then():
            T.buffer_store(info, (k + 1).astype("int32"), i)
        with T.If(pivot != number(0)), T.Then(), grid([rows - k - 1]) as (r,):
            row = T.bind(k + 1 + r)
            factor = T.bind(factors[at(i, row, k)] / pivot)
            T.buffer_store(factors, factor, [*i, row, k])
            with grid([columns - k - 1]) as (c,):
                column = T.bind(k + 1 + c)
                left = factors[at(i, row, column)] - factor * factors[at(i, k, column)]
                T.buffer_store(factors, left, [*i, row, column])


def substituted(
    a: tirx.Buffer,
    x: tirx.Buffer,
    total: tirx.Buffer,
    i: Index,
    *,
    is_upper: bool,
    is_transposed: bool = False,
    is_unit: bool = False,
) -> None:
    """Write over ``x`` what times a triangle gives ``x``: of a matrix, or of its transpose."""
    rows, columns = x.shape[-2:]
    from_end = is_upper != is_transposed
    with grid([columns, rows]) as (c, step):
        row = T.bind(rows - 1 - step if from_end else step)
        with summed(total, step) as k:
            known = T.bind(rows - 1 - k if from_end else k)
            element = a[at(i, known, row)] if is_transposed else a[at(i, row, known)]
            _add(total, element.astype(WIDE) * x[at(i, known, c)])
        value = x[at(i, row, c)] - total[0]
        T.buffer_store(x, value if is_unit else value / a[at(i, row, row)].astype(WIDE), [*i, row, c])


def cholesky(x: tirx.Buffer, factor: tirx.Buffer, info: tirx.Buffer, total: tirx.Buffer, i: Index) -> None:
    """Write the lower factor of a positive matrix, of which the lower triangle is read.

    ``info`` is the number of the first minor that is not positive, from 1 on, or 0.
    """
    size = x.shape[-1]
    T.buffer_store(info, tirx.const(0, "int32"), i)
    with grid([size, size]) as (r, c):
        T.buffer_store(factor, number(0), [*i, r, c])
    with grid([size]) as (c,), grid([size - c]) as (below,):
        row = T.bind(c + below)
        with summed(total, c) as k:
            _add(total, factor[at(i, row, k)] * factor[at(i, c, k)])
        rest = T.bind(x[at(i, row, c)].astype(WIDE) - total[0])
        with T.If(tirx.EQ(below, tirx.const(0, "int64"))):
            with T.Then():
                is_first = tirx.EQ(info[tuple(i)], tirx.const(0, "int32"))
                is_bad = tirx.any(rest <= number(0), tirx.isnan(rest))
                with T.If(tirx.all(is_bad, is_first)), T.Then():
                    T.buffer_store(info, (c + 1).astype("int32"), i)
                T.buffer_store(factor, tirx.sqrt(rest), [*i, c, c])
            with T.Else():
                T.buffer_store(factor, rest / factor[at(i, c, c)], [*i, row, c])


def householder(
    x: tirx.Buffer, q: tirx.Buffer, r: tirx.Buffer, scales: tirx.Buffer, total: tirx.Buffer, i: Index
) -> None:
    """Write a matrix as an orthogonal factor, of so many columns as ``q`` has, times an upper one, by reflections.

    The signs are LAPACK's: what a reflection leaves of a column has the sign that its first element has not.
    """
    rows, columns = x.shape[-2:]
    count = tirx.min(rows, columns)
    with grid([rows, columns]) as (a, b):
        T.buffer_store(r, x[at(i, a, b)].astype(WIDE), [*i, a, b])
    with grid([count]) as (k,):
        with summed(total, rows - k - 1) as below:
            _add(total, r[at(i, k + 1 + below, k)] * r[at(i, k + 1 + below, k)])
        first = T.bind(r[at(i, k, k)])
        size = T.bind(tirx.sqrt(total[0] + first * first))
        is_plain = T.bind(tirx.EQ(total[0], number(0)))
        made = T.bind(tirx.Select(is_plain, first, tirx.Select(first < number(0), size, -size)))
        scale = T.bind(tirx.Select(is_plain, number(0), (made - first) / tirx.Select(is_plain, number(1), made)))
        divisor = T.bind(tirx.Select(is_plain, number(1), first - made))
        T.buffer_store(scales, scale, [k])
        with grid([rows - k - 1]) as (below,):  # the reflection is kept below the diagonal; its first element is 1
            row = T.bind(k + 1 + below)
            T.buffer_store(r, r[at(i, row, k)] / divisor, [*i, row, k])
        T.buffer_store(r, made, [*i, k, k])
        with grid([columns - k - 1]) as (right,):
            _reflect(r, r, scales, total, i, k, T.bind(k + 1 + right), rows)
    with grid([rows, q.shape[-1]]) as (a, b):
        T.buffer_store(q, tirx.Select(tirx.EQ(a, b), number(1), number(0)), [*i, a, b])
    with grid([count, q.shape[-1]]) as (back, b):
        _reflect(r, q, scales, total, i, T.bind(count - 1 - back), b, rows)


def _reflect(
    kept: tirx.Buffer,
    x: tirx.Buffer,
    scales: tirx.Buffer,
    total: tirx.Buffer,
    i: Index,
    k: tirx.Expr,
    column: tirx.Expr,
    rows: tirx.Expr,
) -> None:
    """Apply the reflection that is kept in a column to another column."""
    with summed(total, rows - k - 1) as below:
        row = T.bind(k + 1 + below)
        _add(total, kept[at(i, row, k)] * x[at(i, row, column)])
    share = T.bind((total[0] + x[at(i, k, column)]) * scales[k])
    T.buffer_store(x, x[at(i, k, column)] - share, [*i, k, column])
    with grid([rows - k - 1]) as (below,):
        row = T.bind(k + 1 + below)
        T.buffer_store(x, x[at(i, row, column)] - share * kept[at(i, row, k)], [*i, row, column])


_TERMS = 18  # of the series: what is left of it is below float64's digits for a norm of 1/2
_MOST_HALVINGS = 1100  # no float64 takes more


def exponential(x: tirx.Buffer, out: tirx.Buffer, scratch: Sequence[tirx.Buffer], i: Index) -> None:
    """Write the exponential of a matrix: the series of a part of it, 1/2**n, squared so many times."""
    part, power, made, total, halvings = scratch
    size = x.shape[-1]
    T.buffer_store(total, number(0), [1])
    with grid([size]) as (c,):
        with summed(total, size) as r:
            _add(total, tirx.abs(x[at(i, r, c)].astype(WIDE)))
        T.buffer_store(total, tirx.max(total[1], total[0]), [1])
    T.buffer_store(halvings, tirx.const(0, "int64"), [0])
    with T.While(tirx.all(total[1] > number(0.5), halvings[0] < _MOST_HALVINGS)):
        T.buffer_store(total, total[1] * number(0.5), [1])
        T.buffer_store(halvings, halvings[0] + 1, [0])
    with grid([size, size]) as (r, c):
        scale = tirx.exp2(-halvings[0].astype(WIDE))
        T.buffer_store(part, x[at(i, r, c)].astype(WIDE) * scale, [r, c])
        T.buffer_store(power, tirx.Select(tirx.EQ(r, c), number(1), number(0)), [r, c])
    # From the last term back: 1 + A/1 (1 + A/2 (1 + ...)).
    with grid([_TERMS]) as (back,):
        _multiply(part, power, made, total, size)
        with grid([size, size]) as (r, c):
            share = made[r, c] / (tirx.const(_TERMS, "int64") - back).astype(WIDE)
            T.buffer_store(power, tirx.Select(tirx.EQ(r, c), share + number(1), share), [r, c])
    with grid([halvings[0]]) as (_,):
        _multiply(power, power, made, total, size)
        with grid([size, size]) as (r, c):
            T.buffer_store(power, made[r, c], [r, c])
    with grid([size, size]) as (r, c):
        T.buffer_store(out, power[r, c], [*i, r, c])


def _multiply(a: tirx.Buffer, b: tirx.Buffer, made: tirx.Buffer, total: tirx.Buffer, size: tirx.Expr) -> None:
    with grid([size, size]) as (r, c):
        with summed(total, size) as k:
            _add(total, a[r, k] * b[k, c])
        T.buffer_store(made, total[0], [r, c])
