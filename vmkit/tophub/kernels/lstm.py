"""A layer of long short-term memory on a CPU: all steps in one loop, states kept where they are."""

from __future__ import annotations

from tvm import tirx
from tvm.script import tirx as T

from .recurrent_code import (
    add_products,
    for_blocks,
    for_rows,
    keep_sums,
    set_rows,
    sigmoid,
    sigmoid_times_tanh,
    start_sums,
)
from .recurrent_tiles import RecurrentTiles

__all__ = ["lstm"]


def lstm(hidden: int, lanes: int, is_reverse: bool) -> tirx.PrimFunc:
    """Return the kernel of one direction of a layer, its gates in ONNX's order: input, output, forget, cell.

    It takes the inputs times their weights plus bias (steps, batch, 4 * hidden), the recurrence's weights in blocks
    (hidden / lanes, hidden, 4, lanes), the first hidden state and cell (batch, hidden), and writes the hidden states of
    all steps and the last state and cell. Some rows of the batch go together through all steps.
    """
    count = hidden // lanes
    tiles = RecurrentTiles.of(lanes, 4, count)

    @T.prim_func(private=True)
    def kernel(x: T.handle, w: T.handle, h0: T.handle, c0: T.handle, o: T.handle, h: T.handle, c: T.handle) -> None:
        steps, batch = T.int64(), T.int64()
        data = T.match_buffer(x, (steps, batch, 4 * hidden), "float32")
        weight = T.match_buffer(w, (count, hidden, 4, lanes), "float32")
        first_state = T.match_buffer(h0, (batch, hidden), "float32")
        first_cell = T.match_buffer(c0, (batch, hidden), "float32")
        out = T.match_buffer(o, (steps, batch, hidden), "float32")
        state = T.match_buffer(h, (batch, hidden), "float32")
        cell = T.match_buffer(c, (batch, hidden), "float32")

        @T.inline
        def run_rows(first, rows, at_once):  # type: ignore[no-untyped-def]
            sums = T.alloc_buffer((rows, count, 4, lanes), "float32", scope="local", layout=None)
            set_rows(state, first, rows, first_state)
            set_rows(cell, first, rows, first_cell)
            for step in T.serial(steps):
                run_step(steps - 1 - step if is_reverse else step, first, rows, at_once, sums)

        @T.inline
        def run_step(t, first, rows, at_once, sums):  # type: ignore[no-untyped-def]
            @T.inline
            def run_blocks(block, blocks):  # type: ignore[no-untyped-def]
                total = T.alloc_buffer((rows, blocks, 4, lanes), "float32", scope="local", layout=None)
                start_sums(total, data, t, first, block, 4)
                add_products(total, range(4), state, first, weight, block, t % 2 == 1)
                keep_sums(sums, total, block)

            @T.inline
            def run_gates(r, block, row, unit):  # type: ignore[no-untyped-def]
                for i in T.vectorized(lanes):
                    cell[row, unit + i] = sigmoid(sums[r, block, 2, i]) * cell[row, unit + i] + sigmoid_times_tanh(
                        sums[r, block, 0, i], sums[r, block, 3, i]
                    )
                for i in T.vectorized(lanes):
                    state[row, unit + i] = sigmoid_times_tanh(sums[r, block, 1, i], cell[row, unit + i])
                for i in T.vectorized(lanes):
                    out[t, row, unit + i] = state[row, unit + i]

            # The whole state is read by the products of every block, so it changes after the last ones. Gates wait long
            # for what they are made of, and less so where those of the next block do not wait for products.
            for_blocks(count, at_once, t % 2 == 1, run_blocks)
            for r in T.serial(rows):
                for block in T.serial(count):
                    run_gates(r, block, first + r, block * lanes)

        for_rows(batch, tiles, run_rows)

    return kernel.with_attrs({"tirx.is_scheduled": True, "tirx.noalias": True})
