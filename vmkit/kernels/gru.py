"""The step of a layer of gated recurrent units on a CPU."""

from __future__ import annotations

from tvm import tirx

from .._dataclasses import dataclass
from .builder import local
from .gate_functions import gate_functions, limited
from .recurrent_code import add_products, for_blocks, for_vectors, put, start_sums, take_states, unit_of
from .recurrent_layer import LayerShape, Tile, layer
from .recurrent_loops import Part

__all__ = ["GRUShape", "gru"]

_UPDATE, _RESET, _HIDDEN = range(3)


@dataclass(frozen=True)
class GRUShape(LayerShape):
    """What is known of a layer of gated recurrent units: functions of the gates and of what is new.

    Attributes
    ----------
    linear_before_reset : bool
        Whether the reset gate scales the state's product and bias, not the state.
    """

    functions: str = "sigmoid tanh"
    linear_before_reset: bool = False


def gru(shape: GRUShape) -> tirx.PrimFunc:
    """Return the kernel of one direction of a layer, as :func:`.layer` says.

    Its gates are in ONNX's order: update, reset, hidden. The vector is the recurrence's bias of the hidden gate
    (hidden,), the only state the hidden one.
    """
    return layer(shape, 3, {"bias": shape.hidden}, ("state",), _Rows)


class _Rows:
    """The rows of a tile; in a step, their update gates, and their states scaled by the reset gates."""

    def __init__(self, shape: GRUShape, tile: Tile) -> None:
        self._shape, self._tile, self._tensors = shape, tile, tile.tensors
        self._update, self._scaled = local(tile.most, shape.hidden), local(tile.most, shape.hidden)
        self._f, self._g = gate_functions(shape.functions, 2)

    def step(self, t: tirx.Expr, part: Part) -> None:
        is_backward = t % 2 == 1
        # With the state scaled first, the hidden gate has to wait for the reset gates of all blocks.
        apart = [(self._update_and_reset, 2), (self._hidden_gate, 1)]
        for each, gates in [(self._all_gates, 3)] if self._shape.linear_before_reset else apart:
            blocks_at_once = self._tile.tiles.blocks(part.rows, gates)
            for_blocks(self._shape.blocks, blocks_at_once, is_backward, lambda first, blocks, run=each: (  # type: ignore[misc]
                run(t, part, first, blocks)
            ))  # fmt: skip
        take_states(self._tensors["state"], self._tensors["out"], t, part, self._tile.ends)

    def finish(self) -> None:
        """Do nothing: the last state is where it belongs."""

    def _all_gates(self, t: tirx.Expr, part: Part, first: tirx.Expr, blocks: int) -> None:
        s, data = self._shape, self._tensors["data"]
        total = self._started(part, first, blocks)
        start_sums(total, data, t, part.row, first, 2)
        self._add(total, range(3), self._tensors["state"], part.row, t, first)

        def finish(r: tirx.Expr, b: tirx.Expr, block: tirx.Expr) -> None:
            unit = self._unit(block)
            self._limit(total, r, b, _UPDATE, _RESET)
            put(s.lanes, total, (r, b, _HIDDEN, 0), lambda i: (
                data[t, part.row + r, _HIDDEN * s.hidden + unit + i]
                + self._f(total[r, b, _RESET, i]) * total[r, b, _HIDDEN, i]
            ))  # fmt: skip
            put(s.lanes, self._update, (part.at + r, unit), lambda i: self._f(total[r, b, _UPDATE, i]))
            self._finish(total, t, part, r, b, unit)

        for_vectors(total, first, finish)

    def _update_and_reset(self, t: tirx.Expr, part: Part, first: tirx.Expr, blocks: int) -> None:
        s, state = self._shape, self._tensors["state"]
        total = local(part.rows, blocks, 3, s.lanes)
        start_sums(total, self._tensors["data"], t, part.row, first, 2)
        self._add(total, range(2), state, part.row, t, first)

        def finish(r: tirx.Expr, b: tirx.Expr, block: tirx.Expr) -> None:
            unit = self._unit(block)
            self._limit(total, r, b, _UPDATE, _RESET)
            put(s.lanes, self._update, (part.at + r, unit), lambda i: self._f(total[r, b, _UPDATE, i]))
            put(s.lanes, self._scaled, (part.at + r, unit), lambda i: (
                self._f(total[r, b, _RESET, i]) * state[part.row + r, unit + i]
            ))  # fmt: skip

        for_vectors(total, first, finish)

    def _hidden_gate(self, t: tirx.Expr, part: Part, first: tirx.Expr, blocks: int) -> None:
        s, data = self._shape, self._tensors["data"]
        total = self._started(part, first, blocks)
        self._add(total, range(2, 3), self._scaled, part.at, t, first)

        def finish(r: tirx.Expr, b: tirx.Expr, block: tirx.Expr) -> None:
            unit = self._unit(block)
            put(s.lanes, total, (r, b, _HIDDEN, 0), lambda i: (
                total[r, b, _HIDDEN, i] + data[t, part.row + r, _HIDDEN * s.hidden + unit + i]
            ))  # fmt: skip
            self._finish(total, t, part, r, b, unit)

        for_vectors(total, first, finish)

    def _started(self, part: Part, first: tirx.Expr, blocks: int) -> tirx.Buffer:
        """Return sums, those of the hidden gate begun with the bias."""
        total, bias = local(part.rows, blocks, 3, self._shape.lanes), self._tensors["bias"]
        for_vectors(total, first, lambda r, b, block: put(
            self._shape.lanes, total, (r, b, _HIDDEN, 0), lambda i: bias[self._unit(block) + i]
        ))  # fmt: skip
        return total

    def _add(
        self,
        total: tirx.Buffer,
        gates: range,
        state: tirx.Buffer,
        row: tirx.Expr,
        t: tirx.Expr,
        first: tirx.Expr,
    ) -> None:
        add_products(total, gates, state, row, self._tensors["weight"], first, t % 2 == 1)

    def _finish(
        self, total: tirx.Buffer, t: tirx.Expr, part: Part, r: tirx.Expr, b: tirx.Expr, unit: tirx.Expr
    ) -> None:
        """Write the new state, between what the hidden gate gives and the old one."""
        lanes, row = self._shape.lanes, part.row + r
        state, out = self._tensors["state"], self._tensors["out"]
        self._limit(total, r, b, _HIDDEN)
        put(lanes, total, (r, b, _HIDDEN, 0), lambda i: self._g(total[r, b, _HIDDEN, i]))
        put(lanes, out, (t, row, unit), lambda i: (
            total[r, b, _HIDDEN, i]
            + self._update[part.at + r, unit + i] * (state[row, unit + i] - total[r, b, _HIDDEN, i])
        ))  # fmt: skip

    def _limit(self, total: tirx.Buffer, r: tirx.Expr, b: tirx.Expr, *gates: int) -> None:
        if self._shape.clip is None:
            return
        for g in gates:
            put(self._shape.lanes, total, (r, b, g, 0), lambda i, g=g: limited(total[r, b, g, i], self._shape.clip))  # type: ignore[misc]

    def _unit(self, block: tirx.Expr) -> tirx.Expr:
        return unit_of(block, self._shape.hidden, self._shape.lanes)
