"""Winograd's convolution on a CPU: tiles are transformed, multiplied and put together while they are in the cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tvm import tirx

from .activation import finished
from .builder import (
    Size,
    T,
    add_to,
    as_expr,
    broadcast,
    fetch_ahead,
    in_parallel,
    in_register,
    integer,
    kernel,
    loop,
    memory,
    ramp,
    register,
    reinterpreted,
    splat,
    when,
)
from .packed_gemm_plan import LINE
from .winograd_points import transform_data, transform_result
from .winograd_shape import WinogradPlan, WinogradShape
from .winograd_sums import are_few, write_sums

__all__ = ["shared_winograd", "winograd"]


def winograd(shape: WinogradShape, plan: WinogradPlan) -> tirx.PrimFunc:
    """Return the kernel of a convolution at every position.

    Data is (batch, height, width, inner), the transformed weight (outer / block, points, inner, block); then come the
    weight as it is, (outer / block, elements of the kernel, inner, block), for a plan that asks for it, bias (outer,)
    and residual where there are any, and the result (batch, height, width, outer). All are float32.
    """
    return _Writer(shape, plan).function()


def shared_winograd(shape: WinogradShape, plan: WinogradPlan) -> tirx.PrimFunc:
    """Return the kernel of :func:`winograd` that shapes which differ in channels, or in all sizes, have in common.

    It is given these with the shapes of its buffers.

    Parameters
    ----------
    shape : WinogradShape
        Without channels, or without sizes.
    plan : WinogradPlan
    """
    return winograd(shape.with_variables(), plan)


class _Writer:
    """Writes the kernel down."""

    def __init__(self, shape: WinogradShape, plan: WinogradPlan) -> None:
        self.shape, self.plan = shape, plan
        # Distances between products that are no power of two do not all fall on the same lines of the cache.
        self.data_pitch = plan.count * shape.inner + shape.lanes
        self.product_pitch = plan.count * shape.block + shape.lanes

    def function(self) -> tirx.PrimFunc:
        s = self.shape
        with kernel() as builder:
            plain = ["plain"] * (self.plan.few is not None)
            names = ["data", "weight", *plain, *["bias"] * s.has_bias, *["residual"] * s.has_residual, "out"]
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
                "plain": [s.outer // s.block, s.kernel[0] * s.kernel[1], s.inner, s.block],
                "bias": [s.outer],
            }
            self.buffers = {
                name: T.match_buffer(handle, shapes.get(name, [*made, s.outer]), "float32", layout=None)
                for name, handle in handles.items()
            }
            self._choice(have)
        return builder.get()

    def _choice(self, have: list[tirx.Expr]) -> None:
        """Write the convolution by tiles; and the sum itself before that, where the run may find it to be faster."""
        s, p = self.shape, self.plan
        self.down, self.across = (
            tirx.floordiv(size + (tile - 1), tile) for size, tile in zip(self.made[1:], s.tile, strict=True)
        )
        tiles = self.made[0] * self.down * self.across
        if p.few is None:
            self._tiles(tiles)
            return
        results = as_expr(self.made[0] * self.made[1] * self.made[2])
        with T.If(are_few(s, p.few, p.rows, tiles, results)):
            with T.Then():
                write_sums(s, p.few, self.buffers, have)
            with T.Else():
                self._tiles(tiles)

    def _tiles(self, tiles: tirx.Expr) -> None:
        s, p = self.shape, self.plan
        groups = tirx.floordiv(tiles + (p.count - 1), p.count)
        with (in_parallel if p.is_parallel_over_tiles else loop)(groups) as group:
            data = memory(as_expr(s.points * self.data_pitch))
            first = group * p.count
            is_whole = s.tiles is not None and s.tiles % p.count == 0
            count = integer(p.count) if is_whole else T.Bind(tirx.Min(integer(p.count), tiles - first))
            shared = loop if p.is_parallel_over_tiles else in_parallel
            with shared(count) as tile:
                self._transform_data(data, first + tile, tile)
            parts = tirx.floordiv(count + (p.rows - 1), p.rows)
            self._clear(data, count, parts * p.rows)
            with shared(s.outer // s.block) as block:
                products = memory(integer(s.points * self.product_pitch))
                with loop(s.points) as point, loop(parts) as part:
                    self._multiply(data, products, block, point, part)
                with loop(count) as tile:
                    self._transform_products(products, first + tile, tile, block)

    def _place(self, tile: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr, tirx.Expr]:
        """Return the image of a tile, and where it begins in the result."""
        row = tirx.floordiv(tile, self.across)
        image = in_register(tirx.floordiv(row, self.down))
        down, across = self.shape.tile
        top = in_register(tirx.floormod(row, self.down) * down)
        return image, top, in_register(tirx.floormod(tile, self.across) * across)

    def _transform_data(self, data: tirx.Buffer, tile: tirx.Expr, at: tirx.Expr) -> None:
        s = self.shape
        image, top, left = self._place(tile)
        down = [self._inside(top + (i - s.padding[0]), self.height) for i in range(s.reach[0])]
        across = [self._inside(left + (i - s.padding[1]), self.width) for i in range(s.reach[1])]
        source = self.buffers["data"]
        with loop(s.inner // s.lanes) as part:
            channel, begin = (
                self._ramp(in_register(part * s.lanes)),
                in_register((part * self.plan.count + at) * s.lanes),
            )
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

    def _clear(self, data: tirx.Buffer, first: tirx.Expr, end: tirx.Expr) -> None:
        """Write zeros for tiles that fill up the last part.

        What memory holds by chance may be numbers so small that processors take a hundred times as long over them.
        """
        s = self.shape
        points, parts = loop(s.points), loop(s.inner // s.lanes)
        with T.serial(first, end) as at, points as point, parts as part:
            where = (part * self.plan.count + at) * s.lanes + point * self.data_pitch
            T.buffer_store(data, self._number(0.0), [self._ramp(where)])

    def _inside(self, place: tirx.Expr, size: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr]:
        """Return the nearest place on an axis, and all bits of an integer where it is the place itself, else none."""
        is_inside = tirx.all(place >= 0, place < size)
        mask = tirx.Select(is_inside, tirx.IntImm("int32", -1), tirx.IntImm("int32", 0))
        return in_register(tirx.Max(integer(0), tirx.Min(place, size - 1))), in_register(mask)

    def _masked(self, value: tirx.Expr, mask: tirx.Expr) -> tirx.Expr:
        lanes = self.shape.lanes
        bits = reinterpreted(f"int32x{lanes}", value) & broadcast(mask, lanes)
        return reinterpreted(f"float32x{lanes}", bits)

    def _multiply(
        self, data: tirx.Buffer, products: tirx.Buffer, block: tirx.Expr, point: tirx.Expr, part: tirx.Expr
    ) -> None:
        s, p = self.shape, self.plan
        vectors = s.block // s.lanes
        total = [[register(s.lanes) for _ in range(vectors)] for _ in range(p.rows)]
        for row in total:
            for each in row:
                T.buffer_store(each, self._number(0.0), [integer(0)])
        weight = self.buffers["weight"]
        base = in_register(point * self.data_pitch + part * (p.rows * s.lanes))
        # Memory is slower than one part, so all of them share in fetching what the next product takes.
        lines, rounds = (s.inner * s.block + (LINE - 1)) // LINE, s.inner // p.unrolled
        fetched = -(-p.unrolled * s.block // (LINE * self._parts()))  # by each of so many rounds of all parts
        steps = loop(s.lanes // p.unrolled)
        with loop(s.inner // s.lanes) as outer, steps as middle:
            at = (part * rounds + outer * (s.lanes // p.unrolled) + middle) * fetched
            for line in range(fetched):
                element = tirx.Min(at + line, as_expr(lines - 1)) * LINE
                fetch_ahead(weight[block, point + 1, tirx.floordiv(element, s.block), tirx.floormod(element, s.block)])
            for step in range(p.unrolled):
                c = middle * p.unrolled + step
                begin = in_register(base + outer * (p.count * s.lanes) + c)
                columns = [
                    self._keep(weight[block, point, outer * s.lanes + c, self._ramp(v * s.lanes)])
                    for v in range(vectors)
                ]
                for r in range(p.rows):
                    x = data[begin + r * s.lanes]
                    x = self._keep(broadcast(x, s.lanes))
                    for v in range(vectors):
                        add_to(total[r][v], x * columns[v])
        begin = in_register(point * self.product_pitch + part * (p.rows * s.block))
        for r in range(p.rows):
            for v in range(vectors):
                where = begin + (r * s.block + v * s.lanes)
                T.buffer_store(products, total[r][v][0], [self._ramp(where)])

    def _parts(self) -> int:
        """Return how many parts a group of tiles usually has."""
        tiles, p = self.shape.tiles, self.plan
        return -(-(p.count if tiles is None else min(p.count, tiles)) // p.rows)

    def _transform_products(self, products: tirx.Buffer, tile: tirx.Expr, at: tirx.Expr, block: tirx.Expr) -> None:
        s = self.shape
        image, top, left = self._place(tile)
        with loop(s.block // s.lanes) as part:
            begin = in_register(at * s.block + part * s.lanes)
            columns = []
            for j in range(s.reach[1]):
                places = [begin + (i * s.reach[1] + j) * self.product_pitch for i in range(s.reach[0])]
                elements = [self._keep(products[self._ramp(place)]) for place in places]
                columns.append([self._keep(v) for v in self._result(s.tile[0], elements)])
            rows = [self._result(s.tile[1], [column[i] for column in columns]) for i in range(s.tile[0])]
            results = [[self._keep(v) for v in row] for row in rows]
            channel = ramp(in_register(block * s.block + part * s.lanes), s.lanes)
            bias = self._keep(self.buffers["bias"][channel]) if s.has_bias else None
            for i in range(s.tile[0]):
                self._if_inside(
                    top + i,
                    0,
                    i,
                    partial(self._store_row, results[i], bias, image, top + i, left, channel),
                )

    def _store_row(
        self,
        row: list[tirx.Expr],
        bias: tirx.Expr | None,
        image: tirx.Expr,
        y: tirx.Expr,
        left: tirx.Expr,
        channel: tirx.Expr,
    ) -> None:
        for j, value in enumerate(row):
            self._if_inside(
                left + j,
                1,
                j,
                partial(self._store, value, bias, [image, y, left + j, channel]),
            )

    def _if_inside(self, place: tirx.Expr, axis: int, offset: int, write: Callable[[], None]) -> None:
        """Write statements that are run where a place that is `offset` from the begin of a tile is in the result."""
        size = self.made[axis + 1]
        if offset == 0 or (isinstance(size, tirx.IntImm) and int(size.value) % self.shape.tile[axis] == 0):
            write()
            return
        with when(place < size):
            write()

    def _store(self, value: tirx.Expr, bias: tirx.Expr | None, at: list[tirx.Expr]) -> None:
        s = self.shape
        if bias is not None:
            value = value + bias
        if s.has_residual:
            value = value + self.buffers["residual"][tuple(at)]
        value = finished(value, s.low, s.high, s.activation, s.lanes)
        T.buffer_store(self.buffers["out"], value, at)

    def _data(self, elements: list[tirx.Expr]) -> list[tirx.Expr]:
        return transform_data(elements, self._number, self._keep)

    def _result(self, tile: int, elements: list[tirx.Expr]) -> list[tirx.Expr]:
        return transform_result(tile, elements, self._number, self._keep)

    def _ramp(self, begin: Size) -> Size:
        return ramp(begin, self.shape.lanes)

    def _number(self, value: float) -> tirx.Expr:
        return splat(value, self.shape.lanes)

    def _keep(self, value: tirx.Expr) -> tirx.Expr:
        return T.Bind(value)
