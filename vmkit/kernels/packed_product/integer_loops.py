"""Products of integers of 8 bits in int32.

Sums are exactly those of int32. A few positions by a block of outputs are summed up in vectors, or in tiles where there
are enough positions; the positions that are left over are computed together with some before them once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod

from tvm import tirx

from ..._dataclasses import dataclass
from ...target.integer_unit import IntegerUnit
from ...target.processor import CACHES
from ..builder import (
    Size,
    T,
    as_expr,
    broadcast,
    constant,
    in_one_axis,
    in_parallel,
    in_register,
    integer,
    local,
    loop,
    memory,
    ramp,
    reinterpreted,
)
from .amx import configure
from .integer_code import Again, Operands, emit_tiles, emit_vectors
from .integer_plan import IntegerPlan
from .loops import Finish, Loop, PackedProduct, Place, Positions
from .plan import Chunk
from .shape import TILE
from .sizes import bound, divided, even_tile, is_same, least

__all__ = ["IntegerProduct"]

_FETCHED = CACHES.first // 2  # bytes of a tile that leave room for those of the next beside the weight
_KEPT = CACHES.second // 8  # bytes of data that are read from a core's own cache again
_COPIED = 64  # numbers that are copied at once
_MOST, _FEWER = 14, (10, 8, 4, 2, 1)  # positions that are summed up at once in vectors
_SHORT = 4  # of them where there is to be little code


@dataclass(frozen=True)
class IntegerProduct(PackedProduct[IntegerPlan]):
    """The loops of a product of integers.

    Attributes
    ----------
    unit : IntegerUnit
        What multiplies.
    filler : buffer or None
        The number that stands around images, None where none does.
    cores : int
        How many cores share the work.
    is_short : bool
        Whether there is to be little code: few sums at once, and what becomes of them in loops.
    """

    unit: IntegerUnit
    filler: tirx.Buffer | None
    cores: int = 1
    is_short: bool = False

    def short(self) -> IntegerProduct:
        return replace(self, is_short=True)

    @property
    def has_tiles(self) -> bool:
        return self.unit.has_tiles

    @property
    def most_positions(self) -> int:
        """How many positions' sums are in registers, beside what is multiplied."""
        others = 8 if self.unit.adds_pairs else 4
        return min(_SHORT if self.is_short else _MOST, (self.unit.registers - others) // self._vectors)

    @property
    def _vectors(self) -> int:
        """How many vectors the sums of a position are."""
        return self.window.block // self.unit.lanes

    @property
    def fetches_beside(self) -> bool:
        return not self.has_tiles

    def keep(self, value: Size) -> Size:
        return in_register(as_expr(value))

    def once(self, value: Size) -> Size:
        return in_register(value)

    def plan(self) -> IntegerPlan:
        return IntegerPlan.of(self.window, list(self.data.shape), self.shape, self.unit, self.cores)

    def memory(self, plan: IntegerPlan) -> Sequence[tirx.Buffer]:
        data, weight = in_one_axis(self.data), in_one_axis(self.weight)
        copied = memory(bound(plan.size), self.unit.dtypes[0]) if plan.is_copied else data
        return copied, weight, data

    @contextmanager
    def chunks(self, plan: IntegerPlan) -> Iterator[Chunk]:
        with loop(plan.axes.images) as image, loop(plan.chunks()) as chunk:
            yield plan.chunk(image, chunk)

    def share_chunks(self, plan: IntegerPlan, finish: Finish) -> None:
        chunks = plan.chunks()
        with in_parallel(plan.axes.images * chunks) as work:
            image, chunk = (in_register(as_expr(i)) for i in divided(work, chunks))
            self.take(plan, plan.chunk(image, chunk), self.memory(plan), finish, loop)

    # -- copying

    def prepare(self, plan: IntegerPlan, here: Chunk, operands: Sequence[tirx.Buffer], shared: Loop) -> None:
        """Copy the rows of a chunk, with what stands around the image."""
        if not plan.is_copied:
            return
        p, w, (copied, _, data) = plan.product, self.window, operands
        if p.is_pointwise:
            with shared(here.rows) as row:
                self._copy_run(copied, row * w.depth, data, (here.row + row) * p.channels, p.channels)
            return
        height, width = plan.axes.rows_of_data, plan.axes.columns_of_data
        filler = constant(0, "uint8") if self.filler is None else T.Bind(self.filler[()])
        left = p.padding[1] * p.channels
        kept = in_register(least(width * p.channels, plan.row - left))
        with shared(here.input_rows) as row:
            begin, y = in_register(row * plan.row), in_register(here.row * p.strides[0] + row - p.padding[0])

            def copy() -> None:
                self._fill_run(copied, begin, left, filler)
                self._copy_run(copied, begin + left, data, ((here.image * height + y) * width) * p.channels, kept)
                self._fill_run(copied, begin + left + kept, plan.row - left - kept, filler)

            with T.If(tirx.all(y >= 0, y < height)):
                with T.Then():
                    copy()
                with T.Else():
                    self._fill_run(copied, begin, plan.row, filler)

    def _copy_run(self, copied: tirx.Buffer, to: Size, data: tirx.Buffer, at: Size, count: Size) -> None:
        dtype = self.unit.dtypes[0]
        source, target = in_register(as_expr(at)), in_register(as_expr(to))

        def copy(first: Size, lanes: int) -> None:
            value = data[ramp(source + first, lanes)]
            of_type = value if dtype == "uint8" else tirx.Cast(f"{dtype}x{lanes}" if lanes > 1 else dtype, value)
            T.buffer_store(copied, of_type, [ramp(target + first, lanes)])

        _in_vectors(count, copy)

    def _fill_run(self, copied: tirx.Buffer, to: Size, count: Size, filler: tirx.Expr) -> None:
        if isinstance(count, int) and count <= 0:
            return
        dtype, target = self.unit.dtypes[0], in_register(as_expr(to))

        def fill(first: Size, lanes: int) -> None:
            value = filler if dtype == "uint8" else tirx.Cast(dtype, filler)
            T.buffer_store(copied, broadcast(value, lanes), [ramp(target + first, lanes)])

        _in_vectors(count, fill)

    # -- multiplying

    def sizes(self, here: Chunk) -> tuple[list[int], Size]:
        """Return how many positions may be summed up at once, falling to one that always fits; and how many are."""
        most = self.most_positions
        many = [2 * TILE, TILE] if self.unit.has_tiles else []
        if isinstance(here.positions, int):
            fitting = [size for size in many if size <= here.positions]
            sizes = fitting[:1] or [even_tile(here.positions, most)]
        else:
            fewer = (1,) if self.is_short else _FEWER
            sizes = [*many, most, *(size for size in fewer if size < most)]
        return sizes, in_register(_chosen(sizes, here.positions))

    def begin_task(self, operands: Sequence[tirx.Buffer], most: int) -> tuple[tirx.Buffer, Sequence[tirx.Buffer]]:
        # Memory of vectors begins where a vector may; that of numbers does at any sixteen bytes.
        sums = local(most * self._vectors, dtype=f"int32x{self.unit.lanes}")
        if self.has_tiles:
            configure(local(8, dtype="int64"))
        return sums, operands

    def pack_block(self, operands: Sequence[tirx.Buffer], block: Size) -> None:
        """Do nothing: weights of integers are packed when a program is compiled."""

    def half_row(self, sums: tirx.Buffer, row: Size, half: Size) -> Callable[[tirx.Expr], tirx.Expr]:
        lanes, numbers = self.unit.lanes, local(TILE, dtype="int32")
        for vector in range(TILE // lanes):
            of_row = row * self._vectors + half * (TILE // lanes) + vector
            T.buffer_store(numbers, sums[of_row], [ramp(vector * lanes, lanes)])
        return lambda lane: numbers[lane]

    def positions(self, here: Chunk, tile: Size, size: Size) -> Positions:
        wanted = self.keep(tile * size)
        if _is_multiple(here.positions, size):
            return Positions(wanted, wanted, size)
        begin = self.keep(least(wanted, here.positions - size))
        return Positions(begin, wanted, size - (wanted - begin))

    def keeps_sums(self, here: Chunk, sizes: list[int]) -> bool:
        # To store the sums and load them again takes a few cycles of each vector.
        w = self.window
        # What asks for outputs does so once then, not for each position.
        is_whole = is_same(w.blocks, 1) or _is_multiple(w.product.units, w.block)
        has_registers = self.unit.registers >= 32 and not (self.has_tiles or w.encoding.is_depthwise)
        return (
            not self.is_short
            and is_whole
            and has_registers
            and len(sizes) == 1
            and _is_multiple(here.positions, sizes[0])
        )

    def multiply(
        self,
        plan: IntegerPlan,
        operands: Sequence[tirx.Buffer],
        place: Place,
        sizes: tuple[list[int], Size],
        sums: tirx.Buffer,
    ) -> None:
        def one_of(options: list[int]) -> None:
            if len(options) == 1:
                self.emit_sums(plan, operands, place, sums, options[0])
                return
            with T.If(sizes[1] == options[0]):
                with T.Then():
                    self.emit_sums(plan, operands, place, sums, options[0])
                with T.Else():
                    one_of(options[1:])

        one_of(sizes[0])

    def emit_sums(
        self, plan: IntegerPlan, operands: Sequence[tirx.Buffer], place: Place, sums: tirx.Buffer, count: int
    ) -> None:
        """Write the sums of so many positions."""
        w, (data, weight, _) = self.window, operands
        panel = in_register(place.block * prod(w.shape[1:]))
        groups = divided(w.depth, self.unit.group)[0]
        again = self._again(plan, weight, panel) if w.extras else None
        is_ahead = self._is_fetched_ahead(plan, place.here, count)
        numbers = place.start, plan.step, panel, w.block, w.runs, groups, w.steps
        o = Operands(data, weight, *numbers, plan.offset, again, is_ahead)
        if self.unit.has_tiles and count >= TILE:
            emit_tiles(o, sums, count // TILE)
        else:
            emit_vectors(self.unit, o, sums, count)

    def _is_fetched_ahead(self, plan: IntegerPlan, here: Chunk, count: int) -> bool:
        """Say whether the next tile's data are fetched while a tile is multiplied.

        Each position of a tile is a stream of its own, and there are too many for the machine to foresee them all. Rows
        that a window reads follow each other, and most were there for the positions of the row before. Few data stay
        in a core's own cache while they go by all blocks, and would drive weights out of the nearest one.
        """
        if not isinstance(self.window.depth, int):
            return False
        axes, bytes_of_position = plan.axes, self.window.depth * (4 // self.unit.group)
        sizes = (axes.images, axes.rows_of_data, axes.columns_of_data)
        is_small = all(isinstance(size, int) for size in sizes) and prod(sizes) * bytes_of_position <= _KEPT
        has_next = not isinstance(here.positions, int) or here.positions > count
        is_read_once = self.window.product.kernel == (1, 1) and count > 1 and not is_small
        return is_read_once and has_next and self.unit.registers >= 32 and count * bytes_of_position <= _FETCHED

    def _again(self, plan: IntegerPlan, weight: tirx.Buffer, panel: Size) -> Again:
        """Return the groups of a block that are there twice."""
        w, size = self.window, self.window.block * self.unit.group
        first = panel + w.groups * size
        words = in_register(first + w.extras * size)

        def word(at: Size, most: Size) -> tirx.Expr:
            # A weight is data, which may say anything.
            said = tirx.Cast("int64", reinterpreted("int32", weight[ramp(words + at * 4, 4)]))
            return in_register(tirx.Max(tirx.Min(said, as_expr(most)), integer(0)))

        def group(number: tirx.Expr) -> tuple[Size, Size]:
            place, weights = word(number + 1, w.last_place), in_register(first + number * size)
            if w.runs == (1, 1):
                return place, weights
            run, within = divided(place, w.depth)
            row, column = divided(in_register(run), w.runs[1])
            return in_register(plan.offset(row, column) + within), weights

        return Again(word(integer(0), w.extras), group)


def _is_multiple(positions: Size, size: Size) -> bool:
    return isinstance(positions, int) and isinstance(size, int) and positions % size == 0


def _in_vectors(count: Size, emit: Callable[[Size, int], None]) -> None:
    """Write something for so many numbers, many at once as long as there are."""
    whole, rest = divided(count, _COPIED)
    if not isinstance(count, int) or whole:
        with loop(whole) as vector:
            emit(vector * _COPIED, _COPIED)
    if not isinstance(count, int) or rest:
        with loop(rest) as number:
            emit(whole * _COPIED + number, 1)


def _chosen(sizes: list[int], positions: Size) -> Size:
    """Return the one of some falling sizes by which positions are computed soonest; none is more than there are.

    Tiles go first, wherever there are enough positions. What is done once for a tile takes as long as a position.
    """
    *others, chosen = sizes
    result: Size = integer(chosen) if others else chosen
    least = in_register(as_expr(positions) * (chosen + 1))
    for size in reversed(others):
        is_chosen = as_expr(positions) >= size
        if size < TILE:
            cost = in_register((positions + (size - 1)) // size * (size + 1))
            is_chosen = tirx.all(is_chosen, cost <= least)
            least = in_register(tirx.Select(is_chosen, cost, least))
        result = in_register(tirx.Select(is_chosen, integer(size), result))
    return result
