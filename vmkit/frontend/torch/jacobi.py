"""Loops of Jacobi's rotations, which take from a matrix what is beside its diagonal, in float64.

As in :mod:`.matrix_kernels` each function writes what one matrix takes; `i` is where it stands in its stack. Sweeps
over all pairs of columns go on until none was rotated, but not for ever, which infinite numbers would take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from ...relay.op.kernel import grid
from .matrix_kernels import WIDE, Index, at, number

__all__ = ["eigen", "singular"]

_MOST_SWEEPS = 60  # some ten are enough for large ones
_DIGITS = 1e-16
_TINY = 1e-300
_ROTATED, _SWEEPS, _SUM, _BEST = range(4)  # what the one vector of scratch holds


@contextmanager
def _sweeps(state: tirx.Buffer, size: tirx.Expr) -> Iterator[tuple[tirx.Var, tirx.Var]]:
    """Open loops over pairs of columns, until no pair says that it was rotated."""
    T.buffer_store(state, number(1), [_ROTATED])
    T.buffer_store(state, number(0), [_SWEEPS])
    with T.While(tirx.all(state[_ROTATED] > number(0), state[_SWEEPS] < number(_MOST_SWEEPS))):
        T.buffer_store(state, number(0), [_ROTATED])
        T.buffer_store(state, state[_SWEEPS] + number(1), [_SWEEPS])
        with grid([size]) as (p,), grid([size - p - 1]) as (after,):
            yield p, T.bind(p + 1 + after)


def _angle(twice: tirx.Expr, beside: tirx.Expr) -> tuple[tirx.Var, tirx.Var]:
    """Return the cosine and the sine of the smaller rotation: `twice` is the difference of what is on the diagonal."""
    ratio = T.bind(twice / (number(2) * beside))
    size = tirx.abs(ratio)
    # Its square may be infinite: the tangent is 0 then.
    tangent = T.bind(
        tirx.Select(ratio < number(0), number(-1), number(1)) / (size + tirx.sqrt(ratio * ratio + number(1)))
    )
    cosine = T.bind(number(1) / tirx.sqrt(tangent * tangent + number(1)))
    return cosine, T.bind(tangent * cosine)


def _rotated(
    x: tirx.Buffer, lead: Index, p: tirx.Expr, q: tirx.Expr, cosine: tirx.Expr, sine: tirx.Expr, *, rows: bool = False
) -> None:
    """Rotate two columns of a matrix, or two rows."""
    with grid([x.shape[-1 if rows else -2]]) as (k,):
        first, second = ([*lead, p, k], [*lead, q, k]) if rows else ([*lead, k, p], [*lead, k, q])
        a, b = T.bind(x[tuple(first)]), T.bind(x[tuple(second)])
        T.buffer_store(x, cosine * a - sine * b, first)
        T.buffer_store(x, sine * a + cosine * b, second)


def _unit(x: tirx.Buffer, lead: Index) -> None:
    with grid(list(x.shape[-2:])) as (r, c):
        T.buffer_store(x, tirx.Select(tirx.EQ(r, c), number(1), number(0)), [*lead, r, c])


def _dot(state: tirx.Buffer, slot: int, extent: tirx.Expr, term: Callable[[tirx.Var], tirx.Expr]) -> tirx.Var:
    """Return a sum, which a place of the scratch holds meanwhile."""
    T.buffer_store(state, number(0), [slot])
    with grid([extent]) as (k,):
        T.buffer_store(state, state[slot] + term(k), [slot])
    return T.bind(state[slot])


def _swapped(x: tirx.Buffer, lead: Index, first: tirx.Expr, second: tirx.Expr) -> None:
    """Swap two columns of a matrix."""
    with grid([x.shape[-2]]) as (r,):
        a, b = T.bind(x[at(lead, r, first)]), T.bind(x[at(lead, r, second)])
        T.buffer_store(x, b, [*lead, r, first])
        T.buffer_store(x, a, [*lead, r, second])


def eigen(
    x: tirx.Buffer,
    values: tirx.Buffer,
    vectors: tirx.Buffer,
    rest: tirx.Buffer,
    state: tirx.Buffer,
    i: Index,
    *,
    is_lower: bool,
) -> None:
    """Write the eigenvalues of a symmetric matrix, of which one triangle is read, and its vectors as columns."""
    size = x.shape[-1]
    with grid([size, size]) as (r, c):
        high, low = tirx.max(r, c), tirx.min(r, c)
        T.buffer_store(rest, x[at(i, high, low) if is_lower else at(i, low, high)].astype(WIDE), [r, c])
    _unit(vectors, i)
    with _sweeps(state, size) as (p, q):
        beside = T.bind(rest[p, q])
        least = number(_DIGITS) * tirx.sqrt(tirx.abs(rest[p, p])) * tirx.sqrt(tirx.abs(rest[q, q]))
        with T.If(tirx.abs(beside) > tirx.max(least, number(_TINY))), T.Then():
            T.buffer_store(state, number(1), [_ROTATED])
            cosine, sine = _angle(rest[q, q] - rest[p, p], beside)
            _rotated(rest, [], p, q, cosine, sine)
            _rotated(rest, [], p, q, cosine, sine, rows=True)
            _rotated(vectors, i, p, q, cosine, sine)
            T.buffer_store(rest, number(0), [p, q])
            T.buffer_store(rest, number(0), [q, p])
    with grid([size]) as (k,):
        T.buffer_store(values, rest[k, k], [*i, k])
    with grid([size]) as (k,):
        T.buffer_store(state, k.astype(WIDE), [_BEST])
        with grid([size - k - 1]) as (after,):
            other = T.bind(k + 1 + after)
            with T.If(values[at(i, other)] < values[at(i, state[_BEST].astype("int64"))]), T.Then():
                T.buffer_store(state, other.astype(WIDE), [_BEST])
        best = T.bind(state[_BEST].astype("int64"))
        first, least = T.bind(values[at(i, k)]), T.bind(values[at(i, best)])
        T.buffer_store(values, first, [*i, best])
        T.buffer_store(values, least, [*i, k])
        _swapped(vectors, i, k, best)


def singular(
    x: tirx.Buffer,
    left: tirx.Buffer,
    values: tirx.Buffer,
    right: tirx.Buffer,
    scratch: tuple[tirx.Buffer, tirx.Buffer, tirx.Buffer],
    i: Index,
) -> None:
    """Write a matrix as orthogonal columns, singular values and orthogonal rows: its columns are rotated against each
    other until they are orthogonal, and their sizes are the values.
    """
    rest, turned, state = scratch
    rows, columns = x.shape[-2:]
    count = values.shape[-1]
    with grid([rows, columns]) as (r, c):
        T.buffer_store(rest, x[at(i, r, c)].astype(WIDE), [r, c])
    _unit(turned, [])
    with _sweeps(state, columns) as (p, q):
        first = _dot(state, _SUM, rows, lambda k: rest[k, p] * rest[k, p])
        second = _dot(state, _SUM, rows, lambda k: rest[k, q] * rest[k, q])
        beside = _dot(state, _SUM, rows, lambda k: rest[k, p] * rest[k, q])
        larger = tirx.max(first, second)
        # A column of nothing but what rounding left of it has no angle to another.
        least = tirx.max(number(_DIGITS) * tirx.sqrt(first) * tirx.sqrt(second), number(_DIGITS**2) * larger)
        with T.If(tirx.abs(beside) > tirx.max(number(8) * least, number(_TINY))), T.Then():
            T.buffer_store(state, number(1), [_ROTATED])
            cosine, sine = _angle(second - first, beside)
            _rotated(rest, [], p, q, cosine, sine)
            _rotated(turned, [], p, q, cosine, sine)

    def size_of(column: tirx.Expr) -> tirx.Expr:
        return tirx.sqrt(_dot(state, _SUM, rows, lambda k: rest[k, column] * rest[k, column]))

    with grid([count]) as (k,):
        T.buffer_store(state, k.astype(WIDE), [_BEST])
        T.buffer_store(values, size_of(k), [*i, k])
        with grid([columns - k - 1]) as (after,):
            other = T.bind(k + 1 + after)
            size = T.bind(size_of(other))
            with T.If(size > values[at(i, k)]), T.Then():
                T.buffer_store(values, size, [*i, k])
                T.buffer_store(state, other.astype(WIDE), [_BEST])
        best = T.bind(state[_BEST].astype("int64"))
        _swapped(rest, [], k, best)
        _swapped(turned, [], k, best)
    with grid(list(right.shape[-2:])) as (r, c):
        T.buffer_store(right, turned[c, r], [*i, r, c])
    _left_of(rest, left, values, state, i)


def _product_of(x: tirx.Buffer, i: Index, first: tirx.Expr, second: tirx.Expr) -> Callable[[tirx.Var], tirx.Expr]:
    """Return the products of what stands beside each other in two columns, by row."""
    return lambda k: x[at(i, k, first)] * x[at(i, k, second)]


def _left_of(rest: tirx.Buffer, left: tirx.Buffer, values: tirx.Buffer, state: tirx.Buffer, i: Index) -> None:
    """Write columns divided by their sizes; in the place of those of nothing, what is orthogonal to all before."""
    rows, count = rest.shape[0], values.shape[-1]
    zero = tirx.const(0, "int64")
    with grid([left.shape[-1]]) as (c,):
        known = T.bind(tirx.max(tirx.min(c, count - 1), zero))
        largest = T.bind(tirx.if_then_else(count > 0, values[at(i, zero)], number(0)))
        size = T.bind(tirx.if_then_else(c < count, values[at(i, known)], number(0)))
        is_some = T.bind(tirx.Not(size <= tirx.max(largest * number(1e-14), number(_TINY))))
        with grid([rows]) as (r,):
            made = tirx.if_then_else(is_some, rest[r, known] / size, number(0))
            T.buffer_store(left, made, [*i, r, c])
        T.buffer_store(state, tirx.Select(is_some, number(-1), number(0)), [_BEST])
        # Of the unit vectors one at least has that much left beside the columns before.
        with T.While(tirx.all(state[_BEST] >= number(0), state[_BEST] < rows.astype(WIDE))):
            unit = T.bind(state[_BEST].astype("int64"))
            with grid([rows]) as (r,):
                T.buffer_store(left, tirx.Select(tirx.EQ(r, unit), number(1), number(0)), [*i, r, c])
            for _ in range(2):
                with grid([c]) as (before,):
                    share = _dot(state, _SUM, rows, _product_of(left, i, c, before))
                    with grid([rows]) as (r,):
                        T.buffer_store(left, left[at(i, r, c)] - share * left[at(i, r, before)], [*i, r, c])
            square = _dot(state, _SUM, rows, lambda k: left[at(i, k, c)] * left[at(i, k, c)])
            with T.If(square * number(2) * rows.astype(WIDE) >= number(1)):
                with T.Then():
                    with grid([rows]) as (r,):
                        T.buffer_store(left, left[at(i, r, c)] / tirx.sqrt(square), [*i, r, c])
                    T.buffer_store(state, number(-1), [_BEST])
                with T.Else():
                    T.buffer_store(state, state[_BEST] + number(1), [_BEST])
