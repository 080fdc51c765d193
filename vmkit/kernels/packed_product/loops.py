"""The loops of a packed product: chunks of the data go by all blocks of outputs while they are in the cache.

A task, which one core has, is some groups of positions by a block of outputs. What an encoding does by itself is how
data get into the order that its instructions take, how many positions they sum up at once, and the sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from tvm import tirx

from ..._dataclasses import dataclass
from ...target.processor import CACHES
from ...values.element_types import element_bytes
from ..builder import Size, T, fetch_ahead, in_parallel, integer, loop, when
from .amx import ask_permission, release
from .plan import Chunk, Plan
from .shape import TILE
from .sizes import divided, is_same, least
from .weight import PackedWeight

__all__ = ["Finish", "Loop", "PackedProduct", "Place", "Positions", "Row"]

_TILES_OF_TASK = 16
P = TypeVar("P", bound=Plan)

Loop = Callable[[Size], AbstractContextManager[tirx.Var]]
"""Writes a loop of a number of iterations, one after another or shared by cores."""


@dataclass(frozen=True)
class Row:
    """Some outputs of one position, next to each other.

    Attributes
    ----------
    index : list
        Where they are in the result, but for the last axis.
    first : expression
        The first of the outputs.
    lanes : int
        How many there are.
    sums : callable
        Returns the sum for a lane.
    """

    index: list[Size]
    first: Size
    lanes: int
    sums: Callable[[tirx.Expr], tirx.Expr]


@dataclass(frozen=True)
class Finish:
    """What becomes of sums.

    Attributes
    ----------
    write : callable
        Writes what becomes of a row of sums.
    beside : sequence of buffer
        Of the result's shape, whose elements at the places of the sums are read for that.
    results : sequence of buffer
        Those that are written.
    """

    write: Callable[[Row], None]
    beside: Sequence[tirx.Buffer] = ()
    results: Sequence[tirx.Buffer] = ()


@dataclass(frozen=True)
class Positions:
    """Positions that are summed up at once: from `begin` on, of which `count` from `wanted` on are kept."""

    begin: Size
    wanted: Size
    count: Size


@dataclass(frozen=True)
class Place:
    """What the sums are of: a chunk's positions from a place in the data on, and a block of outputs."""

    here: Chunk
    positions: Positions
    start: Size
    block: Size


