"""What kernels of recurrent layers have in common, written out where they name it.

A vector of sums for every row of a tile, block of hidden units and gate is ``total``: (rows, blocks, gates, lanes). A
weight is (hidden / lanes, hidden, gates, lanes), a state (batch, hidden). What is named `rows`, `blocks`, `gates` and
`tiles` is known when a kernel is written, and so are the functions `run`.
"""

from __future__ import annotations

import operator
from typing import Any

from tvm.script import tirx as T

from ..vector_math import sigmoid_quotient, tanh_quotient

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


@T.inline
def for_rows(batch, tiles, run):  # type: ignore[no-untyped-def]
    """Run ``run(first, rows, blocks)`` for tiles of the most rows of a batch and, for those that are left, of fewer."""
    for tile in T.parallel(T.ceildiv(batch, T.int64(tiles.rows[0]))):
        if (tile + 1) * tiles.rows[0] <= batch:
            run(tile * tiles.rows[0], tiles.rows[0], tiles.blocks[0])
        else:
            if tiles.rows[0] == 4 and batch % 4 >= 2:
                run(tile * 4, 2, tiles.blocks[1])
            if batch % 2 == 1:
                run(batch - 1, 1, tiles.blocks[-1])


@T.inline
def for_blocks(count, blocks, is_backward, run):  # type: ignore[no-untyped-def]
    """Run ``run(first, blocks)`` for `count` blocks of hidden units, from the last one on where `is_backward`.

    Steps that go there and back find the weights that the step before them used last in the nearest cache.
    """
    for group in T.serial(count // blocks):
        run(T.Select(is_backward, count // blocks - 1 - group, group) * blocks, blocks)
    if count % blocks > 0:
        run(count - count % blocks, count % blocks)


@T.inline
def start_sums(total, data, t, row, block, gates):  # type: ignore[no-untyped-def]
    """Start the sums of the first gates with what the inputs of a step give."""
    for r in T.unroll(total.shape[0]):
        for b in T.unroll(total.shape[1]):
            for g in T.unroll(gates):
                for i in T.vectorized(total.shape[3]):
                    total[r, b, g, i] = data[
                        t, row + r, g * (data.shape[2] // total.shape[2]) + (block + b) * total.shape[3] + i
                    ]


@T.inline
def add_products(total, first_gate, gates, state, row, weight, block, is_backward):  # type: ignore[no-untyped-def]
    """Add the products of some rows of a state with some blocks of a weight to the sums of some gates."""
    for step in T.serial(weight.shape[1]):
        k: T.let = T.Select(is_backward, weight.shape[1] - 1 - step, step)
        for r in T.unroll(total.shape[0]):
            for b in T.unroll(total.shape[1]):
                for g in T.unroll(gates):
                    for i in T.vectorized(total.shape[3]):
                        total[r, b, first_gate + g, i] = (
                            total[r, b, first_gate + g, i] + state[row + r, k] * weight[block + b, k, first_gate + g, i]
                        )


@T.inline
def keep_sums(sums, total, block, gates):  # type: ignore[no-untyped-def]
    """Keep the sums of some blocks among those of all."""
    for r in T.unroll(total.shape[0]):
        for b in T.unroll(total.shape[1]):
            for g in T.unroll(gates):
                for i in T.vectorized(total.shape[3]):
                    sums[r, block + b, g, i] = total[r, b, g, i]


@T.inline
def set_rows(state, first, rows, values, row):  # type: ignore[no-untyped-def]
    """Set some rows of a state to others."""
    for r in T.serial(rows):
        for j in T.serial(state.shape[1]):
            state[first + r, j] = values[row + r, j]


def tanh(x: Any) -> Any:
    """Return a gate's tanh."""
    return tanh_quotient(x, operator.truediv)


def sigmoid(x: Any) -> Any:
    """Return a gate's logistic function."""
    return sigmoid_quotient(x, operator.truediv)


def sigmoid_times_tanh(x: Any, y: Any) -> Any:
    """Return the product of one gate's logistic function with another's tanh by one division."""
    return sigmoid_quotient(x, lambda over, under: tanh_quotient(y, lambda o, u: (over * o) / (under * u)))
