"""What kernels of recurrent layers have in common, written into TIR's builder.

A vector of sums for every row of a tile, block of hidden units and gate is ``total``: (rows, blocks, gates, lanes). A
weight is (hidden / lanes, hidden, gates, lanes), a state (batch, hidden).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from ..vector_math import sigmoid_quotient, tanh_quotient
from .recurrent_tiles import RecurrentTiles

__all__ = [
    "add_products",
    "for_blocks",
    "for_rows",
    "keep_sums",
    "set_rows",
    "sigmoid",
    "sigmoid_times_tanh",
    "start_sums",
    "tanh",
]


def for_rows(batch: Any, tiles: RecurrentTiles, run: Callable[[Any, int, int], None]) -> None:
    """Run ``run(first, rows, blocks)`` for tiles of the most rows of a batch and, for those that are left, of fewer."""
    most = tiles.rows[0]
    with T.parallel((batch + (most - 1)) // most) as tile, T.If((tile + 1) * most <= batch):
        with T.Then():
            run(tile * most, most, tiles.blocks[0])
        with T.Else():
            first = tile * most
            for rows, blocks in zip(tiles.rows[1:], tiles.blocks[1:], strict=True):
                with T.If(batch % (2 * rows) >= rows), T.Then():
                    run(first, rows, blocks)
                first = batch - batch % rows


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
    hidden, lanes = int(data.shape[2]) // int(total.shape[2]), int(total.shape[3])
    with _sums(total, gates) as (r, b, g, i):
        T.buffer_store(total, data[t, row + r, g * hidden + (block + b) * lanes + i], [r, b, g, i])


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


def set_rows(state: Any, first: Any, rows: int, values: Any) -> None:
    """Set some rows of a state to those of another."""
    with T.serial(rows) as r, T.serial(state.shape[1]) as j:
        T.buffer_store(state, values[first + r, j], [first + r, j])


@contextmanager
def _sums(total: Any, gates: int) -> Iterator[list[Any]]:
    """Yield the indices of the sums of some gates, each vector written out."""
    rows, blocks, _, lanes = (int(size) for size in total.shape)
    with ExitStack() as loops:
        yield [
            *(loops.enter_context(T.unroll(size)) for size in (rows, blocks, gates)),
            loops.enter_context(T.vectorized(lanes)),
        ]


def tanh(x: Any) -> Any:
    """Return a gate's tanh."""
    return tanh_quotient(x, operator.truediv)


def sigmoid(x: Any) -> Any:
    """Return a gate's logistic function."""
    return sigmoid_quotient(x, operator.truediv)


def sigmoid_times_tanh(x: Any, y: Any) -> Any:
    """Return the product of one gate's logistic function with another's tanh by one division."""
    return sigmoid_quotient(x, lambda over, under: tanh_quotient(y, lambda o, u: (over * o) / (under * u)))
