"""The loops of a recurrent layer around its step: over tiles of a batch's rows, over steps, over rows that go on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from .recurrent_tiles import RecurrentTiles

__all__ = ["Ends", "Part", "for_parts", "for_rows", "for_steps", "for_tiles"]


@dataclass(frozen=True)
class Part:
    """Rows that go through a step together.

    Attributes
    ----------
    row : PrimExpr
        The first of them in the batch.
    at : PrimExpr
        The first of them in the tile.
    rows : int
        How many there are.
    """

    row: Any
    at: Any
    rows: int


class Ends:
    """Where the rows of a tile end, each after its own number of steps, and which of them go on at a step.

    A length below 0 counts as 0, and one beyond the steps as all of them.
    """

    def __init__(self, lengths: Any, steps: Any, first: Any, count: Any, most: int) -> None:
        self._steps, self._first, self._count = steps, first, count
        self._ends, self._last, self._active = (
            T.alloc_buffer((size,), "int64", scope="local", layout=None) for size in (most, 1, 1)
        )
        T.buffer_store(self._last, tirx.IntImm("int64", 0), [0])
        with T.serial(count) as r:
            length = lengths[first + r].astype("int64")
            T.buffer_store(self._ends, tirx.max(tirx.min(length, steps), tirx.IntImm("int64", 0)), [r])
            T.buffer_store(self._last, tirx.max(self._last[0], self._ends[r]), [0])

    def longest(self) -> Any:
        """Return how many steps the longest row has."""
        return T.bind(self._last[0])

    def active(self, t: Any) -> Any:
        """Return how many rows a step has to go through: up to the last one that goes on."""
        T.buffer_store(self._active, tirx.IntImm("int64", 0), [0])
        with T.serial(self._count) as r, T.If(self.goes_on(r, t)), T.Then():
            T.buffer_store(self._active, r + 1, [0])
        return T.bind(self._active[0])

    def goes_on(self, row: Any, t: Any) -> Any:
        """Say whether a row of the tile has a step."""
        return t < self._ends[row]

    def clear(self, out: Any) -> None:
        """Set what is beyond the ends to zeros."""
        with T.serial(self._count) as r, T.serial(self._steps - self._ends[r]) as t, T.serial(out.shape[2]) as j:
            T.buffer_store(out, tirx.const(0.0, "float32"), [self._ends[r] + t, self._first + r, j])


def for_tiles(batch: Any, most: int, run: Callable[[Any, Any], None]) -> None:
    """Run ``run(first, count)`` for tiles of the rows of a batch, at most `most` in each."""
    with T.parallel((batch + (most - 1)) // most) as tile:
        first = T.bind(tile * most)
        run(first, T.bind(tirx.min(batch - first, tirx.IntImm("int64", most))))


def for_steps(count: Any, is_reverse: bool, run: Callable[[Any], None]) -> None:
    """Run ``run(t)`` for the first `count` steps, or from the last of them on."""
    with T.serial(count) as step:
        run(T.bind(count - 1 - step) if is_reverse else step)


def for_parts(active: Any, first: Any, tiles: RecurrentTiles, run: Callable[[Part], None]) -> None:
    """Run ``run(part)`` for the first `active` rows of a tile, in as few parts as there are sizes for."""
    most = tiles.rows[0]
    with T.If(active >= most):
        with T.Then():
            run(Part(first, tirx.IntImm("int64", 0), most))
        with T.Else():
            for rows in tiles.rows[1:]:
                with T.If(active % (2 * rows) >= rows), T.Then():
                    at = T.bind(active - active % (2 * rows))
                    run(Part(first + at, at, rows))


def for_rows(part: Part, t: Any, ends: Ends | None, run: Callable[[Any], None]) -> None:
    """Run ``run(r)`` for the rows of a part that have a step."""
    with ExitStack() as nest:
        r = nest.enter_context(T.serial(part.rows))
        if ends is not None:
            nest.enter_context(T.If(ends.goes_on(part.at + r, t)))
            nest.enter_context(T.Then())
        run(r)
