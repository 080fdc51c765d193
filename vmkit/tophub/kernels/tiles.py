"""Products of float32 matrices on a matrix unit: a convolution or a dense layer with a packed constant weight.

The data of some rows or images is split in bfloat16 parts, which stay in the cache while all blocks of outputs go by.
A tile of a part is 16 output positions by 32 inputs; positions follow each other at one distance in memory, over the
ends of rows too, so that narrow images fill tiles: what is computed for positions between rows is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script import tirx as E
from tvm.script.ir_builder import tirx as T
from tvm.sym import Analyzer

from ...target.matrix_unit import PERMISSION
from .tiled_weight import BLOCK, DEPTH, TiledWeight

__all__ = ["LANES", "Row", "TiledProduct"]

LANES = 16
_TILE = 16
_ROWS = 2 * _TILE  # positions of a block
_CACHE_BYTES = (1 << 17, 1 << 20)  # of split data: the second cache of processors that have the unit holds 2 MiB
_BLOCKS_OF_TASK = 16
_LINES, _SKEW = 64, 5  # cache lines of a page, and by how many of them runs are apart in it

Operands = Callable[[Any, Any, Any], Callable[[int, str, int, int], None]]


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
        axes and the inputs; the packed weight.
    shape : list of dimension
        The result's.
    """

    window: TiledWeight
    data: Any
    weight: Any
    shape: list[Any]

    def emit(self, finish: Callable[[Row], None]) -> None:
        """Write the loops into the builder at hand; `finish` writes what becomes of a row of sums."""
        plan = _Plan.of(self)
        granted = E.call_extern("int64", "syscall", *(E.int64(n) for n in PERMISSION))
        with T.Assert(
            granted == E.int64(0), "the operating system does not let this process use the matrix unit (AMX)"
        ):
            T.evaluate(E.int32(0))
        parts = T.alloc_buffer((2 * plan.part + plan.slack,), "uint16", layout=None)
        with _loop(_ceildiv(plan.images, plan.images_at_once)) as group:
            with _loop(_ceildiv(plan.rows, plan.rows_at_once)) as chunk:
                here = _Chunk.of(plan, group, chunk)
                if self.window.takes_rows:
                    self._split_rows(plan, here, parts)
                else:
                    self._split_channels(plan, here, parts)
                self._multiply(plan, here, parts, finish)

    def _split_channels(self, plan: _Plan, here: _Chunk, parts: Any) -> None:
        """Split the data, each position's channels filled up to whole tiles."""
        lines = plan.phases * here.input_rows
        if self.window.is_pointwise:
            with T.parallel(_int64(_ceildiv(here.rows, _ROWS))) as line:
                spare = _spare()
                with _loop(_least(E.int64(_ROWS), here.rows - line * _ROWS)) as offset:
                    row = T.Bind(line * _ROWS + offset)
                    self._split_position(plan, here, (parts, spare), (E.int64(0), E.int64(0), row, E.int64(0)))
            return
        with T.parallel(_int64(here.images * lines)) as line:
            image = T.Bind(line // lines)
            phase = T.Bind(line // here.input_rows % plan.phases)
            row = T.Bind(line % here.input_rows)
            spare = _spare()
            with _loop(plan.pitch) as column:
                self._split_position(plan, here, (parts, spare), (image, phase, row, column))

    def _split_position(
        self, plan: _Plan, here: _Chunk, buffers: tuple[Any, Any], place: tuple[Any, Any, Any, Any]
    ) -> None:
        parts, spare = buffers
        w, runs = self.window, self.window.runs[2]
        image, phase, row, column = place
        at = T.Bind((((image * plan.phases + phase) * plan.input_rows + row) * plan.pitch + column) * DEPTH)
        y = (here.row + row) * w.strides[0] + phase // plan.column_phases - w.padding[0]
        x = column * w.strides[1] + phase % plan.column_phases - w.padding[1]

        def copy() -> None:
            index = [T.Bind(i) for i in plan.source(here.image + image, y, x)]
            whole, rest = divmod(w.channels, LANES)
            with _loop(whole // 2) as run:
                for half in range(2):
                    values = self.data[(*index, _lanes(run * DEPTH + half * LANES))]
                    _store_parts(parts, at + run * plan.plane + half * LANES, plan.part, spare, values)
            last = at + whole // 2 * plan.plane
            if whole % 2:
                _store_parts(parts, last, plan.part, spare, self.data[(*index, _lanes((whole - 1) * LANES))])
            if rest:
                T.buffer_store(spare, E.Broadcast(E.float32(0), LANES), [_lanes(0)])
                with _loop(rest) as lane:
                    T.buffer_store(spare, self.data[(*index, whole * LANES + lane)], [lane])
                _store_parts(parts, last + whole % 2 * LANES, plan.part, spare, spare[_lanes(0)])
            if -(-w.channels // LANES) % 2:
                _zero_parts(parts, at + (runs - 1) * plan.plane + LANES, 1, plan.part)

        inside = plan.is_inside(y, x)
        if inside is None:
            copy()
            return
        with T.If(inside):
            with T.Then():
                copy()
            with T.Else(), _loop(runs) as run:
                _zero_parts(parts, at + run * plan.plane, 2, plan.part)

    def _split_rows(self, plan: _Plan, here: _Chunk, parts: Any) -> None:
        """Split the data, each row of it as one run of columns and channels."""
        w, channels = self.window, self.window.channels
        left = w.padding[1] * channels
        count = _least(plan.columns_of_data * channels, plan.depth - left)
        with T.parallel(_int64(here.images * here.input_rows)) as line:
            image, row = T.Bind(line // here.input_rows), T.Bind(line % here.input_rows)
            begin = T.Bind((image * plan.input_rows + row) * plan.depth)
            y = T.Bind(here.row * w.strides[0] + row - w.padding[0])
            spare = _spare()
            _zero_parts(parts, begin, plan.depth // LANES, plan.part)

            def read(at: Any) -> Any:
                return self.data[(*plan.source(here.image + image, y, at // channels), at % channels)]

            with T.If(tirx.all(y >= 0, y < plan.rows_of_data)), T.Then(), _loop(_ceildiv(count, LANES)) as vector:
                with _loop(LANES) as lane:
                    at = vector * LANES + lane
                    T.buffer_store(spare, E.if_then_else(at < count, read(at), E.float32(0)), [lane])
                _store_parts(parts, begin + left + vector * LANES, plan.part, spare, spare[_lanes(0)])

    def _multiply(self, plan: _Plan, here: _Chunk, parts: Any, finish: Callable[[Row], None]) -> None:
        """Multiply the split data with the weight, and have each row finished."""
        tiles = _ceildiv(here.positions, _ROWS)
        total = here.groups * tiles
        tasks = _ceildiv(total, _BLOCKS_OF_TASK)
        with T.parallel(_int64(tasks * self.window.blocks)) as task:
            config = T.alloc_buffer((8,), "int64", scope="local", layout=None)
            sums = T.alloc_buffer((_ROWS * BLOCK,), "float32", scope="local", layout=None)
            _configure(config)
            block, first = T.Bind(task // tasks), T.Bind(task % tasks * _BLOCKS_OF_TASK)
            with _loop(_least(E.int64(_BLOCKS_OF_TASK), total - first)) as offset:
                group, begin = T.Bind((first + offset) // tiles), T.Bind((first + offset) % tiles * _ROWS)
                rows = T.Bind(_int64(_least(E.int64(_ROWS), here.positions - begin)))
                start = T.Bind(plan.start(here, group) + begin * plan.step)
                with T.If(rows > _TILE):
                    with T.Then():
                        self._tiles(plan, parts, start, block, sums)
                    with T.Else():
                        _emit_tiles(self._operands(plan, parts, start, block), self.window.runs, sums, 1, 2)
                self._finish(plan, here, (group, begin, rows, block), sums, finish)
            _evaluate("tilerelease")

    def _tiles(self, plan: _Plan, parts: Any, start: Any, block: Any, sums: Any) -> None:
        """Write the sums of two tiles of positions, by one tile of outputs where the last block has no more."""
        operands, runs = self._operands(plan, parts, start, block), self.window.runs
        last = 1 if 0 < self.window.units % BLOCK <= _TILE else 2
        if self.window.blocks == 1 or last == 2:
            _emit_tiles(operands, runs, sums, 2, last)
            return
        with T.If(block == self.window.blocks - 1):
            with T.Then():
                _emit_tiles(operands, runs, sums, 2, last)
            with T.Else():
                _emit_tiles(operands, runs, sums, 2, 2)

    def _operands(self, plan: _Plan, parts: Any, start: Any, block: Any) -> Operands:
        """Return the function that loads a tile of a step of the sum: of the data's parts or of the weight's."""

        def step_at(run: Any, row: Any, column: Any) -> Callable[[int, str, int, int], None]:
            rows, columns, _ = self.window.runs
            data = T.Bind(start + run * plan.plane + plan.offset(row, column))
            step = T.Bind((run * rows + row) * columns + column)

            def load(tile: int, operand: str, part: int, number: int) -> None:
                if operand == "data":
                    at = data + (part * plan.part + number * _TILE * plan.step)
                    _load(tile, parts[at], plan.step * 2)
                else:
                    _load(tile, self.weight[block, step, part, number, 0, 0, 0], 2 * DEPTH)

            return load

        return step_at

    def _finish(
        self, plan: _Plan, here: _Chunk, at: tuple[Any, Any, Any, Any], sums: Any, finish: Callable[[Row], None]
    ) -> None:
        group, begin, rows, block = at
        units = self.window.units
        with _loop(rows) as row:
            index, inside = plan.position(here, group, begin + row)

            def outputs(row: Any = row, index: list[Any] = index) -> None:
                for half in range(BLOCK // _TILE):
                    first = block * BLOCK + half * _TILE

                    def sum_of(lane: Any, half: int = half) -> Any:
                        return sums[row * BLOCK + half * _TILE + lane]

                    if units % BLOCK == 0:
                        finish(Row(index, first, _TILE, sum_of))
                        continue
                    with T.If(first + _TILE <= units), T.Then():
                        finish(Row(index, first, _TILE, sum_of))
                    if units % _TILE and units % BLOCK // _TILE == half:
                        with T.If(block == self.window.blocks - 1), T.Then():
                            finish(Row(index, first, units % _TILE, sum_of))

            if inside is None:
                outputs()
            else:
                with T.If(inside), T.Then():
                    outputs()


@dataclass(frozen=True)
class _Plan:
    """Where split data lies, and how much of it is there at once. Sizes count bfloat16 numbers.

    Strides make phases: the rows and columns of the data that differ by a multiple of the stride lie together, so that
    output positions always step by one.
    """

    window: TiledWeight
    outer: list[Any]  # the axes of positions, where a window is of one
    has_rows: bool  # the data has rows, not columns alone
    images: Any
    rows: Any  # of the result
    columns: Any
    rows_of_data: Any
    columns_of_data: Any
    phases: int
    column_phases: int
    pitch: Any  # positions from a row to the next
    depth: Any  # numbers of a row, where a tile takes rows
    rows_at_once: Any
    images_at_once: Any

    @classmethod
    def of(cls, product: TiledProduct) -> _Plan:
        w, shape, data = product.window, product.shape, list(product.data.shape)
        if w.is_pointwise:
            # All positions of all images are one column of rows.
            outer = [_known(d) for d in shape[:-1]]
            sizes = [1, _product(outer), 1, _product(outer), 1]
        else:
            outer = []
            two = [1] if len(shape) == 3 else []
            (rows, columns), (y, x) = [*two, *shape[1:-1]], [*two, *data[1:-1]]
            sizes = [_known(d) for d in (shape[0], rows, columns, y, x)]
        images, rows, columns, y, x = sizes
        reach = (w.kernel[0] - 1) * w.dilation[0], (w.kernel[1] - 1) * w.dilation[1]
        phases = [1 if k == 1 else s for k, s in zip(w.kernel, w.strides, strict=True)]
        if w.takes_rows:
            phases = [1, 1]
            pitch: Any = 1
            depth = (columns - 1) * (w.strides[1] * w.channels) + w.runs[2] * DEPTH
            depth = _ceildiv(depth, LANES) * LANES
            of_row, extra = w.strides[0] * depth, reach[0] + 1
        else:
            pitch = columns + reach[1] // w.strides[1]
            depth = -(-w.channels // DEPTH) * DEPTH
            of_row, extra = phases[0] * phases[1] * pitch * depth, reach[0] // w.strides[0]
        fit = _most(1, _cache_bytes(w) // 4 // _most(1, of_row) - extra)
        if w.is_pointwise and isinstance(fit, int):
            fit = max(_ROWS, fit // _ROWS * _ROWS)
        rows_at_once = _most(1, _least(rows, fit))
        many = _most(1, _least(images, fit // _most(1, rows)))
        return cls(
            w,
            outer,
            len(shape) == 4,
            images,
            rows,
            columns,
            y,
            x,
            phases[0] * phases[1],
            phases[1],
            pitch,
            depth,
            rows_at_once,
            many,
        )

    @property
    def input_rows(self) -> Any:
        """Rows of split data of an image in a chunk."""
        return self.rows_for(self.rows_at_once)

    def rows_for(self, rows: Any) -> Any:
        """Return how many rows of a phase so many output rows take."""
        w = self.window
        reach = (w.kernel[0] - 1) * w.dilation[0]
        if w.takes_rows:
            return (rows - 1) * w.strides[0] + reach + 1
        return rows + reach // w.strides[0]

    @property
    def part(self) -> Any:
        """How many numbers each part has."""
        if self.window.takes_rows:
            return self.images_at_once * self.input_rows * self.depth
        return self.window.runs[2] * self.plane

    @property
    def plane(self) -> Any:
        """How many numbers lie between two runs of inputs."""
        if self.window.takes_rows:
            return DEPTH
        positions = self.images_at_once * self.phases * self.input_rows * self.pitch
        # Runs that lie a multiple of the page size apart would share few lines of the first cache.
        return (_ceildiv(positions, _LINES) * _LINES + _SKEW) * DEPTH

    @property
    def slack(self) -> Any:
        """How many numbers tiles may read beyond the last."""
        return _ROWS * self.step + DEPTH

    @property
    def step(self) -> int:
        """How many numbers lie between two output positions."""
        return self.window.strides[1] * self.window.channels if self.window.takes_rows else DEPTH

    def source(self, image: Any, y: Any, x: Any) -> list[Any]:
        """Return where a position is in the data."""
        if self.window.is_pointwise:
            return _unravel(y, self.outer)
        return [image, y, x] if self.has_rows else [image, x]

    def is_inside(self, y: Any, x: Any) -> Any:
        """Return whether a position is in the data, None where all are."""
        if self.window.is_pointwise:
            return None
        return tirx.all(y >= 0, y < self.rows_of_data, x >= 0, x < self.columns_of_data)

    def offset(self, row: Any, column: Any) -> Any:
        """Return how far from an output position's place the element of the window is that it is multiplied with."""
        w = self.window
        if w.takes_rows:
            return row * w.dilation[0] * self.depth
        y, x = row * w.dilation[0], column * w.dilation[1]
        if self.phases == 1:
            return ((y // w.strides[0]) * self.pitch + x // w.strides[1]) * DEPTH
        phase = y % w.strides[0] * self.column_phases + x % w.strides[1] if w.kernel[0] > 1 else x % w.strides[1]
        return ((phase * self.input_rows + y // w.strides[0]) * self.pitch + x // w.strides[1]) * DEPTH

    def start(self, here: _Chunk, group: Any) -> Any:
        """Return where the first output position of a group is."""
        if self.window.takes_rows:
            image, row = group // here.rows, group % here.rows
            return (image * self.input_rows + row * self.window.strides[0]) * self.depth
        return group * (self.phases * self.input_rows * self.pitch * DEPTH)

    def position(self, here: _Chunk, group: Any, at: Any) -> tuple[list[Any], Any]:
        """Return the result's index for a position of a group, and whether it is one at all (None: always)."""
        if self.window.is_pointwise:
            return _unravel(here.row + at, self.outer), None
        if self.window.takes_rows:
            row = [here.row + group % here.rows] if self.has_rows else []
            return [here.image + group // here.rows, *row, at], None
        row, column = (at // self.pitch, at % self.pitch)
        inside = None if _is_same(self.pitch, self.columns) else column < self.columns
        return [here.image + group, *([here.row + row] if self.has_rows else []), column], inside


@dataclass(frozen=True)
class _Chunk:
    """The images and rows that are in the cache."""

    image: Any
    images: Any
    row: Any
    rows: Any
    input_rows: Any
    groups: Any
    positions: Any

    @classmethod
    def of(cls, plan: _Plan, group: Any, chunk: Any) -> _Chunk:
        image, row = T.Bind(group * plan.images_at_once), T.Bind(chunk * plan.rows_at_once)
        images = T.Bind(_int64(_least(plan.images_at_once, plan.images - image)))
        rows = T.Bind(_int64(_least(plan.rows_at_once, plan.rows - row)))
        if plan.window.takes_rows:
            groups, positions = images * rows, plan.columns
        else:
            groups, positions = images, (rows - 1) * plan.pitch + plan.columns
        return cls(image, images, row, rows, plan.rows_for(rows), groups, positions)


def _cache_bytes(weight: TiledWeight) -> int:
    """Return how much split data to have at once: as much as there is of the weight, so that both are read as often."""
    least, most = _CACHE_BYTES
    return min(most, max(least, weight.blocks * BLOCK * weight.steps * DEPTH * 4))


def _emit_tiles(operands: Operands, runs: tuple[int, int, int], sums: Any, high: int, wide: int) -> None:
    """Write the sums of `high` tiles of positions by `wide` tiles of outputs.

    Four tiles hold sums. Where there are only two, the products with low parts have sums of their own, so that no
    product waits long for the one before it.
    """
    rows, columns, count = runs
    for tile in range(4):
        _evaluate("tilezero", E.int8(tile))
    with _loop(count) as run, _loop(rows) as row, _loop(columns) as column:
        _emit_step(operands(run, row, column), high, wide)
    places = [(tile, tile // 2 * _TILE * BLOCK + tile % 2 * _TILE) for tile in range(4)]
    for tile, at in places:
        _evaluate("tilestored64", E.int8(tile), E.address_of(sums[at]), E.int64(BLOCK * 4))
    if high * wide == 4:
        return
    other = _TILE * BLOCK if wide == 2 else _TILE
    with _loop(high * _TILE) as row, T.vectorized(wide * _TILE) as lane:
        at = row * BLOCK + lane
        T.buffer_store(sums, sums[at] + sums[at + other], [at])


def _emit_step(load: Callable[[int, str, int, int], None], high: int, wide: int) -> None:
    """Write one step of the sums: low parts of the data by high ones of the weight, high by high, high by low."""
    has_four = high * wide == 4
    for data_part, weight_part in ((1, 0), (0, 0), (0, 1)):
        for n in range(wide):
            if (data_part, weight_part) != (0, 0):
                load(6 + n, "weight", weight_part, n)
        for m in range(high):
            if weight_part == 0:
                load(4 + m, "data", data_part, m)
            for n in range(wide):
                is_small = not has_four and (data_part, weight_part) != (0, 0)
                _dot(_sum_of(m, n, is_small, wide), 4 + m, 6 + n)


def _sum_of(m: int, n: int, is_small: bool, wide: int) -> int:
    """Return the tile that holds a sum: in rows of two, the small products' after those of the large ones."""
    return 2 * m + n + is_small * (1 if wide == 1 else 2)


def _configure(config: Any) -> None:
    """Give every tile 16 rows of 64 bytes."""
    words = (1, 0, 0x0040004000400040, 0x0040004000400040, 0, 0, 0x1010101010101010, 0)
    for at, word in enumerate(words):
        T.buffer_store(config, E.int64(word), [at])
    _evaluate("ldtilecfg", E.address_of(config[0]))


def _load(tile: int, element: Any, stride: int) -> None:
    _evaluate("tileloadd64", E.int8(tile), E.address_of(element), E.int64(stride))


def _dot(sums: int, data: int, weight: int) -> None:
    _evaluate("tdpbf16ps", E.int8(sums), E.int8(data), E.int8(weight))


def _evaluate(name: str, *args: Any) -> None:
    T.evaluate(E.call_llvm_intrin("void", f"llvm.x86.{name}", *args))


def _store_parts(parts: Any, at: Any, low: Any, spare: Any, values: Any) -> None:
    """Split a vector of float32 in its two parts; `spare`, a register, holds it meanwhile."""
    T.buffer_store(spare, values, [_lanes(0)])
    x = spare[_lanes(0)]
    high = _rounded(x)
    T.buffer_store(parts, high, [_lanes(at)])
    whole = E.reinterpret(f"float32x{LANES}", E.Cast(f"uint32x{LANES}", high) << E.Broadcast(E.uint32(16), LANES))
    # An infinity is its own high part, and nothing is left.
    rest = E.Select(whole == x, E.Broadcast(E.float32(0), LANES), x - whole)
    T.buffer_store(parts, _rounded(rest), [_lanes(low + at)])


def _spare() -> Any:
    return T.alloc_buffer((LANES,), "float32", scope="local", layout=None)


def _zero_parts(parts: Any, at: Any, count: Any, low: Any) -> None:
    """Write zeros to some vectors of both parts."""
    with _loop(count) as vector:
        for part in (0, low):
            T.buffer_store(parts, E.Broadcast(E.uint16(0), LANES), [_lanes(part + at + vector * LANES)])


def _rounded(x: Any) -> Any:
    """Return the bits of a vector of float32 rounded to bfloat16."""
    made = E.call_llvm_pure_intrin(f"bfloat16x{LANES}", "llvm.x86.avx512bf16.cvtneps2bf16.512", x)
    return E.reinterpret(f"uint16x{LANES}", made)


def _lanes(first: Any) -> Any:
    return E.Ramp(_int64(first), E.int64(1), LANES)


def _loop(count: Any) -> Any:
    return T.serial(_int64(count))


def _int64(value: Any) -> Any:
    return E.int64(value) if isinstance(value, int) else value


def _known(size: Any) -> Any:
    """Return a size as a number where it is one."""
    return int(size.value) if isinstance(size, tirx.IntImm) else size


def _simplified(value: Any) -> Any:
    return value if isinstance(value, int) else _known(Analyzer().simplify(value))


def _product(sizes: Sequence[Any]) -> Any:
    result: Any = 1
    for size in sizes:
        result = result * size
    return _simplified(result)


def _ceildiv(value: Any, by: Any) -> Any:
    return (value + (by - 1)) // by


def _least(a: Any, b: Any) -> Any:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else tirx.min(_int64(a), _int64(b))


def _most(a: Any, b: Any) -> Any:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else tirx.max(_int64(a), _int64(b))


def _is_same(a: Any, b: Any) -> bool:
    return a == b if isinstance(a, int) and isinstance(b, int) else a is b


def _unravel(at: Any, sizes: Sequence[Any]) -> list[Any]:
    """Return the index in axes of some sizes of an element counted in the order of memory."""
    index: list[Any] = []
    for size in reversed(sizes[1:]):
        index.append(at % size)
        at = at // size
    return [at, *reversed(index)]
