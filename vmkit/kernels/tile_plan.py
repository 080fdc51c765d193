"""Where the split data of a product lies, how much is there at once, and which output a place in it stands for.

Of a number of images or rows that is known at run time only, as many are there at once as fit, so that distances in
memory are constants of the kernel; what depends on other such sizes is computed once, before the loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as E
from tvm.script.ir_builder import tirx as T
from tvm.sym import Analyzer

from .tiled_weight import BLOCK, DEPTH, PARTS, TILE, TiledWeight

__all__ = ["LANES", "ROWS", "Chunk", "Plan", "ceildiv", "int64", "least"]

LANES = 16
"""How many float32 a vector has."""
ROWS = 2 * TILE
"""How many positions are computed at once."""
_CACHE_BYTES = (1 << 17, 1 << 20)  # of split data: the second cache of processors that have the unit holds 2 MiB
_SPLITTING = 2  # how much longer a core takes over a number of the data than over one of the weight
_LINES, _SKEW = 64, 5  # cache lines of a page, and by how many of them runs are apart in it


@dataclass(frozen=True)
class Plan:
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
    rows_at_once: Any  # for which there is room
    rows_of_chunk: Any  # that a chunk has, but for the last
    images_at_once: Any
    input_rows: Any  # of split data of an image in a chunk
    plane: Any  # numbers between two runs of inputs
    part: Any  # numbers that each part has
    is_over_chunks: Any  # whether cores share the chunks, not the steps of each; a test if run time tells

    @classmethod
    def of(cls, w: TiledWeight, data: list[Any], shape: list[Any], cores: int = 1) -> Plan:
        """Plan a product from the shapes of its data and its result, in the builder at hand."""
        if w.is_pointwise:
            # All positions of all images are one column of rows.
            outer = [known(d) for d in shape[:-1]]
            sizes = [1, product_of(outer), 1, product_of(outer), 1]
        else:
            outer = []
            two = [1] if len(shape) == 3 else []
            sizes = [known(d) for d in (shape[0], *two, *shape[1:-1], *two, *data[1:-1])]
        images, rows, columns, y, x = sizes
        reach = (w.kernel[0] - 1) * w.dilation[0], (w.kernel[1] - 1) * w.dilation[1]
        phases = [1 if k == 1 else s for k, s in zip(w.kernel, w.strides, strict=True)]
        if w.takes_rows:
            phases = [1, 1]
            pitch: Any = 1
            depth = (columns - 1) * (w.strides[1] * w.channels) + w.runs[2] * DEPTH
            depth = bound(ceildiv(depth, LANES) * LANES)
            of_row, extra = w.strides[0] * depth, reach[0] + 1
        else:
            pitch = bound(columns + reach[1] // w.strides[1]) if reach[1] // w.strides[1] else columns
            depth = -(-w.channels // DEPTH) * DEPTH
            of_row, extra = phases[0] * phases[1] * pitch * depth, reach[0] // w.strides[0]
        fit = most(1, _cache_bytes(w) // (2 * PARTS) // most(1, of_row) - extra)
        if w.is_pointwise and isinstance(fit, int):
            fit = max(2 * ROWS, fit // ROWS * ROWS)
        is_over_chunks = _is_over_chunks(w, rows, of_row, cores)
        rows_at_once = rows_of_chunk = bound(most(1, at_once(rows, fit)))
        if is_over_chunks is not False and isinstance(fit, int):
            rows_of_chunk = bound(most(1, _evenly(rows, fit, cores, ROWS if w.is_pointwise else 1)))
            if isinstance(rows_of_chunk, int):
                rows_at_once = rows_of_chunk
        images_at_once = bound(most(1, at_once(images, fit // most(1, rows))))
        if is_over_chunks is True:
            images_at_once = 1
        input_rows = bound(_input_rows(w, rows_at_once))
        plane: Any = DEPTH
        if not w.takes_rows:
            positions = images_at_once * (phases[0] * phases[1]) * input_rows * pitch
            # Runs that lie a multiple of the page size apart would share few lines of the first cache.
            plane = bound((ceildiv(positions, _LINES) * _LINES + _SKEW) * DEPTH)
        part = images_at_once * input_rows * depth if w.takes_rows else w.runs[2] * plane
        return cls(
            window=w,
            outer=outer,
            has_rows=len(shape) == 4,
            images=images,
            rows=rows,
            columns=columns,
            rows_of_data=y,
            columns_of_data=x,
            phases=phases[0] * phases[1],
            column_phases=phases[1],
            pitch=pitch,
            depth=depth,
            rows_at_once=rows_at_once,
            rows_of_chunk=rows_of_chunk,
            images_at_once=images_at_once,
            input_rows=input_rows,
            plane=plane,
            part=bound(part),
            is_over_chunks=is_over_chunks,
        )

    @property
    def slack(self) -> Any:
        """How many numbers tiles may read beyond the last."""
        return ROWS * self.step + DEPTH

    @property
    def step(self) -> int:
        """How many numbers lie between two output positions."""
        return self.window.strides[1] * self.window.channels if self.window.takes_rows else DEPTH

    def source(self, image: Any, y: Any, x: Any) -> list[Any]:
        """Return where a position is in the data."""
        if self.window.is_pointwise:
            return unravel(y, self.outer)
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

    def start(self, here: Chunk, group: Any) -> Any:
        """Return where the first output position of a group is."""
        if self.window.takes_rows:
            image, row = divided(group, here.rows)
            return (image * self.input_rows + row * self.window.strides[0]) * self.depth
        return group * (self.phases * self.input_rows * self.pitch * DEPTH)

    def position(self, here: Chunk, group: Any, at: Any) -> tuple[list[Any], Any]:
        """Return the result's index for a position of a group, and whether it is one at all (None: always)."""
        if self.window.is_pointwise:
            return unravel(here.row + at, self.outer), None
        if self.window.takes_rows:
            image, y = divided(group, here.rows)
            return [here.image + image, *([here.row + y] if self.has_rows else []), at], None
        row, column = divided(at, self.pitch)
        inside = None if is_same(self.pitch, self.columns) else column < self.columns
        return [here.image + group, *([here.row + row] if self.has_rows else []), column], inside


