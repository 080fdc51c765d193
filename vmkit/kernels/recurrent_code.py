"""What kernels of recurrent layers have in common, written into TIR's builder.

A vector of sums for every row of a part, block of hidden units and gate is ``total``: (rows, blocks, gates, lanes). A
weight is (blocks, hidden, gates, lanes), a state (batch, hidden). Where vectors do not divide the hidden units, the
last block ends with them and shares some with the block before, which both compute alike: no vector is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tvm import tirx

from .builder import Size, T, integer, loop
from .recurrent_loops import Ends, Part, for_rows

__all__ = [
    "add_products",
    "for_blocks",
    "for_vectors",
    "keep_sums",
    "put",
    "set_rows",
    "start_sums",
    "take_states",
    "unit_of",
]


def unit_of(block: tirx.Expr, hidden: int, lanes: int) -> tirx.Expr:
    """Return the first hidden unit of a block."""
    return block * lanes if hidden % lanes == 0 else tirx.min(block * lanes, integer(hidden - lanes))


def for_blocks(count: int, blocks: int, is_backward: tirx.Expr, run: Callable[[tirx.Expr, int], None]) -> None:
    """Run ``run(first, blocks)`` for `count` blocks of hidden units, from the last one on where `is_backward`.

    Steps that go there and back find the weights that the step before them used last in the nearest cache.
    """
    groups = count // blocks
    with loop(groups) as group:
        run(tirx.Select(is_backward, groups - 1 - group, group) * blocks, blocks)
    if count % blocks:
        run(integer(count - count % blocks), count % blocks)


def start_sums(
    total: tirx.Buffer, data: tirx.Buffer, t: tirx.Expr, row: tirx.Expr, block: tirx.Expr, gates: int
) -> None:
    """Start the sums of the first gates with what the inputs of a step give."""
    lanes = int(total.shape[3])
    hidden = int(data.shape[2]) // int(total.shape[2])
    with _sums(total, gates) as (r, b, g, i):
        T.buffer_store(total, data[t, row + r, g * hidden + unit_of(block + b, hidden, lanes) + i], [r, b, g, i])


def add_products(
    total: tirx.Buffer,
    gates: range,
    state: tirx.Buffer,
    row: tirx.Expr,
    weight: tirx.Buffer,
    block: tirx.Expr,
    is_backward: tirx.Expr,
) -> None:
    """Add the products of some rows of a state with some blocks of a weight to the sums of some gates."""
    hidden = int(weight.shape[1])
    with loop(hidden) as step:
        k = tirx.Select(is_backward, hidden - 1 - step, step)
        with _sums(total, len(gates)) as (r, b, gate, i):
            g = gates.start + gate
            product = state[row + r, k] * weight[block + b, k, g, i]
            T.buffer_store(total, total[r, b, g, i] + product, [r, b, g, i])


def keep_sums(sums: tirx.Buffer, total: tirx.Buffer, block: tirx.Expr) -> None:
    """Keep the sums of some blocks among those of all."""
    with _sums(total, int(total.shape[2])) as (r, b, g, i):
        T.buffer_store(sums, total[r, b, g, i], [r, block + b, g, i])


def set_rows(state: tirx.Buffer, first: tirx.Expr, rows: tirx.Expr, values: tirx.Buffer) -> None:
    """Set some rows of a state to those of another."""
    with loop(rows) as r, loop(state.shape[1]) as j:
        T.buffer_store(state, values[first + r, j], [first + r, j])


def put(lanes: int, buffer: tirx.Buffer, place: Sequence[Size], value: Callable[[tirx.Expr], tirx.Expr]) -> None:
    """Write a vector of ``value(i)`` to where it begins in a buffer."""
    with T.vectorized(lanes) as i:
        T.buffer_store(buffer, value(i), [*place[:-1], place[-1] + i])


def for_vectors(total: tirx.Buffer, block: tirx.Expr, run: Callable[[tirx.Expr, tirx.Expr, tirx.Expr], None]) -> None:
    """Run ``run(r, b, block + b)`` for the rows and blocks of some sums, each written out."""
    rows, blocks, _, _ = (int(size) for size in total.shape)
    with T.unroll(rows) as r, T.unroll(blocks) as b:
        run(r, b, block + b)


def take_states(state: tirx.Buffer, out: tirx.Buffer, t: tirx.Expr, part: Part, ends: Ends | None) -> None:
    """Make what a step gives the states of the rows that have it.

    The whole state is read by every block of a step, so it changes after the last one.
    """

    def take(r: tirx.Expr) -> None:
        with loop(state.shape[1]) as j:
            T.buffer_store(state, out[t, part.row + r, j], [part.row + r, j])

    for_rows(part, t, ends, take)


@contextmanager
def _sums(total: tirx.Buffer, gates: int) -> Iterator[list[tirx.Var]]:
    """Yield the indices of the sums of some gates, each vector written out."""
    rows, blocks, _, lanes = (int(size) for size in total.shape)
    with ExitStack() as loops:
        yield [
            *(loops.enter_context(T.unroll(size)) for size in (rows, blocks, gates)),
            loops.enter_context(T.vectorized(lanes)),
        ]
