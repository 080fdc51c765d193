"""Products of integers of 8 bits in int32: a convolution or a dense layer with a packed constant weight.

Sums are exactly those of int32. A few positions by a block of outputs are summed up in vectors, or in tiles where there
are enough positions; the positions that are left over are computed together with some before them once more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.script import tirx as E
from tvm.script.ir_builder import tirx as T

from ..target.integer_unit import IntegerUnit
from ..target.matrix_unit import PERMISSION
from .integer_code import TILE, Operands, emit_tiles, emit_vectors, held
from .integer_plan import Chunk, Plan
from .integer_weight import BLOCK, IntegerWeight
from .tile_code import configure, evaluate, loop
from .tile_plan import bound, divided, int64, is_same, least
from .tiles import Row

__all__ = ["IntegerProduct"]

_TILES_OF_TASK = 16
_COPIED = 64  # numbers that are copied at once
_MOST, _FEWER = 12, (8, 4, 2, 1)  # positions that are summed up at once in vectors


@dataclass(frozen=True)
class IntegerProduct:
    """The loops of one product.

    Attributes
    ----------
    unit : IntegerUnit
        What multiplies.
    window : IntegerWeight
        The weight's sizes and order.
    data, weight, filler : buffer
        The operands: images (batch, rows, columns, channels) or (batch, columns, channels) of uint8, or for a dense
        layer any axes and the inputs; the packed weight; the number that stands around images, None where none does.
    shape : list of dimension
        The result's.
    """

    unit: IntegerUnit
    window: IntegerWeight
    data: Any
    weight: Any
    filler: Any
    shape: list[Any]

    def emit(self, finish: Callable[[Row], None]) -> None:
        """Write the loops into the builder at hand; `finish` writes what becomes of a row of sums."""
        plan = Plan.of(self.window, list(self.data.shape), self.shape)
        if self.unit.has_tiles:
            granted = E.call_extern("int64", "syscall", *(E.int64(n) for n in PERMISSION))
            message = "the operating system does not let this process use the matrix unit (AMX)"
            with T.Assert(granted == E.int64(0), message):
                T.evaluate(E.int32(0))
        data, weight = _in_one_axis(self.data), _in_one_axis(self.weight)
        copied = T.alloc_buffer((bound(plan.size),), self.unit.dtypes[0], layout=None) if plan.is_copied else data
        with loop(plan.images) as image, loop(Chunk.count(plan)) as chunk:
            here = Chunk.of(plan, image, chunk)
            if plan.is_copied:
                self._copy(plan, here, data, copied)
            self._multiply(plan, here, (copied, weight), finish)

    def _copy(self, plan: Plan, here: Chunk, data: Any, copied: Any) -> None:
        """Copy the rows of a chunk, with what stands around the image."""
        w = self.window
        if w.is_pointwise:
            with T.parallel(int64(here.rows)) as row:
                self._copy_run(copied, row * w.depth, data, (here.row + row) * w.channels, w.channels)
            return
        height, width = plan.sizes
        filler = tirx.const(0, "uint8") if self.filler is None else T.Bind(self.filler[()])
        left = w.padding[1] * w.channels
        kept = held(least(width * w.channels, plan.row - left))
        with T.parallel(int64(here.input_rows)) as row:
            begin, y = held(row * plan.row), held(here.row * w.strides[0] + row - w.padding[0])

            def copy() -> None:
                self._fill_run(copied, begin, left, filler)
                self._copy_run(copied, begin + left, data, ((here.image * height + y) * width) * w.channels, kept)
                self._fill_run(copied, begin + left + kept, plan.row - left - kept, filler)

            with T.If(tirx.all(y >= 0, y < height)):
                with T.Then():
                    copy()
                with T.Else():
                    self._fill_run(copied, begin, plan.row, filler)

    def _copy_run(self, copied: Any, to: Any, data: Any, at: Any, count: Any) -> None:
        dtype = self.unit.dtypes[0]
        source, target = held(int64(at)), held(int64(to))

        def copy(first: Any, lanes: int) -> None:
            value = data[_ramp(source + first, lanes)]
            of_type = value if dtype == "uint8" else E.Cast(f"{dtype}x{lanes}" if lanes > 1 else dtype, value)
            T.buffer_store(copied, of_type, [_ramp(target + first, lanes)])

        _in_vectors(count, copy)

    def _fill_run(self, copied: Any, to: Any, count: Any, filler: Any) -> None:
        if isinstance(count, int) and count <= 0:
            return
        dtype, target = self.unit.dtypes[0], held(int64(to))

        def fill(first: Any, lanes: int) -> None:
            value = filler if dtype == "uint8" else E.Cast(dtype, filler)
            T.buffer_store(copied, E.Broadcast(value, lanes) if lanes > 1 else value, [_ramp(target + first, lanes)])

        _in_vectors(count, fill)

    def _multiply(self, plan: Plan, here: Chunk, operands: tuple[Any, Any], finish: Callable[[Row], None]) -> None:
        """Multiply the data of a chunk with the weight, and have each row finished."""
        sizes = self._sizes(plan, here)
        size = held(_chosen(sizes, here.positions))
        tiles = held(divided(here.positions + (size - 1), size)[0])
        total = held(here.groups * tiles)
        tasks = held(divided(total + (_TILES_OF_TASK - 1), _TILES_OF_TASK)[0])
        with T.parallel(int64(tasks * self.window.blocks)) as task:
            sums = T.alloc_buffer((max(sizes) * BLOCK,), "int32", scope="local", layout=None)
            if self.unit.has_tiles:
                configure(T.alloc_buffer((8,), "int64", scope="local", layout=None))
            block, part = (held(int64(i)) for i in divided(task, tasks))
            first = held(part * _TILES_OF_TASK)
            with loop(least(E.int64(_TILES_OF_TASK), total - first)) as offset:
                group, tile = (0, first + offset) if is_same(here.groups, 1) else divided(first + offset, tiles)
                group = held(int64(group))
                wanted = held(int64(tile * size))
                begin = held(int64(least(wanted, here.positions - size)))
                start = held(int64(plan.start(here, group) + begin * plan.step))
                self._sums(plan, (sizes, size), operands, (start, block), sums)
                with loop(size - (wanted - begin)) as row:
                    at = held(wanted + row)
                    self._finish(plan, here, (group, at, at - begin, block), sums, finish)
            if self.unit.has_tiles:
                evaluate("tilerelease")

    def _sizes(self, plan: Plan, here: Chunk) -> list[int]:
        """Return how many positions may be summed up at once, in falling order; the last one is 1 or always fits."""
        most = min(_MOST, (self.unit.registers - 4) // (BLOCK // self.unit.lanes))
        many = [2 * TILE, TILE] if self.unit.has_tiles else []
        if isinstance(here.positions, int):
            have = here.positions
            fitting = [size for size in many if size <= have]
            return fitting[:1] or [_even(have, most)]
        return [*many, *(size for size in (most, *_FEWER) if size <= most)]

    def _sums(
        self, plan: Plan, sizes: tuple[list[int], Any], operands: tuple[Any, Any], at: tuple[Any, Any], sums: Any
    ) -> None:
        """Write the sums of as many positions as are computed at once."""
        w, (data, weight), (start, block) = self.window, operands, at
        panel = held(block * prod(w.shape[1:]))
        o = Operands(data, weight, start, plan.step, panel, w.runs, w.depth // w.group, plan.offset)

        def emit(size: int) -> None:
            if self.unit.has_tiles and size >= TILE:
                emit_tiles(o, sums, size // TILE)
            else:
                emit_vectors(self.unit, o, sums, size)

        def one_of(options: list[int]) -> None:
            if len(options) == 1:
                emit(options[0])
                return
            with T.If(sizes[1] == options[0]):
                with T.Then():
                    emit(options[0])
                with T.Else():
                    one_of(options[1:])

        one_of(sizes[0])

    def _finish(
        self, plan: Plan, here: Chunk, at: tuple[Any, Any, Any, Any], sums: Any, finish: Callable[[Row], None]
    ) -> None:
        group, position, row, block = at
        units = self.window.units
        index, inside = plan.position(here, group, position)

        def outputs() -> None:
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


def _in_one_axis(buffer: Any) -> Any:
    """Return a tensor's numbers as one axis."""
    count: Any = 1
    for size in buffer.shape:
        count = count * size
    return T.decl_buffer((int64(count),), str(buffer.dtype), data=buffer.data, layout=None)


