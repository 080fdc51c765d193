"""What kernels of recurrent layers have in common, written into TIR's builder.

A vector of sums for every row of a part, block of hidden units and gate is ``total``: (rows, blocks, gates, lanes). A
weight is (blocks, hidden, gates, lanes), a state (batch, hidden). Where vectors do not divide the hidden units, the
last block ends with them and shares some with the block before, which both compute alike: no vector is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from .recurrent_loops import Ends, Part, for_rows

__all__ = [
    "add_products",
    "for_blocks",
    "for_vectors",
    "keep_sums",
    "local",
    "put",
    "set_rows",
    "start_sums",
    "take_states",
    "unit_of",
]


def unit_of(block: Any, hidden: int, lanes: int) -> Any:
    """Return the first hidden unit of a block."""
    return block * lanes if hidden % lanes == 0 else tirx.min(block * lanes, tirx.IntImm("int64", hidden - lanes))


def local(*shape: int) -> Any:
    """Return a new buffer of one thread."""
    return T.alloc_buffer(shape, "float32", scope="local", layout=None)


def for_blocks(count: int, blocks: int, is_backward: Any, run: Callable[[Any, int], None]) -> None:
    """Run ``run(first, blocks)`` for `count` blocks of hidden units, from the last one on where `is_backward`.

    Steps that go there and back find the weights that the step before them used last in the nearest cache.
    """
    groups = count // blocks
    with T.serial(tirx.IntImm("int64", groups)) as group:
        run(tirx.Select(is_backward, groups - 1 - group, group) * blocks, blocks)
    if count % blocks:
        run(tirx.IntImm("int64", count - count % blocks), count % blocks)


def start_sums(total: Any, data: Any, t: Any, row: Any, block: Any, gates: int) -> None:
    """Start the sums of the first gates with what the inputs of a step give."""
    lanes = int(total.shape[3])
    hidden = int(data.shape[2]) // int(total.shape[2])
    with _sums(total, gates) as (r, b, g, i):
        T.buffer_store(total, data[t, row + r, g * hidden + unit_of(block + b, hidden, lanes) + i], [r, b, g, i])


def add_products(total: Any, gates: range, state: Any, row: Any, weight: Any, block: Any, is_backward: Any) -> None:
    """Add the products of some rows of a state with some blocks of a weight to the sums of some gates."""
    hidden = int(weight.shape[1])
    with T.serial(tirx.IntImm("int64", hidden)) as step:
        k = tirx.Select(is_backward, hidden - 1 - step, step)
        with _sums(total, len(gates)) as (r, b, gate, i):
            g = gates.start + gate
            product = state[row + r, k] * weight[block + b, k, g, i]
            T.buffer_store(total, total[r, b, g, i] + product, [r, b, g, i])


def keep_sums(sums: Any, total: Any, block: Any) -> None:
    """Keep the sums of some blocks among those of all."""
    with _sums(total, int(total.shape[2])) as (r, b, g, i):
        T.buffer_store(sums, total[r, b, g, i], [r, block + b, g, i])


def set_rows(state: Any, first: Any, rows: Any, values: Any) -> None:
    """Set some rows of a state to those of another."""
    with T.serial(rows) as r, T.serial(state.shape[1]) as j:
        T.buffer_store(state, values[first + r, j], [first + r, j])


def put(lanes: int, buffer: Any, place: tuple[Any, ...], value: Callable[[Any], Any]) -> None:
    """Write a vector of ``value(i)`` to where it begins in a buffer."""
    with T.vectorized(lanes) as i:
        T.buffer_store(buffer, value(i), [*place[:-1], place[-1] + i])


def for_vectors(total: Any, block: Any, run: Callable[[Any, Any, Any], None]) -> None:
    """Run ``run(r, b, block + b)`` for the rows and blocks of some sums, each written out."""
    rows, blocks, _, _ = (int(size) for size in total.shape)
    with T.unroll(rows) as r, T.unroll(blocks) as b:
        run(r, b, block + b)


def take_states(state: Any, out: Any, t: Any, part: Part, ends: Ends | None) -> None:
    """Make what a step gives the states of the rows that have it.

    The whole state is read by every block of a step, so it changes after the last one.
    """

    def take(r: Any) -> None:
        with T.serial(state.shape[1]) as j:
            T.buffer_store(state, out[t, part.row + r, j], [part.row + r, j])

    for_rows(part, t, ends, take)


@contextmanager
def _sums(total: Any, gates: int) -> Iterator[list[Any]]:
    """Yield the indices of the sums of some gates, each vector written out."""
    rows, blocks, _, lanes = (int(size) for size in total.shape)
    with ExitStack() as loops:
        yield [
            *(loops.enter_context(T.unroll(size)) for size in (rows, blocks, gates)),
            loops.enter_context(T.vectorized(lanes)),
        ]