@dataclass(frozen=True)
class PackedProduct(ABC, Generic[P]):
    """The loops of one product.

    Attributes
    ----------
    window : PackedWeight
        The weight's sizes and order.
    data, weight : buffer
        The operands: images (batch, rows, columns, channels) or (batch, columns, channels), or for a dense layer any
        axes and the inputs; the packed weight.
    shape : list of dimension
        The result's.
    """

    window: PackedWeight
    data: tirx.Buffer
    weight: tirx.Buffer
    shape: list[tirx.Expr]

    # -- what an encoding says

    @property
    @abstractmethod
    def has_tiles(self) -> bool:
        """Whether the instructions are those of AMX tiles."""

    @abstractmethod
    def keep(self, value: Size) -> Size:
        """Compute an integer here, where this is written."""

    @abstractmethod
    def once(self, value: Size) -> Size:
        """Compute an integer here where that is worth it for one that is read in few places."""

    @abstractmethod
    def plan(self) -> P:
        """Return where the data lie."""

    @abstractmethod
    def memory(self, plan: P) -> Sequence[tirx.Buffer]:
        """Return what the sums are made of: the chunk's data, and the weight."""

    @abstractmethod
    def chunks(self, plan: P) -> AbstractContextManager[Chunk]:
        """Open the loops over all chunks."""

    @abstractmethod
    def prepare(self, plan: P, here: Chunk, operands: Sequence[tirx.Buffer], shared: Loop) -> None:
        """Bring the data of a chunk into the order that the instructions take."""

    @abstractmethod
    def sizes(self, here: Chunk) -> tuple[list[int], Size]:
        """Return how many positions may be summed up at once, and how many are in this chunk."""

    @abstractmethod
    def begin_task(self, operands: Sequence[tirx.Buffer], most: int) -> tuple[tirx.Buffer, Sequence[tirx.Buffer]]:
        """Return memory for the sums of `most` positions, and the operands of a task; make the unit ready."""

    @abstractmethod
    def pack_block(self, operands: Sequence[tirx.Buffer], block: Size) -> None:
        """Pack a block of a weight that is not packed yet."""

    @abstractmethod
    def positions(self, here: Chunk, tile: Size, size: Size) -> Positions:
        """Return the positions of a tile."""

    @abstractmethod
    def multiply(
        self,
        plan: P,
        operands: Sequence[tirx.Buffer],
        place: Place,
        sizes: tuple[list[int], Size],
        sums: tirx.Buffer,
    ) -> None:
        """Write the sums of some positions and a block of outputs, a row of a block for each position."""

    def short(self) -> PackedProduct[P]:
        """Return the loops in little code, which is compiled sooner and runs for longer, if an encoding has such."""
        return self

    @property
    def is_short(self) -> bool:
        """Whether what becomes of a row of sums is written once, for all parts of the row."""
        return False

    @property
    def fetches_beside(self) -> bool:
        """Whether what is read beside sums is fetched while they are summed up."""
        return False

    def keeps_sums(self, here: Chunk, sizes: list[int]) -> bool:
        """Say whether sums stay in registers until each of their positions is finished."""
        return False

    # -- the loops

    def emit(self, finish: Finish) -> None:
        """Write the loops into the builder at hand; `finish` says what becomes of a row of sums."""
        plan = self.plan()
        if self.has_tiles:
            ask_permission()
        if isinstance(plan.is_over_chunks, bool):
            (self.share_chunks if plan.is_over_chunks else self._share_steps)(plan, finish)
            return
        with T.If(plan.is_over_chunks):
            with T.Then():
                self.share_chunks(plan, finish)
            with T.Else():
                self._share_steps(plan, finish)

    def share_chunks(self, plan: P, finish: Finish) -> None:
        """Write loops in which each core takes chunks of its own, and multiplies them with all of the weight."""
        raise NotImplementedError(f"{type(self).__name__} has cores share the steps of a chunk")

    def _share_steps(self, plan: P, finish: Finish) -> None:
        """Write loops in which cores share the preparing of a chunk, and then its products block by block."""
        operands = self.memory(plan)
        with self.chunks(plan) as here:
            self.take(plan, here, operands, finish, in_parallel)

    def take(self, plan: P, here: Chunk, operands: Sequence[tirx.Buffer], finish: Finish, shared: Loop) -> None:
        """Prepare and multiply a chunk."""
        self.prepare(plan, here, operands, shared)
        sizes, size = self.sizes(here)
        tiles = self._quotient(here.positions, size)
        total = self.once(here.groups * tiles)
        tasks = self._quotient(total, _TILES_OF_TASK)
        with shared(tasks * self.window.blocks) as task:
            sums, of_task = self.begin_task(operands, max(sizes))
            block, part = divided(task, tasks)
            block = self.keep(block)
            first = self.keep(self.once(part) * _TILES_OF_TASK)
            self.pack_block(of_task, block)
            with loop(least(integer(_TILES_OF_TASK), total - first)) as offset:
                group, tile = (0, first + offset) if is_same(here.groups, 1) else divided(first + offset, tiles)
                group, positions = self.keep(group), self.positions(here, tile, size)
                start = self.keep(plan.start(here, group) + positions.begin * plan.step)
                place = Place(here, positions, start, block)
                if self.fetches_beside:
                    self._fetch_ends(plan, place, group, finish)
                self.multiply(plan, of_task, place, (sizes, size), sums)
                rows = T.unroll(sizes[0]) if self.keeps_sums(here, sizes) else loop(positions.count)
                with rows as row:
                    self._finish_position(plan, place, group, row, sums, finish)
            if self.has_tiles:
                release()

    def _fetch_ends(self, plan: P, place: Place, group: Size, finish: Finish) -> None:
        """Have fetched what is read beside some sums, and what they become: rows far apart, which nothing foresees."""
        ends = [*((buffer, False) for buffer in finish.beside), *((buffer, True) for buffer in finish.results)]
        for buffer, is_result in ends:
            line = CACHES.line // element_bytes(str(buffer.dtype))
            with loop(place.positions.count) as row:
                index, _ = plan.position(place.here, group, place.positions.wanted + row)
                for first in range(0, self.window.block, line):
                    element = buffer[[*index, place.block * self.window.block + first]]
                    fetch_ahead(element, cache=1, to_write=is_result)

    def _quotient(self, value: Size, by: Size) -> Size:
        """Return a quotient rounded up."""
        return self.once(divided(value + (by - 1), by)[0])

    def half_row(self, sums: tirx.Buffer, row: Size, half: Size) -> Callable[[tirx.Expr], tirx.Expr]:
        """Return what reads some outputs' sums, a tile's width, in a row of sums."""
        begin = row * self.window.block + half * TILE
        return lambda lane: sums[begin + lane]

    def _finish_position(
        self, plan: P, place: Place, group: Size, row: Size, sums: tirx.Buffer, finish: Finish
    ) -> None:
        """Have a position's row of sums finished."""
        positions, units, blocks = place.positions, self.window.product.units, self.window.blocks
        width, rest = self.window.block, self.window.rest
        at = self.once(positions.wanted + row)
        of_sums = row if positions.wanted is positions.begin else at - positions.begin
        index, inside = plan.position(place.here, group, at)

        def in_a_loop() -> None:
            with loop(integer(width // TILE)) as half:
                first = self.keep(place.block * width + half * TILE)

                def finish_part(lanes: int) -> None:
                    finish.write(Row(index, first, lanes, self.half_row(sums, of_sums, half)))

                with when(first + TILE <= units):
                    finish_part(TILE)
                if rest:
                    with when(tirx.all(first < units, first + TILE > units)):
                        finish_part(rest)

        def outputs() -> None:
            if not isinstance(units, int) or (self.is_short and width > TILE):
                in_a_loop()
                return
            for half in range(width // TILE):
                first = place.block * width + half * TILE

                def finish_half(lanes: int, half: int = half, first: Size = first) -> None:
                    finish.write(Row(index, first, lanes, self.half_row(sums, of_sums, half)))

                if units % width == 0:
                    finish_half(TILE)
                    continue
                with when(first + TILE <= units):
                    finish_half(TILE)
                if units % TILE and units % width // TILE == half:
                    with when(place.block == blocks - 1):
                        finish_half(units % TILE)

        if inside is None:
            outputs()
        else:
            with when(inside):
                outputs()
