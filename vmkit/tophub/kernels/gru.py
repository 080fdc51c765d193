"""A layer of gated recurrent units on a CPU: all steps in one loop, states kept where they are."""

from __future__ import annotations

from tvm import tirx
from tvm.script import tirx as T

from .recurrent_code import add_products, for_blocks, for_rows, set_rows, sigmoid, start_sums, tanh
from .recurrent_tiles import RecurrentTiles

__all__ = ["gru"]


def gru(hidden: int, lanes: int, is_reverse: bool, linear_before_reset: bool) -> tirx.PrimFunc:
    """Return the kernel of one direction of a layer, its gates in ONNX's order: update, reset, hidden.

    It takes the inputs times their weights plus bias (steps, batch, 3 * hidden), the recurrence's weights in blocks
    (hidden / lanes, hidden, 3, lanes), the recurrence's bias of the hidden gate (hidden,), the first state (batch,
    hidden), and writes the states of all steps and the last one. Some rows of the batch go together through all steps.

    Parameters
    ----------
    linear_before_reset : bool
        Whether the reset gate scales the state's product and bias, not the state.
    """
    count = hidden // lanes
    tiles = RecurrentTiles.of(lanes, 3, count)
    is_linear = linear_before_reset

    @T.prim_func(private=True)
    def kernel(x: T.handle, w: T.handle, b: T.handle, h0: T.handle, o: T.handle, h: T.handle) -> None:
        steps, batch = T.int64(), T.int64()
        data = T.match_buffer(x, (steps, batch, 3 * hidden), "float32")
        weight = T.match_buffer(w, (count, hidden, 3, lanes), "float32")
        bias = T.match_buffer(b, (hidden,), "float32")
        first_state = T.match_buffer(h0, (batch, hidden), "float32")
        out = T.match_buffer(o, (steps, batch, hidden), "float32")
        state = T.match_buffer(h, (batch, hidden), "float32")

        @T.inline
        def run_rows(first, rows, at_once):  # type: ignore[no-untyped-def]
            update = T.alloc_buffer((rows, hidden), "float32", scope="local", layout=None)
            scaled = T.alloc_buffer((rows, hidden), "float32", scope="local", layout=None)
            set_rows(state, first, rows, first_state)
            for step in T.serial(steps):
                run_step(steps - 1 - step if is_reverse else step, first, rows, at_once, update, scaled)

        @T.inline
        def run_step(t, first, rows, at_once, update, scaled):  # type: ignore[no-untyped-def]
            @T.inline
            def all_gates(block, blocks):  # type: ignore[no-untyped-def]
                total = T.alloc_buffer((rows, blocks, 3, lanes), "float32", scope="local", layout=None)
                start_sums(total, data, t, first, block, 2)
                start_hidden(total, block, blocks)
                add_products(total, range(3), state, first, weight, block, t % 2 == 1)
                for r in T.unroll(rows):
                    for b in T.unroll(blocks):
                        for i in T.vectorized(lanes):
                            total[r, b, 2, i] = (
                                data[t, first + r, 2 * hidden + (block + b) * lanes + i]
                                + sigmoid(total[r, b, 1, i]) * total[r, b, 2, i]
                            )
                        for i in T.vectorized(lanes):
                            total[r, b, 0, i] = sigmoid(total[r, b, 0, i])
                        for i in T.vectorized(lanes):
                            update[r, (block + b) * lanes + i] = total[r, b, 0, i]
                finish(total, block, blocks)

            @T.inline
            def update_and_reset(block, blocks):  # type: ignore[no-untyped-def]
                total = T.alloc_buffer((rows, blocks, 3, lanes), "float32", scope="local", layout=None)
                start_sums(total, data, t, first, block, 2)
                add_products(total, range(2), state, first, weight, block, t % 2 == 1)
                for r in T.unroll(rows):
                    for b in T.unroll(blocks):
                        for i in T.vectorized(lanes):
                            update[r, (block + b) * lanes + i] = sigmoid(total[r, b, 0, i])
                        for i in T.vectorized(lanes):
                            scaled[r, (block + b) * lanes + i] = (
                                sigmoid(total[r, b, 1, i]) * state[first + r, (block + b) * lanes + i]
                            )

            @T.inline
            def hidden_gate(block, blocks):  # type: ignore[no-untyped-def]
                total = T.alloc_buffer((rows, blocks, 3, lanes), "float32", scope="local", layout=None)
                start_hidden(total, block, blocks)
                add_products(total, range(2, 3), scaled, 0, weight, block, t % 2 == 1)
                for r in T.unroll(rows):
                    for b in T.unroll(blocks):
                        for i in T.vectorized(lanes):
                            total[r, b, 2, i] = (
                                total[r, b, 2, i] + data[t, first + r, 2 * hidden + (block + b) * lanes + i]
                            )
                finish(total, block, blocks)

            @T.inline
            def start_hidden(total, block, blocks):  # type: ignore[no-untyped-def]
                for r in T.unroll(rows):
                    for b in T.unroll(blocks):
                        for i in T.vectorized(lanes):
                            total[r, b, 2, i] = bias[(block + b) * lanes + i]

            @T.inline
            def finish(total, block, blocks):  # type: ignore[no-untyped-def]
                for r in T.unroll(rows):
                    for b in T.unroll(blocks):
                        for i in T.vectorized(lanes):
                            total[r, b, 2, i] = tanh(total[r, b, 2, i])
                        for i in T.vectorized(lanes):
                            out[t, first + r, (block + b) * lanes + i] = total[r, b, 2, i] + update[
                                r, (block + b) * lanes + i
                            ] * (state[first + r, (block + b) * lanes + i] - total[r, b, 2, i])

            if is_linear:
                for_blocks(count, at_once, t % 2 == 1, all_gates)
            else:
                # The state is scaled first: the hidden gate has to wait for the reset gates of all blocks.
                for_blocks(count, at_once, t % 2 == 1, update_and_reset)
                for_blocks(count, at_once, t % 2 == 1, hidden_gate)
            # The whole state is read by every block of the step, so it changes after the last one.
            for r in T.serial(rows):
                for j in T.serial(hidden):
                    state[first + r, j] = out[t, first + r, j]

        for_rows(batch, tiles, run_rows)

    return kernel.with_attrs({"tirx.is_scheduled": True, "tirx.noalias": True})
