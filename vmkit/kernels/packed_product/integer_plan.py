"""Where the data of a product of integers lies.

Data that need no filling are read where they are. Others are copied, a few rows of an image at a time, as numbers that
the instruction takes, with the padding around them. Output positions are then at one distance from each other: those of
a row; or all of them, where the window has no strides, if what is computed between the end of a row and the next is
left: for AMX tiles, and for rows of few or an unknown number of positions.

What a core reads that another has written comes slowly, most of all where they have no cache in common. So cores take
chunks of their own, neighbouring rows of an image or whole images, in one kernel as in the next. Where the weight has
more bytes than the data, each core takes some of its blocks instead, and reads all of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..._dataclasses import dataclass
from ...target.integer_unit import IntegerUnit
from ...target.processor import CACHES
from ..builder import Size, as_expr, in_register
from .plan import Axes, Chunk, Plan
from .sizes import at_once, bound, divided, is_same, least, most
from .weight import PackedWeight

__all__ = ["IntegerPlan"]

_CACHE_BYTES = CACHES.quarter_of_second  # of data that go by all blocks of the weight
_FEWEST_POSITIONS, _FEWEST_ROWS = 28, 4  # of a chunk that a core has for itself
_AXES_OF_IMAGES = 3  # images, rows, columns
_LONG = 6  # positions of a row that are enough sums to be in registers at once


@dataclass(frozen=True)
class IntegerPlan(Plan):
    """Where data lie, as they are or copied."""

    is_copied: bool
    has_tiles: bool
    shares_chunks: bool

    @classmethod
    def of(
        cls, w: PackedWeight, data: Sequence[Size], shape: Sequence[Size], unit: IntegerUnit, cores: int = 1
    ) -> IntegerPlan:
        """Plan a product from the shapes of its data and its result, in the builder at hand."""
        p, group, has_tiles = w.product, unit.group, unit.has_tiles
        number = 4 // group
        axes = Axes.of(p, data, shape, keep=bound)
        if p.is_pointwise:
            fit: Size = most(64, divided(divided(_CACHE_BYTES, w.depth * number)[0], 64)[0] * 64)
            shared = _rows_of_cores(w, axes, fit, 1 if has_tiles else cores)
            rows = bound(most(1, at_once(axes.rows, fit))) if shared is None else shared
            is_copied = group != 4 or w.is_filled
            return cls(w, axes, 1, rows, 1, rows, is_copied, has_tiles, shared is not None)
        is_copied = group != 4 or not _is_whole(w, axes)
        pitch = bound((axes.columns - 1) * p.strides[1] + p.reach[1] + 1) if is_copied else axes.columns_of_data
        fit = bound(most(1, divided(divided(_CACHE_BYTES, p.channels * p.strides[0] * number)[0], most(1, pitch))[0]))
        shared = _rows_of_cores(w, axes, fit, 1 if has_tiles else cores)
        rows = bound(most(1, at_once(axes.rows, fit))) if shared is None else shared
        return cls(w, axes, pitch, rows, 1, bound(p.input_rows(rows)), is_copied, has_tiles, shared is not None)

    @property
    def is_over_chunks(self) -> bool:
        return self.shares_chunks

    @property
    def size(self) -> Size:
        """How many numbers are copied at once, with those that are read behind them."""
        return self.input_rows * self.row + self.weight.depth + 64

    @property
    def row(self) -> Size:
        """How many numbers lie between a row of the data and the next."""
        return self.weight.depth if self.product.is_pointwise else self.pitch * self.product.channels

    @property
    def step(self) -> Size:
        return self.weight.depth if self.product.is_pointwise else self.product.strides[1] * self.product.channels

    @property
    def is_flat(self) -> bool:
        columns = self.axes.columns
        is_long = self.weight.alike is not None or (isinstance(columns, int) and columns >= _LONG)
        by_row = not self.product.is_pointwise and not self.has_tiles and is_long
        return self.product.strides == (1, 1) and not by_row

    def offset(self, row: Size, column: Size) -> Size:
        dilation = self.product.dilation
        return row * dilation[0] * self.row + column * (dilation[1] * self.product.channels)

    def start(self, here: Chunk, group: Size) -> Size:
        first: Size = as_expr(0)
        if not self.is_copied:
            row = here.row * self.product.strides[0]
            first = (row if self.product.is_pointwise else here.image * self.axes.rows_of_data + row) * self.row
        return first if self.is_flat else first + group * (self.product.strides[0] * self.row)

    def image_and_row(self, here: Chunk, group: Size) -> tuple[Size, Size]:
        return here.image, group

    def chunks(self) -> Size:
        """Return how many chunks an image has."""
        return in_register(divided(self.axes.rows + (self.rows_at_once - 1), self.rows_at_once)[0])

    def chunk(self, group: Size, chunk: Size) -> Chunk:
        row = in_register(chunk * self.rows_at_once)
        rows = self.axes.rows
        if isinstance(rows, int) and isinstance(self.rows_at_once, int) and rows % self.rows_at_once == 0:
            rows = self.rows_at_once
        elif not is_same(rows, self.rows_at_once):
            rows = in_register(as_expr(least(self.rows_at_once, rows - row)))
        groups: Size = 1
        if not self.is_flat:
            groups, positions = rows, self.axes.columns
        elif self.product.is_pointwise:
            positions = rows
        else:
            positions = in_register((rows - 1) * self.pitch + self.axes.columns)
        return Chunk(group, 1, row, rows, in_register(self.product.input_rows(rows)), groups, positions)


def _rows_of_cores(w: PackedWeight, axes: Axes, fit: Size, cores: int) -> int | None:
    """Return how many rows a chunk has, at most `fit`, so that each core has as many; None where cores share chunks."""
    p, sizes = w.product, (axes.images, axes.rows, axes.columns, axes.rows_of_data, axes.columns_of_data, fit)
    # Layers of matrices alternate between much data and much weight, and gain nothing.
    is_matrix = p.is_pointwise and len(axes.outer) < _AXES_OF_IMAGES
    if cores == 1 or is_matrix or w.alike is not None or not all(isinstance(size, int) for size in sizes):
        return None
    images, rows, columns, rows_of_data, columns_of_data, fit = (int(size) for size in sizes)
    numbers = images * (rows_of_data * columns_of_data * p.channels + rows * columns * p.units)
    if prod(w.shape) > numbers:
        return None
    if images % cores == 0:
        return min(rows, max(1, fit))
    of_core, fewest = rows // cores, _FEWEST_POSITIONS if p.is_pointwise else _FEWEST_ROWS
    if rows % cores or images * rows < fewest * cores:
        return None
    chunks = (size for size in range(min(of_core, fit), fewest - 1, -1) if of_core % size == 0)
    return next(chunks, None)


def _is_whole(w: PackedWeight, axes: Axes) -> bool:
    """Say whether all that a window reads certainly is data, and a run of it is whole groups."""
    p, read = w.product, (axes.rows, axes.columns)
    if w.encoding.is_depthwise or p.padding != (0, 0) or w.is_filled:
        return False
    sizes = zip(read, (axes.rows_of_data, axes.columns_of_data), p.strides, p.reach, strict=True)
    return all(
        isinstance(size, int) and isinstance(have, int) and (size - 1) * stride + reach < have
        for size, have, stride, reach in sizes
    )
