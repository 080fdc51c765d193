"""A layer of long short-term memory on a CPU: all steps in one loop, states kept where they are."""

from __future__ import annotations

from tvm import tirx
from tvm.script import tirx as T

from ..vector_math import with_vector_math
from .recurrent_tiles import RecurrentTiles

__all__ = ["lstm"]


def lstm(hidden: int, lanes: int, is_reverse: bool) -> tirx.PrimFunc:
    """Return the kernel of one direction of a layer, its gates in ONNX's order: input, output, forget, cell.

    It takes the inputs times their weights plus bias (steps, batch, 4 * hidden), the recurrence's weights in blocks
    (hidden / lanes, hidden, 4, lanes), the first hidden state and cell (batch, hidden), and writes the hidden states of
    all steps and the last state and cell. Some rows of the batch go together through all steps, those that are left one
    by one.
    """
    wide, most = 4 * lanes, RecurrentTiles.of(lanes).rows

    @T.prim_func(private=True)
    def kernel(x: T.handle, w: T.handle, h0: T.handle, c0: T.handle, o: T.handle, h: T.handle, c: T.handle) -> None:
        steps, batch = T.int64(), T.int64()
        data = T.match_buffer(x, (steps, batch, 4 * hidden), "float32")
        weight = T.match_buffer(w, (hidden // lanes, hidden, 4, lanes), "float32")
        first_state = T.match_buffer(h0, (batch, hidden), "float32")
        first_cell = T.match_buffer(c0, (batch, hidden), "float32")
        out = T.match_buffer(o, (steps, batch, hidden), "float32")
        state = T.match_buffer(h, (batch, hidden), "float32")
        cell = T.match_buffer(c, (batch, hidden), "float32")

        @T.inline
        def run_rows(first, rows):  # type: ignore[no-untyped-def]
            total = T.alloc_buffer((rows * wide,), "float32", scope="local", layout=None)
            new = T.alloc_buffer((lanes,), "float32", scope="local", layout=None)
            for r in T.serial(rows):
                for j in T.serial(hidden):
                    state[first + r, j] = first_state[first + r, j]
                    cell[first + r, j] = first_cell[first + r, j]
            for t in T.serial(steps):
                for block in T.serial(hidden // lanes):
                    for r in T.unroll(rows):
                        for g in T.unroll(4):
                            for i in T.vectorized(lanes):
                                total[r * wide + g * lanes + i] = data[
                                    steps - 1 - t if is_reverse else t, first + r, g * hidden + block * lanes + i
                                ]
                    for k in T.serial(hidden):
                        for r in T.unroll(rows):
                            for g in T.unroll(4):
                                for i in T.vectorized(lanes):
                                    total[r * wide + g * lanes + i] = (
                                        total[r * wide + g * lanes + i] + state[first + r, k] * weight[block, k, g, i]
                                    )
                    for r in T.unroll(rows):
                        for i in T.vectorized(lanes):
                            new[i] = T.sigmoid(total[r * wide + 2 * lanes + i]) * cell[
                                first + r, block * lanes + i
                            ] + T.sigmoid(total[r * wide + i]) * T.tanh(total[r * wide + 3 * lanes + i])
                        for i in T.vectorized(lanes):
                            cell[first + r, block * lanes + i] = new[i]
                        for i in T.vectorized(lanes):
                            out[steps - 1 - t if is_reverse else t, first + r, block * lanes + i] = T.sigmoid(
                                total[r * wide + lanes + i]
                            ) * T.tanh(new[i])
                # The whole state is read by every block of the step, so it changes after the last one.
                for r in T.serial(rows):
                    for j in T.serial(hidden):
                        state[first + r, j] = out[steps - 1 - t if is_reverse else t, first + r, j]

        for tile in T.parallel(T.ceildiv(batch, T.int64(most))):
            if (tile + 1) * most <= batch:
                run_rows(tile * most, most)
            else:
                for row in T.serial(batch - tile * most):
                    run_rows(tile * most + row, 1)

    return with_vector_math(kernel).with_attrs({"tirx.is_scheduled": True, "tirx.noalias": True})
