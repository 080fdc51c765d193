"""A recurrent layer on a CPU: all steps in one loop, states kept where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tvm import tirx

from .._dataclasses import dataclass
from .builder import Size, T, integer, kernel
from .recurrent_code import set_rows
from .recurrent_loops import Ends, Part, for_parts, for_steps, for_tiles
from .recurrent_tiles import RecurrentTiles

__all__ = ["Cell", "LayerShape", "Tile", "layer"]


@dataclass(frozen=True)
class LayerShape:
    """What is known of a layer when it is compiled.

    Attributes
    ----------
    hidden : int
        How many hidden units there are.
    lanes : int
        How many float32 a vector has, at most `hidden`.
    functions : str
        The functions of the gates, as :func:`vmkit.kernels.gate_functions.gate_functions` reads them.
    is_reverse : bool
        Whether steps go from the last to the first.
    clip : float or None
        How far from 0 the sum of a gate may be.
    lengths : str or None
        The integer type of how many steps each row of the batch has; None where all have all of them. Beyond its
        length a row's states stay and what it gives is 0; reversed, it starts at its own end.
    batch : int or None
        How many rows there are; None where only the run knows.
    """

    hidden: int
    lanes: int
    functions: str
    is_reverse: bool = False
    clip: float | None = None
    lengths: str | None = None
    batch: int | None = None

    @property
    def blocks(self) -> int:
        """How many vectors hold the hidden units."""
        return -(-self.hidden // self.lanes)


@dataclass(frozen=True)
class Tile:
    """Rows of the batch that one thread takes through all steps: where they are, and the tensors of the kernel."""

    tensors: Mapping[str, tirx.Buffer]
    first: tirx.Expr
    count: tirx.Expr
    tiles: RecurrentTiles
    ends: Ends | None

    @property
    def most(self) -> int:
        """How many rows it has at most."""
        return self.tiles.rows[0]


class Cell(Protocol):
    """What a step computes, for a tile."""

    def step(self, t: tirx.Expr, part: Part) -> None:
        """Write a step of some rows: their states, and those of the step in ``out``."""

    def finish(self) -> None:
        """Write what comes after the last step."""


class _CellOf(Protocol):
    def __call__(self, shape: Any, tile: Tile) -> Cell: ...  # noqa: ANN401 - each cell has a shape of its own


def layer(
    shape: LayerShape, gates: int, vectors: Mapping[str, int], states: Sequence[str], cell: _CellOf
) -> tirx.PrimFunc:
    """Return the kernel of one direction of a layer.

    It takes the inputs times their weights plus bias (steps, batch, gates * hidden), the recurrence's weights in blocks
    (blocks, hidden, gates, lanes), the first states (batch, hidden), vectors, and lengths (batch,) where there are any;
    it writes the hidden states of all steps (steps, batch, hidden) and the last states. All but lengths are float32.
    """
    hidden, lanes = shape.hidden, shape.lanes
    tiles = RecurrentTiles.of(lanes, shape.blocks, gates, shape.batch, may_end=shape.lengths is not None)
    with kernel() as builder:
        steps = tirx.Var("steps", "int64")
        batch = tirx.Var("batch", "int64") if shape.batch is None else integer(shape.batch)
        shapes: dict[str, list[Size]] = {
            "data": [steps, batch, gates * hidden],
            "weight": [shape.blocks, hidden, gates, lanes],
            **{f"first_{name}": [batch, hidden] for name in states},
            **{name: [size] for name, size in vectors.items()},
            **({"lengths": [batch]} if shape.lengths else {}),
            "out": [steps, batch, hidden],
            **{name: [batch, hidden] for name in states},
        }
        handles = {name: T.arg(name, T.handle()) for name in shapes}
        types = {"lengths": shape.lengths}
        tensors = {n: T.match_buffer(handles[n], shapes[n], types.get(n) or "float32", layout=None) for n in shapes}

        def run(first: tirx.Expr, count: tirx.Expr) -> None:
            ends = Ends(tensors["lengths"], steps, first, count, tiles.rows[0]) if shape.lengths else None
            _run_tile(shape, Tile(tensors, first, count, tiles, ends), steps, cell)

        for_tiles(batch, tiles, run)
    return builder.get()


def _run_tile(shape: LayerShape, tile: Tile, steps: tirx.Expr, cell: _CellOf) -> None:
    ends, tensors = tile.ends, tile.tensors
    set_rows(tensors["state"], tile.first, tile.count, tensors["first_state"])
    rows = cell(shape, tile)

    def step(t: tirx.Expr) -> None:
        active = tile.count if ends is None else ends.active(t)
        for_parts(active, tile.first, tile.tiles, lambda part: rows.step(t, part))

    for_steps(steps if ends is None else ends.longest(), shape.is_reverse, step)
    if ends is not None:
        ends.clear(tensors["out"])
    rows.finish()