def _in_vectors(count: Any, emit: Callable[[Any, int], None]) -> None:
    """Write something for so many numbers, many at once as long as there are."""
    whole, rest = divided(count, _COPIED)
    if not isinstance(count, int) or whole:
        with loop(whole) as vector:
            emit(vector * _COPIED, _COPIED)
    if not isinstance(count, int) or rest:
        with loop(rest) as number:
            emit(whole * _COPIED + number, 1)


def _ramp(first: Any, lanes: int) -> Any:
    return E.Ramp(first, E.int64(1), lanes) if lanes > 1 else first


def _even(have: int, most: int) -> int:
    """Return how many of some positions to sum up at once, so that little is computed twice."""
    sizes = range(max(1, min(have, most) // 2), min(have, most) + 1)
    return min(sizes, key=lambda size: (-(-have // size) * (size + 1), -size))


def _chosen(sizes: list[int], positions: Any) -> Any:
    """Return the first of some sizes that is not more than there are positions, unless the next computes far less."""
    *others, chosen = sizes
    result: Any = E.int64(chosen) if others else chosen
    for size in reversed(others):
        is_chosen = int64(positions) >= size
        if size == _MOST:
            whole, fewer = ((positions + (n - 1)) // n * n for n in (size, _FEWER[0]))
            is_chosen = tirx.all(is_chosen, whole * 7 <= fewer * 8)
        result = E.Select(is_chosen, E.int64(size), result)
    return result
