"""Where the data of a product of integers lies, and which output a place in it stands for.

Data that need no filling are read where they are. Others are copied, a few rows of an image at a time, as numbers that
the instruction takes, with the padding around them. Output positions are then at one distance from each other: all of
them, where the window has no strides and what is computed between the end of a row and the next is left; otherwise
those of a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .integer_code import held
from .integer_weight import IntegerWeight
from .tile_plan import at_once, bound, divided, int64, is_same, known, least, most, product_of, unravel

__all__ = ["Chunk", "Plan"]

_CACHE_BYTES = 1 << 18  # of data that go by all blocks of the weight


@dataclass(frozen=True)
class Plan:
    """Where data lie. Distances count numbers of the data."""

    weight: IntegerWeight
    outer: list[Any]  # the axes of positions, where a window is of one
    has_rows: bool  # the data has rows, not columns alone
    is_copied: bool
    images: Any
    rows: Any  # of the result
    columns: Any
    sizes: tuple[Any, Any]  # rows and columns of the data
    pitch: Any  # positions from a row of the data to the next, as they lie
    rows_at_once: Any
    input_rows: Any  # copied for them

    @classmethod
    def of(cls, w: IntegerWeight, data: list[Any], shape: list[Any]) -> Plan:
        """Plan a product from the shapes of its data and its result, in the builder at hand."""
        number = 4 // w.group
        if w.is_pointwise:
            # All positions of all images are one column of rows.
            outer = [bound(known(d)) for d in shape[:-1]]
            positions = bound(product_of(outer))
            fit = max(64, _CACHE_BYTES // (w.depth * number) // 64 * 64)
            rows = bound(most(1, at_once(positions, fit)))
            is_copied = w.group != 4 or w.depth != w.channels
            return cls(w, outer, False, is_copied, 1, positions, 1, (positions, 1), 1, rows, rows)
        two = [1] if len(shape) == 3 else []
        sizes = (shape[0], *two, *shape[1:-1], *two, *data[1:-1])
        images, rows, columns, y, x = (bound(known(d)) for d in sizes)
        pitch = bound((columns - 1) * w.strides[1] + (w.kernel[1] - 1) * w.dilation[1] + 1)
        fit = bound(most(1, divided(_CACHE_BYTES // (w.channels * w.strides[0] * number), most(1, pitch))[0]))
        rows_at_once = bound(most(1, at_once(rows, fit)))
        input_rows = bound(_input_rows(w, rows_at_once))
        return cls(w, [], not two, True, images, rows, columns, (y, x), pitch, rows_at_once, input_rows)

    @property
    def size(self) -> Any:
        """How many numbers are copied at once, with those that are read behind them."""
        return self.input_rows * self.row + self.weight.depth + 64

    @property
    def row(self) -> Any:
        """How many numbers lie between a row of the data and the next."""
        return self.weight.depth if self.weight.is_pointwise else self.pitch * self.weight.channels

    @property
    def step(self) -> int:
        """How many numbers lie between two output positions."""
        return self.weight.depth if self.weight.is_pointwise else self.weight.strides[1] * self.weight.channels

    @property
    def is_flat(self) -> bool:
        """Whether output positions keep their distance over the ends of rows."""
        return self.weight.strides == (1, 1)

    def offset(self, row: Any, column: Any) -> Any:
        """Return how far from an output position's place a run of the window begins."""
        dilation = self.weight.dilation
        return row * dilation[0] * self.row + column * (dilation[1] * self.weight.channels)

    def start(self, here: Chunk, group: Any) -> Any:
        """Return where the first output position of a group is."""
        first = int64(0) if self.is_copied else here.row * self.row
        return first if self.is_flat else first + group * (self.weight.strides[0] * self.row)

    def position(self, here: Chunk, group: Any, at: Any) -> tuple[list[Any], Any]:
        """Return the result's index for a position of a group, and whether it is one at all (None: always)."""
        if self.weight.is_pointwise:
            return unravel(here.row + at, self.outer), None
        row, column = divided(at, self.pitch) if self.is_flat else (group, at)
        is_always = not self.is_flat or is_same(self.pitch, self.columns)
        return [
            here.image,
            *([here.row + row] if self.has_rows else []),
            column,
        ], None if is_always else column < self.columns


@dataclass(frozen=True)
class Chunk:
    """The rows that are in the cache, of one image; groups of positions at one distance."""

    image: Any
    row: Any
    rows: Any
    input_rows: Any
    groups: Any
    positions: Any

    @classmethod
    def of(cls, plan: Plan, image: Any, chunk: Any) -> Chunk:
        """Bind the sizes of a chunk of an image in the builder at hand."""
        row = held(chunk * plan.rows_at_once)
        rows: Any = plan.rows
        if not is_same(plan.rows, plan.rows_at_once):
            rows = held(int64(least(plan.rows_at_once, plan.rows - row)))
        if not plan.is_flat:
            groups, positions = rows, plan.columns
        elif plan.weight.is_pointwise:
            groups, positions = 1, rows
        else:
            groups, positions = 1, held((rows - 1) * plan.pitch + plan.columns)
        return cls(image, row, rows, held(_input_rows(plan.weight, rows)), groups, positions)

    @staticmethod
    def count(plan: Plan) -> Any:
        """Return how many chunks an image has."""
        return held(divided(plan.rows + (plan.rows_at_once - 1), plan.rows_at_once)[0])


def _input_rows(w: IntegerWeight, rows: Any) -> Any:
    """Return how many rows of the data so many output rows take."""
    return (rows - 1) * w.strides[0] + (w.kernel[0] - 1) * w.dilation[0] + 1
