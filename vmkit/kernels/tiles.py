"""Products of float32 matrices on a matrix unit: a convolution or a dense layer with a packed constant weight.

The data of some rows or images is split in bfloat16 parts, which stay in the cache while all blocks of outputs go by.
A tile of a part is 16 output positions by 32 inputs; positions follow each other at one distance in memory, over the
ends of rows too, so that narrow images fill tiles: what is computed for positions between rows is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script import tirx as E
from tvm.script.ir_builder import tirx as T

from ..target.matrix_unit import PERMISSION
from .tile_code import (
    Operands,
    configure,
    cut_panel,
    emit_tiles,
    evaluate,
    lanes,
    load_tile,
    loop,
    spare_vector,
    store_parts,
    zero_parts,
)
from .tile_plan import LANES, ROWS, Chunk, Plan, bound, ceildiv, divided, int64, is_same, least
from .tiled_weight import BLOCK, DEPTH, PARTS, TILE, TiledWeight

__all__ = ["Row", "TiledProduct"]

_BLOCKS_OF_TASK = 16

Loop = Callable[[Any], Any]
"""Writes a loop of a number of turns, one after another or shared by cores."""


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

    index: list[Any]
    first: Any
    lanes: int
    sums: Callable[[Any], Any]


@dataclass(frozen=True)
class TiledProduct:
    """The loops of one product.

    Attributes
    ----------
    window : TiledWeight
        The weight's sizes and order.
    data, weight : buffer
        The operands: images (batch, rows, columns, channels) or (batch, columns, channels), or for a dense layer any
        axes and the inputs; the packed weight, or for a dense layer one of float32 (blocks, inputs, BLOCK), which is
        cut in parts block by block.
    shape : list of dimension
        The result's.
    cores : int
        How many cores share the work.
    """

    window: TiledWeight
    data: Any
    weight: Any
    shape: list[Any]
    cores: int = 1

    def emit(self, finish: Callable[[Row], None]) -> None:
        """Write the loops into the builder at hand; `finish` writes what becomes of a row of sums."""
        plan = Plan.of(self.window, list(self.data.shape), self.shape, self.cores)
        granted = E.call_extern("int64", "syscall", *(E.int64(n) for n in PERMISSION))
        with T.Assert(
            granted == E.int64(0), "the operating system does not let this process use the matrix unit (AMX)"
        ):
            T.evaluate(E.int32(0))
        if isinstance(plan.is_over_chunks, bool):
            (self._share_chunks if plan.is_over_chunks else self._share_steps)(plan, finish)
            return
        with T.If(plan.is_over_chunks):
            with T.Then():
                self._share_chunks(plan, finish)
            with T.Else():
                self._share_steps(plan, finish)

    def _share_chunks(self, plan: Plan, finish: Callable[[Row], None]) -> None:
        """Write loops in which each core splits chunks of its own, and multiplies them with all of the weight."""
        groups, chunks = _chunks(plan)
        with T.parallel(int64(groups * chunks)) as work:
            group, chunk = (T.Bind(int64(i)) for i in divided(work, chunks))
            self._take(plan, Chunk.of(plan, group, chunk), _parts(plan), finish, loop)

    def _share_steps(self, plan: Plan, finish: Callable[[Row], None]) -> None:
        """Write loops in which cores share the splitting of a chunk, and then its products block by block."""
        parts = _parts(plan)
        groups, chunks = _chunks(plan)
        with loop(groups) as group, loop(chunks) as chunk:
            self._take(plan, Chunk.of(plan, group, chunk), parts, finish, lambda count: T.parallel(int64(count)))

    def _take(self, plan: Plan, here: Chunk, parts: Any, finish: Callable[[Row], None], shared: Loop) -> None:
        """Split and multiply a chunk."""
        if self.window.takes_rows:
            self._split_rows(plan, here, parts, shared)
        else:
            self._split_channels(plan, here, parts, shared)
        self._multiply(plan, here, parts, finish, shared)

    def _split_channels(self, plan: Plan, here: Chunk, parts: Any, shared: Loop) -> None:
        """Split the data, each position's channels filled up to whole tiles."""
        if self.window.is_pointwise:
            with shared(ceildiv(here.rows, ROWS)) as line:
                spare = spare_vector()
                with loop(least(E.int64(ROWS), here.rows - line * ROWS)) as offset:
                    row = T.Bind(line * ROWS + offset)
                    self._split_position(plan, here, (parts, spare), (E.int64(0), E.int64(0), row, E.int64(0)))
            return
        with shared(here.images * plan.phases * here.input_rows) as line:
            of_phase, row = (T.Bind(i) for i in divided(line, here.input_rows))
            image, phase = (T.Bind(i) for i in divided(of_phase, plan.phases))
            spare = spare_vector()
            with loop(plan.pitch) as column:
                self._split_position(plan, here, (parts, spare), (image, phase, row, column))

    def _split_position(
        self, plan: Plan, here: Chunk, buffers: tuple[Any, Any], place: tuple[Any, Any, Any, Any]
    ) -> None:
        parts, spare = buffers
        w, runs = self.window, self.window.runs[2]
        image, phase, row, column = place
        at = T.Bind((((image * plan.phases + phase) * plan.input_rows + row) * plan.pitch + column) * DEPTH)
        y = (here.row + row) * w.strides[0] + phase // plan.column_phases - w.padding[0]
        x = column * w.strides[1] + phase % plan.column_phases - w.padding[1]

        def copy() -> None:
            index = tuple(T.Bind(i) for i in plan.source(here.image + image, y, x))

            def read(channel: Any) -> Any:
                return self.data[index + (channel,)]  # noqa: RUF005 - Python 3.10 unpacks nothing in an index

            whole, rest = divmod(w.channels, LANES)
            with loop(whole // 2) as run:
                for half in range(2):
                    values = read(lanes(run * DEPTH + half * LANES))
                    store_parts(parts, at + run * plan.plane + half * LANES, plan.part, spare, values)
            last = at + whole // 2 * plan.plane
            if whole % 2:
                store_parts(parts, last, plan.part, spare, read(lanes((whole - 1) * LANES)))
            if rest:
                T.buffer_store(spare, E.Broadcast(E.float32(0), LANES), [lanes(0)])
                with loop(rest) as lane:
                    T.buffer_store(spare, read(whole * LANES + lane), [lane])
                store_parts(parts, last + whole % 2 * LANES, plan.part, spare, spare[lanes(0)])
            if -(-w.channels // LANES) % 2:
                zero_parts(parts, at + (runs - 1) * plan.plane + LANES, 1, plan.part)

        inside = plan.is_inside(y, x)
        if inside is None:
            copy()
            return
        with T.If(inside):
            with T.Then():
                copy()
            with T.Else(), loop(runs) as run:
                zero_parts(parts, at + run * plan.plane, 2, plan.part)

    def _split_rows(self, plan: Plan, here: Chunk, parts: Any, shared: Loop) -> None:
        """Split the data, each row of it as one run of columns and channels."""
        w, channels = self.window, self.window.channels
        left = w.padding[1] * channels
        count = least(plan.columns_of_data * channels, plan.depth - left)
        with shared(here.images * here.input_rows) as line:
            image, row = (T.Bind(i) for i in divided(line, here.input_rows))
            begin = T.Bind((image * plan.input_rows + row) * plan.depth)
            y = T.Bind(here.row * w.strides[0] + row - w.padding[0])
            spare = spare_vector()
            zero_parts(parts, begin, plan.depth // LANES, plan.part)

            def read(at: Any) -> Any:
                index = plan.source(here.image + image, y, at // channels)
                return self.data[tuple(index + [at % channels])]  # noqa: RUF005 - see above

            with T.If(tirx.all(y >= 0, y < plan.rows_of_data)), T.Then(), loop(ceildiv(count, LANES)) as vector:
                with loop(LANES) as lane:
                    at = vector * LANES + lane
                    T.buffer_store(spare, E.if_then_else(at < count, read(at), E.float32(0)), [lane])
                store_parts(parts, begin + left + vector * LANES, plan.part, spare, spare[lanes(0)])

    def _multiply(self, plan: Plan, here: Chunk, parts: Any, finish: Callable[[Row], None], shared: Loop) -> None:
        """Multiply the split data with the weight, and have each row finished."""
        tiles = ceildiv(here.positions, ROWS)
        total = here.groups * tiles
        tasks = ceildiv(total, _BLOCKS_OF_TASK)
        with shared(tasks * self.window.blocks) as task:
            config = T.alloc_buffer((8,), "int64", scope="local", layout=None)
            sums = T.alloc_buffer((ROWS * BLOCK,), "float32", scope="local", layout=None)
            configure(config)
            panel = self._panel()
            block, part = divided(task, tasks)
            block, first = T.Bind(block), T.Bind(part * _BLOCKS_OF_TASK)
            if panel is not None:
                cut_panel(panel, self.weight, block, self.window.channels)
            with loop(least(E.int64(_BLOCKS_OF_TASK), total - first)) as offset:
                group, tile = (0, first + offset) if is_same(here.groups, 1) else divided(first + offset, tiles)
                group, begin = T.Bind(int64(group)), T.Bind(tile * ROWS)
                rows = T.Bind(int64(least(E.int64(ROWS), here.positions - begin)))
                start = T.Bind(plan.start(here, group) + begin * plan.step)
                with T.If(rows > TILE):
                    with T.Then():
                        self._tiles(plan, (parts, panel), start, block, sums)
                    with T.Else():
                        emit_tiles(self._operands(plan, (parts, panel), start, block), self.window.runs, sums, 1, 2)
                self._finish(plan, here, (group, begin, rows, block), sums, finish)
            evaluate("tilerelease")

    def _tiles(self, plan: Plan, parts: tuple[Any, Any], start: Any, block: Any, sums: Any) -> None:
        """Write the sums of two tiles of positions, by one tile of outputs where the last block has no more."""
        operands, runs = self._operands(plan, parts, start, block), self.window.runs
        last = 1 if 0 < self.window.units % BLOCK <= TILE else 2
        if self.window.blocks == 1 or last == 2:
            emit_tiles(operands, runs, sums, 2, last)
            return
        with T.If(block == self.window.blocks - 1):
            with T.Then():
                emit_tiles(operands, runs, sums, 2, last)
            with T.Else():
                emit_tiles(operands, runs, sums, 2, 2)

    def _panel(self) -> Any:
        """Return memory for the parts of a block of a weight that is not cut yet; None for one that is."""
        if str(self.weight.dtype) != "float32":
            return None
        return T.alloc_buffer((self.window.steps * PARTS * 2 * TILE * TILE,), "uint32", layout=None)

    def _operands(self, plan: Plan, parts: tuple[Any, Any], start: Any, block: Any) -> Operands:
        """Return the function that loads a tile of a step of the sum: of the data's parts or of the weight's."""
        of_data, panel = parts

        def step_at(run: Any, row: Any, column: Any) -> Callable[[int, str, int, int], None]:
            rows, columns, _ = self.window.runs
            data = T.Bind(start + run * plan.plane + plan.offset(row, column))
            step = T.Bind((run * rows + row) * columns + column)

            def load(tile: int, operand: str, part: int, number: int) -> None:
                if operand == "data":
                    at = data + (part * plan.part + number * TILE * plan.step)
                    load_tile(tile, of_data[at], plan.step * 2)
                elif panel is None:
                    load_tile(tile, self.weight[block, step, part, number, 0, 0, 0], 2 * DEPTH)
                else:
                    load_tile(tile, panel[((step * PARTS + part) * 2 + number) * (TILE * TILE)], 2 * DEPTH)

            return load

        return step_at

    def _finish(
        self, plan: Plan, here: Chunk, at: tuple[Any, Any, Any, Any], sums: Any, finish: Callable[[Row], None]
    ) -> None:
        group, begin, rows, block = at
        units = self.window.units
        with loop(rows) as row:
            index, inside = plan.position(here, group, begin + row)

            def outputs(row: Any = row, index: list[Any] = index) -> None:
                for half in range(BLOCK // TILE):
                    first = block * BLOCK + half * TILE

                    def sum_of(lane: Any, half: int = half) -> Any:
                        return sums[row * BLOCK + half * TILE + lane]

                    if units % BLOCK == 0:
                        finish(Row(index, first, TILE, sum_of))
                        continue
                    with T.If(first + TILE <= units), T.Then():
                        finish(Row(index, first, TILE, sum_of))
                    if units % TILE and units % BLOCK // TILE == half:
                        with T.If(block == self.window.blocks - 1), T.Then():
                            finish(Row(index, first, units % TILE, sum_of))

            if inside is None:
                outputs()
            else:
                with T.If(inside), T.Then():
                    outputs()


def _chunks(plan: Plan) -> tuple[Any, Any]:
    """Return how many groups of images there are, and how many chunks each has."""
    return ceildiv(plan.images, plan.images_at_once), bound(ceildiv(plan.rows, plan.rows_of_chunk))


def _parts(plan: Plan) -> Any:
    """Return memory for the split data of a chunk."""
    return T.alloc_buffer((PARTS * plan.part + plan.slack,), "uint16", layout=None)
