"""The loops of a recurrent layer around its step: over tiles of a batch's rows, over steps, over rows that go on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from tvm import tirx

from .._dataclasses import dataclass
from .builder import T, constant, in_parallel, integer, local, loop, when
from .recurrent_tiles import RecurrentTiles

__all__ = ["Ends", "Part", "for_parts", "for_rows", "for_steps", "for_tiles"]


@dataclass(frozen=True)
class Part:
    """Rows that go through a step together.

    Attributes
    ----------
    row : tirx.Expr
        The first of them in the batch.
    at : tirx.Expr
        The first of them in the tile.
    rows : int
        How many there are.
    """

    row: tirx.Expr
    at: tirx.Expr
    rows: int


class Ends:
    """Where the rows of a tile end, each after its own number of steps, and which of them go on at a step.

    A length below 0 counts as 0, and one beyond the steps as all of them.
    """

    def __init__(self, lengths: tirx.Buffer, steps: tirx.Expr, first: tirx.Expr, count: tirx.Expr, most: int) -> None:
        self._steps, self._first, self._count = steps, first, count
        self._ends, self._last, self._active = (local(size, dtype="int64") for size in (most, 1, 1))
        T.buffer_store(self._last, integer(0), [0])
        with loop(count) as r:
            length = lengths[first + r].astype("int64")
            T.buffer_store(self._ends, tirx.max(tirx.min(length, steps), integer(0)), [r])
            T.buffer_store(self._last, tirx.max(self._last[0], self._ends[r]), [0])

    def longest(self) -> tirx.Expr:
        """Return how many steps the longest row has."""
        return T.Bind(self._last[0])

    def active(self, t: tirx.Expr) -> tirx.Expr:
        """Return how many rows a step has to go through: up to the last one that goes on."""
        T.buffer_store(self._active, integer(0), [0])
        with loop(self._count) as r, when(self.goes_on(r, t)):
            T.buffer_store(self._active, r + 1, [0])
        return T.Bind(self._active[0])

    def goes_on(self, row: tirx.Expr, t: tirx.Expr) -> tirx.Expr:
        """Say whether a row of the tile has a step."""
        return t < self._ends[row]

    def clear(self, out: tirx.Buffer) -> None:
        """Set what is beyond the ends to zeros."""
        with loop(self._count) as r, loop(self._steps - self._ends[r]) as t, loop(out.shape[2]) as j:
            T.buffer_store(out, constant(0.0), [self._ends[r] + t, self._first + r, j])


def for_tiles(batch: tirx.Expr, tiles: RecurrentTiles, run: Callable[[tirx.Expr, tirx.Expr], None]) -> None:
    """Run ``run(first, count)`` for tiles of the rows of a batch."""
    number, size = (T.Bind(each) for each in tiles.split(batch))
    with in_parallel(number) as tile:
        first = T.Bind(tile * size)
        run(first, T.Bind(tirx.min(batch - first, size)))


def for_steps(count: tirx.Expr, is_reverse: bool, run: Callable[[tirx.Expr], None]) -> None:
    """Run ``run(t)`` for the first `count` steps, or from the last of them on."""
    with loop(count) as step:
        run(T.Bind(count - 1 - step) if is_reverse else step)


def for_parts(active: tirx.Expr, first: tirx.Expr, tiles: RecurrentTiles, run: Callable[[Part], None]) -> None:
    """Run ``run(part)`` for the first `active` rows of a tile, if there are any."""
    for rows in tiles.rows:
        with when(active == rows):
            run(Part(first, integer(0), rows))


def for_rows(part: Part, t: tirx.Expr, ends: Ends | None, run: Callable[[tirx.Expr], None]) -> None:
    """Run ``run(r)`` for the rows of a part that have a step."""
    with ExitStack() as nest:
        r = nest.enter_context(T.serial(part.rows))
        if ends is not None:
            nest.enter_context(when(ends.goes_on(part.at + r, t)))
        run(r)