@dataclass(frozen=True)
class Chunk:
    """The images and rows that are in the cache."""

    image: Any
    images: Any
    row: Any
    rows: Any
    input_rows: Any
    groups: Any
    positions: Any

    @classmethod
    def of(cls, plan: Plan, group: Any, chunk: Any) -> Chunk:
        """Bind the sizes of a chunk of a group of images in the builder at hand."""
        image, row = T.Bind(group * plan.images_at_once), T.Bind(chunk * plan.rows_of_chunk)
        images: Any = 1
        if not is_same(plan.images_at_once, 1):
            images = T.Bind(int64(least(plan.images_at_once, plan.images - image)))
        rows = T.Bind(int64(least(plan.rows_of_chunk, plan.rows - row)))
        if plan.window.takes_rows:
            groups, positions = images * rows, plan.columns
        else:
            groups, positions = images, (rows - 1) * plan.pitch + plan.columns
        return cls(image, images, row, rows, bound(_input_rows(plan.window, rows)), groups, positions)


def _input_rows(w: TiledWeight, rows: Any) -> Any:
    """Return how many rows of a phase of the data so many output rows take."""
    reach = (w.kernel[0] - 1) * w.dilation[0]
    if w.takes_rows:
        return (rows - 1) * w.strides[0] + reach + 1
    return rows + reach // w.strides[0]


def _cache_bytes(weight: TiledWeight) -> int:
    """Return how much split data to have at once: as much as there is of the weight, so that both are read as often."""
    fewest, limit = _CACHE_BYTES
    return min(limit, max(fewest, _numbers(weight) * 2 * PARTS))


def _numbers(weight: TiledWeight) -> int:
    """Return how many numbers a part of the weight has."""
    return weight.blocks * BLOCK * weight.steps * DEPTH


def _is_over_chunks(w: TiledWeight, rows: Any, of_row: Any, cores: int) -> Any:
    """Say whether cores share the chunks: each reads all of the weight then, and only data that it has split itself.

    Otherwise they share the steps of a chunk, and read much of its split data from each other. Of an unknown number of
    positions that is a test at run time, unless there are enough in any case.
    """
    fewest = (2 * ROWS if w.is_pointwise else 1) * cores
    if cores == 1 or not isinstance(of_row, int):
        return False
    needed = max(fewest, ceildiv(_numbers(w), _SPLITTING * of_row))
    least_rows = _least_value(rows)
    if least_rows >= needed:
        return True
    if isinstance(rows, int) or not w.is_pointwise or least_rows >= fewest:
        return False
    return rows >= needed


def _least_value(size: Any) -> int:
    """Return a size where all that is unknown in it is 1."""
    if isinstance(size, int):
        return size
    least_size = simplified(tvm_ffi.structural_map(size, (tvm.ir.Var, lambda v: tirx.IntImm(str(v.ty.dtype), 1))))
    return least_size if isinstance(least_size, int) else 1


def _evenly(size: Any, fit: int, cores: int, step: int) -> Any:
    """Return how many rows a chunk has, a multiple of `step`, so that cores have as many chunks of at most `fit`."""
    chunks = most(1, ceildiv(ceildiv(size, fit), cores)) * cores
    return least(fit, ceildiv(ceildiv(size, chunks), step) * step)


def int64(value: Any) -> Any:
    return E.int64(value) if isinstance(value, int) else value


def known(size: Any) -> Any:
    """Return a size as a number where it is one."""
    return int(size.value) if isinstance(size, tirx.IntImm) else size


def simplified(value: Any) -> Any:
    return value if isinstance(value, int) else known(Analyzer().simplify(value))


def product_of(sizes: Sequence[Any]) -> Any:
    result: Any = 1
    for size in sizes:
        result = result * size
    return simplified(result)


def divided(value: Any, by: Any) -> tuple[Any, Any]:
    """Return quotient and remainder of numbers that are not negative."""
    if isinstance(by, int):
        return value // by, value % by
    return tirx.truncdiv(value, by), tirx.truncmod(value, by)  # which test no signs


def ceildiv(value: Any, by: Any) -> Any:
    return (value + (by - 1)) // by


def least(a: Any, b: Any) -> Any:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else tirx.min(int64(a), int64(b))


def most(a: Any, b: Any) -> Any:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else tirx.max(int64(a), int64(b))


def at_once(size: Any, fit: Any) -> Any:
    """Return how many of some rows or images to have at once: as many as fit where it is unknown how many there are."""
    if is_same(size, 1):
        return 1
    return fit if isinstance(fit, int) and not isinstance(size, int) else least(size, fit)


def bound(value: Any) -> Any:
    """Return a number as it is, and a variable for what is computed at run time, here, where this is called."""
    return value if isinstance(value, int | tirx.Var) else T.Bind(value)


def is_same(a: Any, b: Any) -> bool:
    return a == b if isinstance(a, int) and isinstance(b, int) else a is b


def unravel(at: Any, sizes: Sequence[Any]) -> list[Any]:
    """Return the index in axes of some sizes of an element counted in the order of memory."""
    index: list[Any] = []
    for size in reversed(sizes[1:]):
        at, place = divided(at, size)
        index.append(place)
    return [at, *reversed(index)]
