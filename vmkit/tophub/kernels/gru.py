"""A layer of gated recurrent units on a CPU: all steps in one loop, states kept where they are."""

from __future__ import annotations

from tvm import tirx
from tvm.script import tirx as T

from ..vector_math import with_vector_math
from .recurrent_tiles import RecurrentTiles

__all__ = ["gru"]


def gru(hidden: int, lanes: int, is_reverse: bool, linear_before_reset: bool) -> tirx.PrimFunc:
    """Return the kernel of one direction of a layer, its gates in ONNX's order: update, reset, hidden.

    It takes the inputs times their weights plus bias (steps, batch, 3 * hidden), the recurrence's weights in blocks
    (hidden / lanes, hidden, 3, lanes), the recurrence's bias of the hidden gate (hidden,), the first state (batch,
    hidden), and writes the states of all steps and the last one. Some rows of the batch go together through all
    steps, those that are left one by one.

    Parameters
    ----------
    linear_before_reset : bool
        Whether the reset gate scales the state's product and bias, not the state.
    """
    wide, blocks, most = 3 * lanes, hidden // lanes, RecurrentTiles.of(lanes).rows
    # With the state scaled first, the hidden gate has to wait for the reset gates of all blocks.
    at_once = 3 if linear_before_reset else 2

    @T.prim_func(private=True)
    def kernel(x: T.handle, w: T.handle, b: T.handle, h0: T.handle, o: T.handle, h: T.handle) -> None:
        steps, batch = T.int64(), T.int64()
        data = T.match_buffer(x, (steps, batch, 3 * hidden), "float32")
        weight = T.match_buffer(w, (blocks, hidden, 3, lanes), "float32")
        bias = T.match_buffer(b, (hidden,), "float32")
        first_state = T.match_buffer(h0, (batch, hidden), "float32")
        out = T.match_buffer(o, (steps, batch, hidden), "float32")
        state = T.match_buffer(h, (batch, hidden), "float32")

        @T.inline
        def run_rows(first, rows):  # type: ignore[no-untyped-def]
            total = T.alloc_buffer((rows * wide,), "float32", scope="local", layout=None)
            update = T.alloc_buffer((rows * hidden,), "float32", scope="local", layout=None)
            scaled = T.alloc_buffer((rows * hidden,), "float32", scope="local", layout=None)
            for r in T.serial(rows):
                for j in T.serial(hidden):
                    state[first + r, j] = first_state[first + r, j]
            for t in T.serial(steps):
                for block in T.serial(blocks):
                    for r in T.unroll(rows):
                        for g in T.unroll(at_once):
                            for i in T.vectorized(lanes):
                                total[r * wide + g * lanes + i] = (
                                    bias[block * lanes + i]
                                    if g == 2
                                    else data[
                                        steps - 1 - t if is_reverse else t, first + r, g * hidden + block * lanes + i
                                    ]
                                )
                    for k in T.serial(hidden):
                        for r in T.unroll(rows):
                            for g in T.unroll(at_once):
                                for i in T.vectorized(lanes):
                                    total[r * wide + g * lanes + i] = (
                                        total[r * wide + g * lanes + i] + state[first + r, k] * weight[block, k, g, i]
                                    )
                    for r in T.unroll(rows):
                        for i in T.vectorized(lanes):
                            update[r * hidden + block * lanes + i] = T.sigmoid(total[r * wide + i])
                        for i in T.vectorized(lanes):
                            scaled[r * hidden + block * lanes + i] = T.sigmoid(total[r * wide + lanes + i]) * (
                                total[r * wide + 2 * lanes + i]
                                if linear_before_reset
                                else state[first + r, block * lanes + i]
                            )
                for block in T.serial(blocks):
                    for r in T.unroll(rows):
                        for i in T.vectorized(lanes):
                            total[r * wide + 2 * lanes + i] = data[
                                steps - 1 - t if is_reverse else t, first + r, 2 * hidden + block * lanes + i
                            ] + (
                                scaled[r * hidden + block * lanes + i]
                                if linear_before_reset
                                else bias[block * lanes + i]
                            )
                    for k in T.serial(0 if linear_before_reset else hidden):
                        for r in T.unroll(rows):
                            for i in T.vectorized(lanes):
                                total[r * wide + 2 * lanes + i] = (
                                    total[r * wide + 2 * lanes + i] + scaled[r * hidden + k] * weight[block, k, 2, i]
                                )
                    for r in T.unroll(rows):
                        for i in T.vectorized(lanes):
                            total[r * wide + i] = T.tanh(total[r * wide + 2 * lanes + i])
                        for i in T.vectorized(lanes):
                            out[steps - 1 - t if is_reverse else t, first + r, block * lanes + i] = total[
                                r * wide + i
                            ] + update[r * hidden + block * lanes + i] * (
                                state[first + r, block * lanes + i] - total[r * wide + i]
                            )
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
