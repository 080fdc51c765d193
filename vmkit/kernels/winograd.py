"""Winograd's convolution on a CPU: tiles are transformed, multiplied and put together while they are in the cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from .packed_gemm_plan import LINE
from .storage import fetch_ahead, held, integer, register
from .winograd_points import transform_data, transform_result

__all__ = ["WinogradPlan", "WinogradShape", "winograd"]


@dataclass(frozen=True)
class WinogradShape:
    """What a kernel of :func:`winograd` computes.

    Attributes
    ----------
    kernel : tuple of int
        Height and width of the kernel; an axis of 1 has no tiles.
    tile : tuple of int
        How many results on each axis come from one tile. With the kernel less one it makes the `reach`, for which
        :mod:`.winograd_points` must have points.
    batch, height, width : int or None
        Sizes of the data; None where they are known at run time.
    inner, outer : int
        Channels of the data and of the result: multiples of `lanes` and of `block`.
    padding : tuple of int
        Zeros above, left, below and right of the image.
    block : int
        Output channels in a block of the weight: one or two vectors.
    lanes : int
        How many float32 a vector has.
    has_bias, has_residual : bool
        Whether a vector (outer,) and a tensor like the result are added, in this order.
    low, high : float or None
        What results are raised and lowered to at the end.
    """

    kernel: tuple[int, int]
    tile: tuple[int, int]
    batch: int | None
    height: int | None
    width: int | None
    inner: int
    outer: int
    padding: tuple[int, int, int, int]
    block: int
    lanes: int
    has_bias: bool = False
    has_residual: bool = False
    low: float | None = None
    high: float | None = None

    @property
    def reach(self) -> tuple[int, int]:
        """How many elements on each axis a tile depends on."""
        return self.tile[0] + self.kernel[0] - 1, self.tile[1] + self.kernel[1] - 1

    @property
    def points(self) -> int:
        """How many products of matrices there are."""
        return self.reach[0] * self.reach[1]

    @property
    def tiles(self) -> int | None:
        """How many tiles there are, None where that is known at run time."""
        if self.batch is None or self.height is None or self.width is None:
            return None
        down, across = self.made(self.height, self.width)
        return self.batch * -(-down // self.tile[0]) * -(-across // self.tile[1])

    def made(self, height: Any, width: Any) -> tuple[Any, Any]:
        """Return height and width of the result for those of the data."""
        top, left, bottom, right = self.padding
        return height + (top + bottom + 1 - self.kernel[0]), width + (left + right + 1 - self.kernel[1])


@dataclass(frozen=True)
class WinogradPlan:
    """How :func:`winograd` goes about it.

    Attributes
    ----------
    rows : int
        Tiles whose products are in registers at once.
    count : int
        Tiles that go through all steps together; a multiple of `rows`.
    unrolled : int
        Steps of the products that are unrolled; a divisor of the lanes.
    is_parallel_over_tiles : bool
        Whether cores share groups of tiles; otherwise the steps of each group.
    """

    rows: int
    count: int
    unrolled: int = 2
    is_parallel_over_tiles: bool = True


def winograd(shape: WinogradShape, plan: WinogradPlan) -> tirx.PrimFunc:
    """Return the kernel of a convolution at every position.

    Data is (batch, height, width, inner), the transformed weight (outer / block, points, inner, block); then come bias
    (outer,) and residual where there are any, and the result (batch, height, width, outer). All are float32.
    """
    return _Writer(shape, plan).function()


class _Writer:
    """Writes the kernel down."""

    def __init__(self, shape: WinogradShape, plan: WinogradPlan) -> None:
        self.shape, self.plan = shape, plan
        # Distances between products that are no power of two do not all fall on the same lines of the cache.
        self.data_pitch = plan.count * shape.inner + shape.lanes
        self.product_pitch = plan.count * shape.block + shape.lanes

    def function(self) -> tirx.PrimFunc:
        s = self.shape
        with IRBuilder() as ib, T.prim_func(private=True):
            # One function whose buffers may overlap makes LLVM take those of the whole module for such.
            T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
            names = ["data", "weight", *["bias"] * s.has_bias, *["residual"] * s.has_residual, "out"]
            handles = {name: T.arg(name, T.handle()) for name in names}
            have = [
                integer(size) if size is not None else tirx.Var(name, "int64")
                for name, size in (("batch", s.batch), ("height", s.height), ("width", s.width))
            ]
            made = [have[0], *s.made(have[1], have[2])]
            self.height, self.width, self.made = have[1], have[2], made
            shapes = {
                "data": [*have, s.inner],
                "weight": [s.outer // s.block, s.points, s.inner, s.block],
                "bias": [s.outer],
            }
            self.buffers = {
                name: T.match_buffer(handle, shapes.get(name, [*made, s.outer]), "float32", layout=None)
                for name, handle in handles.items()
            }
            self._body()
        return ib.get()

    def _body(self) -> None:
        s, p = self.shape, self.plan
        self.down, self.across = (
            tirx.floordiv(size + (tile - 1), tile) for size, tile in zip(self.made[1:], s.tile, strict=True)
        )
        tiles = self.made[0] * self.down * self.across
        groups = tirx.floordiv(tiles + (p.count - 1), p.count)
        with (T.parallel if p.is_parallel_over_tiles else T.serial)(integer(0), groups) as group:
            data = _scratch(s.points * self.data_pitch)
            first = group * p.count
            count = _known(s.tiles, p.count) or T.Bind(tirx.Min(integer(p.count), tiles - first))
            shared = T.serial if p.is_parallel_over_tiles else T.parallel
            with shared(integer(0), count) as tile:
                self._transform_data(data, first + tile, tile)
            parts = tirx.floordiv(count + (p.rows - 1), p.rows)
            self._clear(data, count, parts * p.rows)
            with shared(integer(0), integer(s.outer // s.block)) as block:
                products = _scratch(s.points * self.product_pitch)
                with T.serial(integer(0), integer(s.points)) as point, T.serial(integer(0), parts) as part:
                    self._multiply(data, products, block, point, part)
                with T.serial(integer(0), count) as tile:
                    self._transform_products(products, first + tile, tile, block)

    def _place(self, tile: Any) -> tuple[Any, Any, Any]:
        """Return the image of a tile, and where it begins in the result."""
        row = tirx.floordiv(tile, self.across)
        image = held(tirx.floordiv(row, self.down))
        down, across = self.shape.tile
        top = held(tirx.floormod(row, self.down) * down)
        return image, top, held(tirx.floormod(tile, self.across) * across)

    def _transform_data(self, data: Any, tile: Any, at: Any) -> None:
        s = self.shape
        image, top, left = self._place(tile)
        down = [self._inside(top + (i - s.padding[0]), self.height) for i in range(s.reach[0])]
        across = [self._inside(left + (i - s.padding[1]), self.width) for i in range(s.reach[1])]
        source = self.buffers["data"]
        with T.serial(integer(0), integer(s.inner // s.lanes)) as part:
            channel, begin = self._ramp(held(part * s.lanes)), held((part * self.plan.count + at) * s.lanes)
            columns = []
            for x, is_column in across:
                elements = []
                for y, is_row in down:
                    value = source[image, y, x, channel]
                    elements.append(self._keep(self._masked(value, is_row & is_column)))
                columns.append([self._keep(v) for v in self._data(elements)])
            for i in range(s.reach[0]):
                for j, value in enumerate(self._data([column[i] for column in columns])):
                    where = begin + (i * s.reach[1] + j) * self.data_pitch
                    T.buffer_store(data, value, [self._ramp(where)])

    def _clear(self, data: Any, first: Any, end: Any) -> None:
        """Write zeros for tiles that fill up the last part.

        What memory holds by chance may be numbers so small that processors take a hundred times as long over them.
        """
        s = self.shape
        points, parts = T.serial(integer(0), integer(s.points)), T.serial(integer(0), integer(s.inner // s.lanes))
        with T.serial(first, end) as at, points as point, parts as part:
            where = (part * self.plan.count + at) * s.lanes + point * self.data_pitch
            T.buffer_store(data, self._number(0.0), [self._ramp(where)])

    def _inside(self, place: Any, size: Any) -> tuple[Any, Any]:
        """Return the nearest place on an axis, and all bits of an integer where it is the place itself, else none."""
        is_inside = tirx.all(place >= 0, place < size)
        mask = tirx.Select(is_inside, tirx.IntImm("int32", -1), tirx.IntImm("int32", 0))
        return held(tirx.Max(integer(0), tirx.Min(place, size - 1))), held(mask)

    def _masked(self, value: Any, mask: Any) -> Any:
        lanes = self.shape.lanes
        bits = tirx.reinterpret(f"int32x{lanes}", value) & tirx.Broadcast(mask, lanes)
        return tirx.reinterpret(f"float32x{lanes}", bits)

    def _multiply(self, data: Any, products: Any, block: Any, point: Any, part: Any) -> None:
        s, p = self.shape, self.plan
        vectors = s.block // s.lanes
        total = [[register(s.lanes) for _ in range(vectors)] for _ in range(p.rows)]
        for row in total:
            for each in row:
                T.buffer_store(each, self._number(0.0), [integer(0)])
        weight = self.buffers["weight"]
        base = held(point * self.data_pitch + part * (p.rows * s.lanes))
        # Memory is slower than one part, so all of them share in fetching what the next product takes.
        lines, rounds = -(-s.inner * s.block // LINE), s.inner // p.unrolled
        fetched = -(-lines // (rounds * self._parts()))
        steps = T.serial(integer(0), integer(s.lanes // p.unrolled))
        with T.serial(integer(0), integer(s.inner // s.lanes)) as outer, steps as middle:
            at = (part * rounds + outer * (s.lanes // p.unrolled) + middle) * fetched
            for line in range(fetched):
                element = tirx.Min(at + line, integer(lines - 1)) * LINE
                fetch_ahead(weight[block, point + 1, tirx.floordiv(element, s.block), tirx.floormod(element, s.block)])
            for step in range(p.unrolled):
                c = middle * p.unrolled + step
                begin = held(base + outer * (p.count * s.lanes) + c)
                columns = [
                    self._keep(weight[block, point, outer * s.lanes + c, self._ramp(v * s.lanes)])
                    for v in range(vectors)
                ]
                for r in range(p.rows):
                    x = data[begin + r * s.lanes]
                    x = self._keep(tirx.Broadcast(x, s.lanes))
                    for v in range(vectors):
                        T.buffer_store(total[r][v], total[r][v][0] + x * columns[v], [integer(0)])
        begin = held(point * self.product_pitch + part * (p.rows * s.block))
        for r in range(p.rows):
            for v in range(vectors):
                where = begin + (r * s.block + v * s.lanes)
                T.buffer_store(products, total[r][v][0], [self._ramp(where)])

    def _parts(self) -> int:
        """Return how many parts a group of tiles usually has."""
        tiles, p = self.shape.tiles, self.plan
        return -(-(p.count if tiles is None else min(p.count, tiles)) // p.rows)

    def _transform_products(self, products: Any, tile: Any, at: Any, block: Any) -> None:
        s = self.shape
        image, top, left = self._place(tile)
        with T.serial(integer(0), integer(s.block // s.lanes)) as part:
            begin = held(at * s.block + part * s.lanes)
            columns = []
            for j in range(s.reach[1]):
                places = [begin + (i * s.reach[1] + j) * self.product_pitch for i in range(s.reach[0])]
                elements = [self._keep(products[self._ramp(place)]) for place in places]
                columns.append([self._keep(v) for v in self._result(s.tile[0], elements)])
            rows = [self._result(s.tile[1], [column[i] for column in columns]) for i in range(s.tile[0])]
            results = [[self._keep(v) for v in row] for row in rows]
            channel = self._ramp(held(block * s.block + part * s.lanes))
            bias = self._keep(self.buffers["bias"][channel]) if s.has_bias else None
            for i in range(s.tile[0]):
                self._if_inside(
                    top + i,
                    0,
                    i,
                    lambda i=i: self._store_row(results[i], bias, image, top + i, left, channel),
                )

    def _store_row(self, row: list[Any], bias: Any, image: Any, y: Any, left: Any, channel: Any) -> None:
        for j, value in enumerate(row):
            self._if_inside(
                left + j,
                1,
                j,
                lambda j=j, value=value: self._store(value, bias, [image, y, left + j, channel]),
            )

    def _if_inside(self, place: Any, axis: int, offset: int, write: Any) -> None:
        """Write statements that are run where a place that is `offset` from the begin of a tile is in the result."""
        size = self.made[axis + 1]
        if offset == 0 or (isinstance(size, tirx.IntImm) and int(size.value) % self.shape.tile[axis] == 0):
            write()
            return
        with T.If(place < size), T.Then():
            write()

    def _store(self, value: Any, bias: Any, at: list[Any]) -> None:
        s = self.shape
        if bias is not None:
            value = value + bias
        if s.has_residual:
            value = value + self.buffers["residual"][tuple(at)]
        if s.low is not None:
            value = tirx.Max(value, self._number(s.low))
        if s.high is not None:
            value = tirx.Min(value, self._number(s.high))
        T.buffer_store(self.buffers["out"], value, at)

    def _data(self, elements: list[Any]) -> list[Any]:
        return transform_data(elements, self._number, self._keep)

    def _result(self, tile: int, elements: list[Any]) -> list[Any]:
        return transform_result(tile, elements, self._number, self._keep)

    def _ramp(self, begin: Any) -> Any:
        return tirx.Ramp(begin if not isinstance(begin, int) else integer(begin), integer(1), self.shape.lanes)

    def _number(self, value: float) -> Any:
        return tirx.Broadcast(tirx.FloatImm("float32", value), self.shape.lanes)

    def _keep(self, value: Any) -> Any:
        return T.Bind(value)


def _scratch(size: int) -> Any:
    return T.alloc_buffer((integer(size),), "float32", layout=None)


def _known(tiles: int | None, count: int) -> Any:
    """Return the number of tiles of every group where they are all whole."""
    return integer(count) if tiles is not None and tiles % count == 0 else None
