"""The step of a plain recurrent layer on a CPU."""

from __future__ import annotations

from tvm import tirx

from .._dataclasses import dataclass
from .builder import local
from .gate_functions import gate_functions, limited
from .recurrent_code import add_products, for_blocks, for_vectors, put, start_sums, take_states, unit_of
from .recurrent_layer import LayerShape, Tile, layer
from .recurrent_loops import Part

__all__ = ["RNNShape", "rnn"]


@dataclass(frozen=True)
class RNNShape(LayerShape):
    """What is known of a plain recurrent layer."""

    functions: str = "tanh"


def rnn(shape: RNNShape) -> tirx.PrimFunc:
    """Return the kernel of one direction of a layer, as :func:`.layer` says; the only state is the hidden one."""
    return layer(shape, 1, {}, ("state",), _Rows)


class _Rows:
    """The rows of a tile."""

    def __init__(self, shape: RNNShape, tile: Tile) -> None:
        self._shape, self._tile, self._tensors = shape, tile, tile.tensors
        (self._f,) = gate_functions(shape.functions, 1)

    def step(self, t: tirx.Expr, part: Part) -> None:
        blocks_at_once = self._tile.tiles.blocks(part.rows, 1)
        for_blocks(self._shape.blocks, blocks_at_once, t % 2 == 1, lambda first, blocks: (
            self._blocks(t, part, first, blocks)
        ))  # fmt: skip
        take_states(self._tensors["state"], self._tensors["out"], t, part, self._tile.ends)

    def finish(self) -> None:
        """Do nothing: the last state is where it belongs."""

    def _blocks(self, t: tirx.Expr, part: Part, first: tirx.Expr, blocks: int) -> None:
        s, tensors, clip = self._shape, self._tensors, self._shape.clip
        total = local(part.rows, blocks, 1, s.lanes)
        start_sums(total, tensors["data"], t, part.row, first, 1)
        add_products(total, range(1), tensors["state"], part.row, tensors["weight"], first, t % 2 == 1)

        def finish(r: tirx.Expr, b: tirx.Expr, block: tirx.Expr) -> None:
            unit = unit_of(block, s.hidden, s.lanes)
            if clip is not None:
                put(s.lanes, total, (r, b, 0, 0), lambda i: limited(total[r, b, 0, i], clip))
            put(s.lanes, tensors["out"], (t, part.row + r, unit), lambda i: self._f(total[r, b, 0, i]))

        for_vectors(total, first, finish)
