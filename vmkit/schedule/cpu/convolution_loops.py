"""The loops of convolutions over data with channels first, as an implicit GEMM, and of the stages that follow it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from math import log2
from operator import mul

from tvm import s_tir, tirx
from tvm.sym import Analyzer

from ..._dataclasses import dataclass
from ..._tvm.nodes import TensorLoad
from ...kernels.builder import Size, T, in_parallel, in_register, integer, local, loop, ramp
from ...kernels.builder import kernel as written
from ...kernels.lanes import spaced
from ...kernels.product import Product, Tile, emit_product, place_of
from ...target.vectors import VectorUnit
from ..expressions import known, replaced
from .convolution_kernel import ConvolutionKernel, is_in_order, near_stage
from .shared_lines import LineWindows, emit_lines, line_windows_of
from .stages import value_of

__all__ = ["ConvolutionLoops", "Decisions", "columns_of", "lanes_of"]

_LEAST = 4  # columns that are worth vectors

Place = Sequence[Size]


@dataclass(frozen=True)
class Decisions:
    """How a convolution is computed.

    Attributes
    ----------
    rows, vectors : int
        How many channels of how many vectors of positions are in registers.
    packed : bool
        Whether what windows see is copied into panels.
    gathered : bool
        Whether vectors go along all positions, element by element, else along lines.
    parallel : bool
        Whether tiles are shared among cores.
    lines : int
        How many lines of one channel a tile has that share what they read; 1 where they are computed as all others.
    """

    rows: int
    vectors: int
    packed: bool
    gathered: bool
    parallel: bool
    lines: int = 1


class ConvolutionLoops:
    """The loops of a convolution and of the stages that follow it."""

    def __init__(
        self,
        kernel: ConvolutionKernel,
        stage: s_tir.SBlock | None,
        stages: Sequence[s_tir.SBlock],
        decisions: Decisions,
        unit: VectorUnit,
    ) -> None:
        self.kernel, self.stages, self.decisions, self.unit = kernel, stages, decisions, unit
        self.made = [kernel.node.writes[0].source, *(stage.body.buffer for stage in stages)]
        self.lanes = lanes_of(kernel, decisions.gathered, unit)
        # Along lines of known length, tiles have vectors of several lines.
        self.is_of_all = kernel.is_flat or decisions.gathered or kernel.line is not None
        self.is_by_line = self.is_of_all and not (kernel.is_flat or decisions.gathered)
        self.near = near_stage(kernel, stage) if stage is not None else None
        self.base: Place = []
        self.source: tirx.Buffer | None = None
        self.is_plain = (kernel.is_flat or decisions.gathered) and all(is_in_order(s, kernel) for s in stages)

    def written(self) -> tirx.Stmt:
        """Return the loops."""
        kernel, d, lanes = self.kernel, self.decisions, self.lanes
        outer = [*kernel.sizes[: kernel.row]]
        if kernel.of_group is not None:
            outer.append(_divided(kernel.sizes[kernel.row], kernel.of_group))
        windows = line_windows_of(kernel) if d.lines > 1 else None
        if windows is not None:
            return self.of_lines(windows, outer)
        lines = [] if self.is_of_all else kernel.positions[:-1]
        product = Product(
            outer=lines if self.near is not None else [*outer, *lines],
            rows=kernel.rows,
            columns=columns_of(kernel, d.gathered, self.unit),
            inner=reduce(mul, kernel.sizes[kernel.found.spatial :]),
            left=self.left,
            right=self.right,
            is_left_along=False,
            is_transposed=False,
            finish=self.finish,
            window=kernel.window,
            spot=self.position if d.gathered or self.is_by_line else None,
            is_gathered=d.gathered,
        )
        unrolled = next(u for u in (4, 2, 1) if (known(product.inner) or 1) % u == 0)
        is_shared = d.parallel and self.near is None
        whole = Tile(d.rows, d.vectors, lanes, unrolled, 1 << 20, d.packed, False, is_shared)
        tiles = [whole]
        if known(kernel.rows) is None and d.rows > 1:
            tiles.append(replace(whole, rows=1))
        if known(product.columns) is None and not self.is_by_line:
            tiles += [replace(tiles[-1], lanes=narrow, vectors=1) for narrow in (_LEAST, 1) if narrow < lanes]
        with written() as builder:
            if self.near is None:
                emit_product(product, tiles)
            else:
                with (in_parallel if d.parallel else loop)(reduce(mul, outer)) as work:
                    self.base = place_of(work, outer)
                    self.source = self.near.copied(self.base, kernel, self.unit.lanes)
                    emit_product(product, tiles)
        return builder.get().body

    def of_lines(self, windows: LineWindows, outer: Sequence[tirx.Expr]) -> tirx.Stmt:
        """Return the loops of a depthwise convolution in tiles of lines."""
        d, zero = self.decisions, integer(0)
        width = -(-windows.line // self.lanes) * self.lanes

        def read(line: Size, column: Size, across: int, along: Size) -> tirx.Expr:
            axes = [*self.before([]), self.channel([], zero), line, column, zero, integer(across), along]
            return self.vector(self.seen(axes))

        with written() as builder, (in_parallel if d.parallel else loop)(reduce(mul, outer)) as work:
            self.base = place_of(work, outer)
            if self.near is not None:
                self.source = self.near.copied(self.base, self.kernel, self.unit.lanes)
            emit_lines(
                windows,
                (d.lines, d.vectors),
                self.lanes,
                read,
                lambda k: self.left([], zero, integer(0) + k),
                lambda line, column, sums: self.finish([], zero, line * width + column, self.lanes, sums),
            )
        return builder.get().body

    def before(self, place: Place) -> Place:
        """Return the axes of the result before the channels."""
        return [*self.base, *place][: self.kernel.row]

    def channel(self, place: Place, row: Size) -> Size:
        """Return a channel of the result."""
        kernel = self.kernel
        return row if kernel.of_group is None else [*self.base, *place][kernel.row] * kernel.of_group + row

    def axes(self, place: Place, row: Size, column: Size, lane: Size | None = None) -> list[Size]:
        """Return the axes of the result at a column, or a lane of the vector that begins there."""
        kernel = self.kernel
        axes: list[Size] = [*self.before(place), self.channel(place, row)]
        if not self.is_of_all:
            axes += [*place[len(place) - len(kernel.positions) + 1 :], column]
        elif self.is_plain:
            axes += [*[integer(0)] * (len(kernel.positions) - 1), column]
        elif self.is_by_line or lane is None:
            axes += self.position(column)
        else:
            return [*axes, *map(in_register, self.position(column + lane))]
        return axes if lane is None else [*axes[:-1], axes[-1] + lane]

    def position(self, column: Size) -> list[Size]:
        """Return where a column is that is counted over all positions."""
        sizes, found, line = self.kernel.positions, list[Size](), self.kernel.line
        if self.is_by_line and line is not None:
            width = -(-line // self.lanes) * self.lanes
            column, along = tirx.floordiv(column, width), tirx.floormod(column, width)
            found, sizes = [along if width == line else tirx.Min(along, integer(line - self.lanes))], sizes[:-1]
        for size in reversed(sizes[1:]):
            column, rest = tirx.floordiv(column, size), tirx.floormod(column, size)
            found.insert(0, rest)
        return [column, *found] if sizes else found

    def left(self, place: Place, row: Size, k: tirx.Expr) -> tirx.Expr:
        weight = self.kernel.weight
        return weight.source[tuple([self.channel(place, row), *[integer(0)] * (len(weight.indices) - 2), k])]

    def right(self, place: Place, k: tirx.Expr, column: Size | Sequence[Size], step: int = 0) -> tirx.Expr:
        kernel = self.kernel
        sums = kernel.sizes[kernel.found.spatial :]
        steps, count = list[Size](), 1
        for size in reversed(sums[1:]):
            # The last axes are written out, the others are counted with the channels.
            if count < kernel.window:
                steps.insert(0, integer(step // count % int(size)))
                count *= int(size)
            else:
                steps.insert(0, tirx.floormod(k, size))
                k = tirx.floordiv(k, size)
        axes: list[Size] = [*self.before(place), self.channel(place, integer(0))]
        if self.decisions.gathered and isinstance(column, Sequence):
            return self.seen([*axes, *column, k, *steps])
        if not self.is_of_all:
            axes += place[len(place) - len(kernel.positions) + 1 :]
        elif kernel.is_flat:
            axes += [integer(0)] * (len(kernel.positions) - 1)
        if isinstance(column, Sequence):
            lanes, spot = self.lanes, column
        else:
            lanes, spot = (int(column.lanes), [column.base]) if isinstance(column, tirx.Ramp) else (1, [column])
        return self.vector(self.seen([*axes, *spot, k, *steps]), lanes)

    def vector(self, first: TensorLoad, lanes: int | None = None) -> tirx.Expr:
        """Return what windows next to each other along a line see, from an element on."""
        *indices, last = first.indices
        spacing, lanes = self.kernel.spacing, self.lanes if lanes is None else lanes
        if spacing == 1 or lanes == 1:
            return first.source[tuple([*indices, ramp(last, lanes)])]
        return spaced(lambda shift: first.source[tuple([*indices, ramp(last + shift, lanes)])], spacing, lanes)

    def seen(self, values: Sequence[Size]) -> TensorLoad:
        """Return the element of the data for values of all axes."""
        data, node = self.kernel.data, self.kernel.node
        at = dict(zip([v.var for v in node.iter_vars], values, strict=True))
        indices = [replaced(index, at) for index in data.indices]
        if self.near is None or self.source is None:
            return data.source[tuple(indices)]
        return self.source[in_register(self.near.place(values[self.kernel.found.spatial], indices))]

    def finish(self, place: Place, row: Size, column: Size, lanes: int, sums: tirx.Expr) -> None:
        is_vector = self.is_plain or self.is_by_line or not self.is_of_all
        if not self.stages and is_vector:
            *others, last = self.axes(place, row, column)
            T.buffer_store(self.made[0], sums, [*others, ramp(last, lanes)])
            return
        kept = local(integer(lanes))
        T.buffer_store(kept, sums, [ramp(integer(0), lanes)])
        with T.vectorized(integer(lanes)) if is_vector and lanes > 1 else loop(lanes) as lane:
            at, value = self.axes(place, row, column, lane), kept[lane]
            for stage in self.stages:
                value = value_of(stage, at, self.made, [kept[lane]])
            T.buffer_store(self.made[-1], value, at)


def _divided(size: tirx.Expr, count: int) -> tirx.Expr:
    return Analyzer().simplify(tirx.floordiv(size, count))


def lanes_of(kernel: ConvolutionKernel, is_gathered: bool, unit: VectorUnit) -> int:
    """Return how many columns a vector has: as many as one holds if a line has so many."""
    columns = known(reduce(mul, kernel.positions)) if is_gathered else kernel.line
    return unit.lanes if columns is None else min(unit.lanes, 1 << int(log2(columns)))


def columns_of(kernel: ConvolutionKernel, is_gathered: bool, unit: VectorUnit) -> tirx.Expr:
    """Return how many columns the product has: positions, or, of lines of known length, elements of their vectors."""
    *lines, line = kernel.positions
    if kernel.is_flat or is_gathered:
        return reduce(mul, kernel.positions)
    if kernel.line is None:
        return line
    lanes = lanes_of(kernel, is_gathered, unit)
    return reduce(mul, lines, integer(-(-kernel.line // lanes) * lanes))
