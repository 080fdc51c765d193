"""What products of rows with a packed weight are of, and in which order their work is done."""

from __future__ import annotations

import math

from tvm import tirx

from .._dataclasses import dataclass
from ..target.processor import CACHES

__all__ = [
    "LINE",
    "PackedGemmImage",
    "PackedGemmPlan",
    "PackedGemmShape",
    "PackedGemmWindow",
    "block_of",
    "fetched",
    "lines_of",
    "plan_packed_gemm",
]

_NEAR = CACHES.half_of_second  # of a weight that stays there while rows go by
LINE = CACHES.line // 4  # float32 that come from memory at once
_BEGINS = 8  # rows whose begins, which no step leads from one to the next, are in registers for addresses
_WAYS = 8  # rows that the first cache holds which are apart by the size of a way, or a multiple of it
_USUAL = 4  # tiles of data of unknown size
_NEAREST = CACHES.three_quarters_of_first  # of rows that stay there while blocks of the weight go by


@dataclass(frozen=True)
class PackedGemmWindow:
    """Where the rows of a product are in an image.

    Attributes
    ----------
    height, width : int or None
        The size of the data, padded; None where it is known at run time.
    channels : int
        Of the data.
    size, strides, dilation : tuple of int
        Of windows, along the height and the width.
    """

    height: int | None
    width: int | None
    channels: int
    size: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]

    @property
    def runs(self) -> tuple[int, int]:
        """How many parts of a window, down and across, are apart in memory."""
        return self.size[0], 1 if self.dilation[1] == 1 else self.size[1]

    @property
    def run(self) -> int:
        """How many elements each of those parts has."""
        return self.channels * (self.size[1] // self.runs[1])

    def begin(self, row: tirx.Expr, image: PackedGemmImage) -> tirx.Expr:
        """Return where the window of a row begins."""
        line = tirx.truncdiv(row, image.across)
        of_batch = tirx.truncdiv(line, image.down)
        return self.at((of_batch, line - of_batch * image.down, row - line * image.across), image)

    def at(self, place: tuple[tirx.Expr, tirx.Expr, tirx.Expr], image: PackedGemmImage) -> tirx.Expr:
        """Return where the window at a place begins: one of the batch, down and across."""
        of_batch, y, x = place
        line = of_batch * image.height + y * self.strides[0]
        return (line * image.width + x * self.strides[1]) * self.channels

    def offset(self, down: tirx.Expr, across: tirx.Expr, image: PackedGemmImage) -> tirx.Expr:
        """Return how far after a window's begin one of those parts begins."""
        return (down * image.width * self.dilation[0] + across * self.dilation[1]) * self.channels


@dataclass(frozen=True)
class PackedGemmImage:
    """The height and the width of the data, and how many windows it has down and across."""

    height: tirx.Expr
    width: tirx.Expr
    down: tirx.Expr
    across: tirx.Expr


@dataclass(frozen=True)
class PackedGemmShape:
    """What a kernel of :func:`.packed_gemm` computes.

    Attributes
    ----------
    lead : tuple of int or None
        Axes whose positions are the rows of the data; None where a size is known at run time.
    inner, outer : int
        Elements of a row, and of a row of the result: a multiple of `lanes`.
    block : int
        Elements of the result in a block of the weight: one vector, two or three; the last block may be filled up.
    lanes : int
        How many float32 a vector has.
    has_bias, has_residual : bool
        Whether a vector (outer,) and a matrix like the result are added, in this order.
    low, high : float or None
        What results are raised and lowered to at the end.
    window : PackedGemmWindow or None
        Where rows are in the data, if not one after the other; `lead` is of the result then.
    """

    lead: tuple[int | None, ...]
    inner: int
    outer: int
    block: int
    lanes: int
    has_bias: bool = False
    has_residual: bool = False
    low: float | None = None
    high: float | None = None
    window: PackedGemmWindow | None = None

    @property
    def blocks(self) -> int:
        """How many blocks the weight has."""
        return -(-self.outer // self.block)

    @property
    def rows(self) -> int | None:
        """How many rows there are, None where that is known at run time."""
        return None if None in self.lead else math.prod(size for size in self.lead if size is not None)

    @property
    def is_of_known_image(self) -> bool:
        """Whether it is known how many windows there are down and across."""
        return None not in self.lead[1:]


@dataclass(frozen=True)
class PackedGemmPlan:
    """How :func:`.packed_gemm` goes about it.

    Attributes
    ----------
    rows : int
        Rows of a tile, whose results for a block are in registers.
    parts : int
        Tiles that a block of the weight is used for before the next block.
    unrolled : int
        Steps of the sum that are unrolled; a divisor of its length.
    fetched : int
        Lines of the next block of the weight that are fetched meanwhile by as many steps as are unrolled. All tiles of
        a block share this work: memory is slower than one tile, but not slower than all of them.
    """

    rows: int
    parts: int
    unrolled: int
    fetched: int


def block_of(outer: int, lanes: int) -> int:
    """Return the best block for a result of whole vectors: two of them, or three where those leave less over."""
    vectors = outer // lanes
    if vectors % 2 == 0 or vectors == 1:
        return lanes * min(2, vectors)
    return lanes * (3 if vectors % 3 == 0 else 2)


def plan_packed_gemm(shape: PackedGemmShape, registers: int) -> PackedGemmPlan:
    """Return the order of work for a machine with so many vector registers."""
    # Some registers are for the weight and what it is multiplied with.
    most = max(1, (registers - 4) // (shape.block // shape.lanes))
    if shape.window is not None:
        most = min(most, _BEGINS)
    elif 4 * shape.inner % (CACHES.first // _WAYS) == 0:
        most = min(most, _WAYS)  # the elements of all rows that go together are in one set of the cache
    rows, have = most, shape.rows
    if have is not None:
        # As few tiles as there can be, and little of the last one computed twice.
        sizes = range(max(1, min(have, most) // 2), min(have, most) + 1)
        rows = min(sizes, key=lambda r: (-(-have // r) * (r + 1), -r))
    run = shape.inner if shape.window is None else shape.window.run
    unrolled = next(u for u in (4, 3, 5, 7, 2, 1) if run % u == 0)
    near = _NEAREST if 4 * shape.inner * shape.outer <= _NEAR else _NEAR
    parts = max(1, near // (4 * rows * shape.inner))
    return PackedGemmPlan(rows, parts, unrolled, fetched(shape, rows, parts, unrolled))


def fetched(shape: PackedGemmShape, rows: int, parts: int, unrolled: int) -> int:
    """Return how many lines each round of unrolled steps is to fetch, so that a block has come when it is needed."""
    if 4 * shape.inner * shape.outer <= _NEAR:
        return 1  # it comes once and stays
    tiles = _USUAL if shape.rows is None else max(1, -(-shape.rows // rows))
    rounds = min(parts, tiles) * shape.inner // unrolled
    return -(-lines_of(shape) // rounds)


def lines_of(shape: PackedGemmShape) -> int:
    """Return how many lines of memory a block of the weight is in."""
    return -(-shape.inner * shape.block // LINE)
