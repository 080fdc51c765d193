"""Products of float32 on AMX tiles, whose data are cut in bfloat16 parts chunk by chunk.

A tile of a part is 16 output positions by 32 inputs; positions follow each other at one distance in memory, over the
ends of rows too, so that narrow images fill tiles: what is computed for positions between rows is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tvm import tirx

from ..._dataclasses import dataclass
from ..builder import Size, T, as_expr, in_parallel, integer, local, loop, memory, splat, when
from .amx import configure, load_tile
from .bfloat16_code import (
    DEPTH,
    LANES,
    PARTS,
    LoadTile,
    Operands,
    cut_panel,
    emit_tiles,
    lanes,
    spare_vector,
    store_parts,
    zero_parts,
)
from .bfloat16_plan import ROWS, PartsPlan
from .loops import Finish, Loop, PackedProduct, Place, Positions
from .plan import Chunk
from .shape import BLOCK, TILE
from .sizes import ceildiv, divided, least

__all__ = ["PartsProduct"]


@dataclass(frozen=True)
class PartsProduct(PackedProduct[PartsPlan]):
    """The loops of a product of bfloat16 parts.

    The weight of a dense layer may be one of float32 (blocks, inputs, BLOCK), which is cut in parts block by block.

    Attributes
    ----------
    cores : int
        How many cores share the work.
    """

    cores: int = 1

    @property
    def has_tiles(self) -> bool:
        return True

    def keep(self, value: Size) -> Size:
        return T.Bind(as_expr(value))

    def once(self, value: Size) -> Size:
        return value

    def plan(self) -> PartsPlan:
        return PartsPlan.of(self.window, list(self.data.shape), self.shape, self.cores)

    def memory(self, plan: PartsPlan) -> Sequence[tirx.Buffer]:
        return (memory(PARTS * plan.part + plan.slack, "uint16"), self.weight)

    @contextmanager
    def chunks(self, plan: PartsPlan) -> Iterator[Chunk]:
        groups, chunks = plan.groups_and_chunks()
        with loop(groups) as group, loop(chunks) as chunk:
            yield plan.chunk(group, chunk)

    def share_chunks(self, plan: PartsPlan, finish: Finish) -> None:
        groups, chunks = plan.groups_and_chunks()
        with in_parallel(groups * chunks) as work:
            group, chunk = (T.Bind(as_expr(i)) for i in divided(work, chunks))
            self.take(plan, plan.chunk(group, chunk), self.memory(plan), finish, loop)

    # -- splitting

    def prepare(self, plan: PartsPlan, here: Chunk, operands: Sequence[tirx.Buffer], shared: Loop) -> None:
        split = self._split_rows if self.window.takes_rows else self._split_channels
        split(plan, here, operands[0], shared)

    def _split_channels(self, plan: PartsPlan, here: Chunk, parts: tirx.Buffer, shared: Loop) -> None:
        """Split the data, each position's channels filled up to whole tiles."""
        if plan.product.is_pointwise:
            with shared(ceildiv(here.rows, ROWS)) as line:
                spare = spare_vector()
                with loop(least(integer(ROWS), here.rows - line * ROWS)) as offset:
                    row = T.Bind(line * ROWS + offset)
                    self._split_position(plan, here, (parts, spare), (integer(0), integer(0), row, integer(0)))
            return
        with shared(here.images * plan.phases * here.input_rows) as line:
            of_phase, row = (T.Bind(i) for i in divided(line, here.input_rows))
            image, phase = (T.Bind(i) for i in divided(of_phase, plan.phases))
            spare = spare_vector()
            with loop(plan.pitch) as column:
                self._split_position(plan, here, (parts, spare), (image, phase, row, column))

    def _split_position(
        self,
        plan: PartsPlan,
        here: Chunk,
        buffers: tuple[tirx.Buffer, tirx.Buffer],
        place: tuple[tirx.Expr, tirx.Expr, tirx.Expr, tirx.Expr],
    ) -> None:
        (parts, spare), p, tiles = buffers, plan.product, self.window.depth // DEPTH
        channels = int(p.channels)
        image, phase, row, column = place
        at = T.Bind((((image * plan.phases + phase) * plan.input_rows + row) * plan.pitch + column) * DEPTH)
        y = (here.row + row) * p.strides[0] + phase // plan.column_phases - p.padding[0]
        x = column * p.strides[1] + phase % plan.column_phases - p.padding[1]

        def copy() -> None:
            index = tuple(T.Bind(i) for i in plan.source(here.image + image, y, x))

            def read(channel: tirx.Expr) -> tirx.Expr:
                return self.data[index + (channel,)]  # noqa: RUF005 - Python 3.10 unpacks nothing in an index

            whole, rest = divmod(channels, LANES)
            with loop(whole // 2) as run:
                for half in range(2):
                    values = read(lanes(run * DEPTH + half * LANES))
                    store_parts(parts, at + run * plan.plane + half * LANES, plan.part, spare, values)
            last = at + whole // 2 * plan.plane
            if whole % 2:
                store_parts(parts, last, plan.part, spare, read(lanes((whole - 1) * LANES)))
            if rest:
                T.buffer_store(spare, splat(0, LANES), [lanes(0)])
                with loop(rest) as lane:
                    T.buffer_store(spare, read(whole * LANES + lane), [lane])
                store_parts(parts, last + whole % 2 * LANES, plan.part, spare, spare[lanes(0)])
            if -(-channels // LANES) % 2:
                zero_parts(parts, at + (tiles - 1) * plan.plane + LANES, 1, plan.part)

        inside = plan.is_inside(y, x)
        if inside is None:
            copy()
            return
        with T.If(inside):
            with T.Then():
                copy()
            with T.Else(), loop(tiles) as run:
                zero_parts(parts, at + run * plan.plane, 2, plan.part)

    def _split_rows(self, plan: PartsPlan, here: Chunk, parts: tirx.Buffer, shared: Loop) -> None:
        """Split the data, each row of it as one run of columns and channels."""
        p, channels = plan.product, plan.product.channels
        left = p.padding[1] * channels
        count = least(plan.axes.columns_of_data * channels, plan.depth - left)
        with shared(here.images * here.input_rows) as line:
            image, row = (T.Bind(i) for i in divided(line, here.input_rows))
            begin = T.Bind((image * plan.input_rows + row) * plan.depth)
            y = T.Bind(here.row * p.strides[0] + row - p.padding[0])
            spare = spare_vector()
            zero_parts(parts, begin, plan.depth // LANES, plan.part)

            def read(at: tirx.Expr) -> tirx.Expr:
                index = plan.source(here.image + image, y, at // channels)
                return self.data[tuple(index + [at % channels])]  # noqa: RUF005 - see above

            is_row = tirx.all(y >= 0, y < plan.axes.rows_of_data)
            with when(is_row), loop(ceildiv(count, LANES)) as vector:
                with loop(LANES) as lane:
                    at = vector * LANES + lane
                    T.buffer_store(spare, T.if_then_else(at < count, read(at), T.float32(0)), [lane])
                store_parts(parts, begin + left + vector * LANES, plan.part, spare, spare[lanes(0)])

    # -- multiplying

    def sizes(self, here: Chunk) -> tuple[list[int], Size]:
        return [ROWS], ROWS

    def begin_task(self, operands: Sequence[tirx.Buffer], most: int) -> tuple[tirx.Buffer, Sequence[tirx.Buffer]]:
        config, sums = local(8, dtype="int64"), local(most * BLOCK)
        configure(config)
        if not self._is_cut_late:
            return sums, operands
        rows, columns = self.window.runs
        steps = rows * columns * (self.window.depth // DEPTH)
        return sums, (operands[0], memory(steps * PARTS * 2 * TILE * TILE, "uint32"))

    def pack_block(self, operands: Sequence[tirx.Buffer], block: Size) -> None:
        if self._is_cut_late:
            cut_panel(operands[1], self.weight, block, int(self.window.product.channels))

    @property
    def _is_cut_late(self) -> bool:
        return str(self.weight.dtype) == "float32"

    def positions(self, here: Chunk, tile: Size, size: Size) -> Positions:
        begin = T.Bind(tile * ROWS)
        return Positions(begin, begin, T.Bind(as_expr(least(integer(ROWS), here.positions - begin))))

    def multiply(
        self,
        plan: PartsPlan,
        operands: Sequence[tirx.Buffer],
        place: Place,
        sizes: tuple[list[int], Size],
        sums: tirx.Buffer,
    ) -> None:
        load, runs = self._operands(plan, operands, place), (*self.window.runs, self.window.depth // DEPTH)
        with T.If(place.positions.count > TILE):
            with T.Then():
                self._tiles(load, runs, place.block, sums)
            with T.Else():
                emit_tiles(load, runs, sums, 1, 2)

    def _tiles(self, load: Operands, runs: tuple[int, int, int], block: Size, sums: tirx.Buffer) -> None:
        """Write the sums of two tiles of positions, by one tile of outputs where the last block has no more."""
        last, blocks = 1 if 0 < self.window.product.units % BLOCK <= TILE else 2, self.window.blocks
        if blocks == 1 or last == 2:
            emit_tiles(load, runs, sums, 2, last)
            return
        with T.If(block == blocks - 1):
            with T.Then():
                emit_tiles(load, runs, sums, 2, last)
            with T.Else():
                emit_tiles(load, runs, sums, 2, 2)

    def _operands(self, plan: PartsPlan, operands: Sequence[tirx.Buffer], place: Place) -> Operands:
        """Return the function that loads a tile of a step of the sum: of the data's parts or of the weight's."""
        of_data, weight = operands
        rows, columns = self.window.runs

        def step_at(run: Size, row: Size, column: Size) -> LoadTile:
            data = T.Bind(place.start + run * plan.plane + plan.offset(row, column))
            step = T.Bind((run * rows + row) * columns + column)

            def load(tile: int, operand: str, part: int, number: int) -> None:
                if operand == "data":
                    at = data + (part * plan.part + number * TILE * plan.step)
                    load_tile(tile, of_data[at], plan.step * 2)
                elif self._is_cut_late:
                    load_tile(tile, weight[((step * PARTS + part) * 2 + number) * (TILE * TILE)], 2 * DEPTH)
                else:
                    load_tile(tile, weight[place.block, step, part, number, 0, 0, 0], 2 * DEPTH)

            return load

        return step_at
