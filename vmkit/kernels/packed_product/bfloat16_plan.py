"""Where the bfloat16 parts of a product's data lie: cut anew for every chunk, in planes or in rows."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from ..._dataclasses import dataclass
from ...target.processor import MATRIX_CACHES
from ..builder import Size, T, as_expr
from .bfloat16_code import DEPTH, LANES, PARTS
from .plan import Axes, Chunk, Plan
from .shape import BLOCK, TILE
from .sizes import at_once, bound, ceildiv, divided, is_same, least, least_value, most, unravel
from .weight import PackedWeight

__all__ = ["ROWS", "PartsPlan"]

ROWS = 2 * TILE
"""How many positions are computed at once."""
_CACHE_BYTES = (MATRIX_CACHES.sixteenth_of_second, MATRIX_CACHES.half_of_second)  # of split data
_SPLITTING = 2  # how much longer a core takes over a number of the data than over one of the weight
_LINES, _SKEW = 64, 5  # cache lines of a page, and by how many of them runs are apart in it


@dataclass(frozen=True)
class PartsPlan(Plan):
    """Where split data lies. Sizes count bfloat16 numbers.

    Strides make phases: the rows and columns of the data that differ by a multiple of the stride lie together, so that
    output positions always step by one.

    Attributes
    ----------
    phases, column_phases : int
        How many there are of rows and columns, and of columns alone.
    depth : size
        Numbers of a row, where a tile takes rows.
    rows_of_chunk : size
        That a chunk has, but for the last.
    plane : size
        Numbers between two runs of inputs.
    part : size
        Numbers that each part has.
    shares_chunks : bool or expression
        Whether cores share the chunks.
    """

    phases: int
    column_phases: int
    depth: Size
    rows_of_chunk: Size
    plane: Size
    part: Size
    shares_chunks: bool | tirx.Expr

    @classmethod
    def of(cls, w: PackedWeight, data: Sequence[Size], shape: Sequence[Size], cores: int = 1) -> PartsPlan:
        """Plan a product from the shapes of its data and its result, in the builder at hand."""
        p = w.product
        axes = Axes.of(p, data, shape, keep=lambda size: size)
        images, rows, columns = axes.images, axes.rows, axes.columns
        reach, tiles = p.reach, w.depth // DEPTH
        phases = [1 if k == 1 else s for k, s in zip(p.kernel, p.strides, strict=True)]
        if w.takes_rows:
            phases = [1, 1]
            pitch: Size = 1
            depth = (columns - 1) * (p.strides[1] * p.channels) + tiles * DEPTH
            depth = bound(ceildiv(depth, LANES) * LANES)
            of_row, extra = p.strides[0] * depth, reach[0] + 1
        else:
            pitch = bound(columns + reach[1] // p.strides[1]) if reach[1] // p.strides[1] else columns
            depth = tiles * DEPTH
            of_row, extra = phases[0] * phases[1] * pitch * depth, reach[0] // p.strides[0]
        fit = most(1, _cache_bytes(w) // (2 * PARTS) // most(1, of_row) - extra)
        if p.is_pointwise and isinstance(fit, int):
            fit = max(2 * ROWS, fit // ROWS * ROWS)
        shares_chunks = _shares_chunks(w, rows, of_row, cores)
        rows_at_once = rows_of_chunk = bound(most(1, at_once(rows, fit)))
        if shares_chunks is not False and isinstance(fit, int):
            rows_of_chunk = bound(most(1, _evenly(rows, fit, cores, ROWS if p.is_pointwise else 1)))
            if isinstance(rows_of_chunk, int):
                rows_at_once = rows_of_chunk
        images_at_once = bound(most(1, at_once(images, fit // most(1, rows))))
        if shares_chunks is True:
            images_at_once = 1
        input_rows = bound(_input_rows(w, rows_at_once))
        plane: Size = DEPTH
        if not w.takes_rows:
            positions = images_at_once * (phases[0] * phases[1]) * input_rows * pitch
            # Runs that lie a multiple of the page size apart would share few lines of the first cache.
            plane = bound((ceildiv(positions, _LINES) * _LINES + _SKEW) * DEPTH)
        part = images_at_once * input_rows * depth if w.takes_rows else tiles * plane
        return cls(
            weight=w,
            axes=axes,
            pitch=pitch,
            rows_at_once=rows_at_once,
            images_at_once=images_at_once,
            input_rows=input_rows,
            phases=phases[0] * phases[1],
            column_phases=phases[1],
            depth=depth,
            rows_of_chunk=rows_of_chunk,
            plane=plane,
            part=bound(part),
            shares_chunks=shares_chunks,
        )

    @property
    def is_over_chunks(self) -> bool | tirx.Expr:
        return self.shares_chunks

    @property
    def is_flat(self) -> bool:
        return not self.weight.takes_rows

    @property
    def slack(self) -> int:
        """How many numbers tiles may read beyond the last."""
        return ROWS * self.step + DEPTH

    @property
    def step(self) -> int:
        return self.product.strides[1] * self.product.channels if self.weight.takes_rows else DEPTH

    def source(self, image: Size, y: Size, x: Size) -> list[Size]:
        """Return where a position is in the data."""
        if self.product.is_pointwise:
            return unravel(y, self.axes.outer)
        return [image, y, x] if self.axes.has_rows else [image, x]

    def is_inside(self, y: tirx.Expr, x: tirx.Expr) -> tirx.Expr | None:
        """Return whether a position is in the data, None where all are."""
        if self.product.is_pointwise:
            return None
        return tirx.all(y >= 0, y < self.axes.rows_of_data, x >= 0, x < self.axes.columns_of_data)

    def offset(self, row: Size, column: Size) -> Size:
        p = self.product
        if self.weight.takes_rows:
            return row * p.dilation[0] * self.depth
        y, x = row * p.dilation[0], column * p.dilation[1]
        if self.phases == 1:
            return ((y // p.strides[0]) * self.pitch + x // p.strides[1]) * DEPTH
        phase = y % p.strides[0] * self.column_phases + x % p.strides[1] if p.kernel[0] > 1 else x % p.strides[1]
        return ((phase * self.input_rows + y // p.strides[0]) * self.pitch + x // p.strides[1]) * DEPTH

    def start(self, here: Chunk, group: Size) -> Size:
        if self.weight.takes_rows:
            image, row = divided(group, here.rows)
            return (image * self.input_rows + row * self.product.strides[0]) * self.depth
        return group * (self.phases * self.input_rows * self.pitch * DEPTH)

    def image_and_row(self, here: Chunk, group: Size) -> tuple[Size, Size]:
        if self.is_flat:
            return here.image + group, 0
        image, row = divided(group, here.rows)
        return here.image + image, row

    def groups_and_chunks(self) -> tuple[Size, Size]:
        """Return how many groups of images there are, and how many chunks each has."""
        return ceildiv(self.axes.images, self.images_at_once), bound(ceildiv(self.axes.rows, self.rows_of_chunk))

    def chunk(self, group: Size, chunk: Size) -> Chunk:
        image, row = T.Bind(group * self.images_at_once), T.Bind(chunk * self.rows_of_chunk)
        images: Size = 1
        if not is_same(self.images_at_once, 1):
            images = T.Bind(as_expr(least(self.images_at_once, self.axes.images - image)))
        rows = T.Bind(as_expr(least(self.rows_of_chunk, self.axes.rows - row)))
        if self.weight.takes_rows:
            groups, positions = images * rows, self.axes.columns
        else:
            groups, positions = images, (rows - 1) * self.pitch + self.axes.columns
        return Chunk(image, images, row, rows, bound(_input_rows(self.weight, rows)), groups, positions)


def _input_rows(w: PackedWeight, rows: Size) -> Size:
    """Return how many rows of a phase of the data so many output rows take."""
    p = w.product
    return p.input_rows(rows) if w.takes_rows else rows + p.reach[0] // p.strides[0]


def _cache_bytes(weight: PackedWeight) -> int:
    """Return how much split data to have at once: as much as there is of the weight, so that both are read as often."""
    fewest, limit = _CACHE_BYTES
    return min(limit, max(fewest, _numbers(weight) * 2 * PARTS))


def _numbers(weight: PackedWeight) -> int:
    """Return how many numbers a part of the weight has."""
    rows, columns = weight.runs
    return weight.blocks * BLOCK * rows * columns * weight.depth


def _shares_chunks(w: PackedWeight, rows: Size, of_row: Size, cores: int) -> bool | tirx.Expr:
    """Say whether cores share the chunks: each reads all of the weight then, and only data that it has split itself.

    Otherwise they share the steps of a chunk, and read much of its split data from each other. Of an unknown number of
    positions that is a test at run time, unless there are enough in any case.
    """
    is_pointwise = w.product.is_pointwise
    fewest = (2 * ROWS if is_pointwise else 1) * cores
    if cores == 1 or not isinstance(of_row, int):
        return False
    needed = max(fewest, -(-_numbers(w) // (_SPLITTING * of_row)))
    least_rows = least_value(rows)
    if least_rows >= needed:
        return True
    if isinstance(rows, int) or not is_pointwise or least_rows >= fewest:
        return False
    return rows >= needed


def _evenly(size: Size, fit: int, cores: int, step: int) -> Size:
    """Return how many rows a chunk has, a multiple of `step`, so that cores have as many chunks of at most `fit`."""
    chunks = most(1, ceildiv(ceildiv(size, fit), cores)) * cores
    return least(fit, ceildiv(ceildiv(size, chunks), step) * step)
