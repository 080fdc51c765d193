"""What products of rows with a packed weight are of, and in which order their work is done."""

from __future__ import annotations

import math
from dataclasses import replace

from tvm import tirx

from .._dataclasses import dataclass
from ..target.processor import CACHES
from .builder import Size, integer

__all__ = [
    "LINE",
    "Corner",
    "PackedGemmImage",
    "PackedGemmPlan",
    "PackedGemmShape",
    "PackedGemmWindow",
    "block_of",
    "block_to_share",
    "fetched",
    "lines_of",
    "most_parts",
    "parts_at_run_time",
    "plan_of_any_size",
    "plan_packed_gemm",
    "rows_ahead",
    "shared_plan",
    "vectors_of",
]

_NEAR = CACHES.half_of_second  # of a weight that stays there while rows go by
LINE = CACHES.line // 4  # float32 that come from memory at once
_BEGINS = 8  # rows whose begins, which no step leads from one to the next, are in registers for addresses
_WAYS = 8  # rows that the first cache holds which are apart by the size of a way, or a multiple of it
_SHORT = 8  # float32 of a vector, few beside what each round of steps takes
_USUAL = 4  # tiles of data of unknown size
_FETCHED = 2  # lines of a weight of unknown size
_FEW_BLOCKS = 8  # of a weight, all of which go by rows in hardly more time than these take to come
_BESIDE = CACHES.quarter_of_second  # the same, of rows that stay beside a weight
_NEAREST = CACHES.three_quarters_of_first  # of rows that stay there while blocks of the weight go by
_TO_SHARE = 8  # groups of tiles by blocks of a weight that there are at least, for cores to share
_ENDS = 256  # steps of sums that take as long as the lines of a residual and of results of many rows to come


Corner = tuple[tirx.Expr, tirx.Expr, tirx.Expr]
"""Where a window begins: the element of the data, its line and its column, which may be beyond the data."""


@dataclass(frozen=True)
class PackedGemmWindow:
    """Where the rows of a product are in an image.

    Attributes
    ----------
    height, width : int or None
        The size of the data, padded unless `padding` says how; None where it is known at run time.
    channels : int or expression
        Of the data.
    size, strides, dilation : tuple of int
        Of windows, along the height and the width.
    padding : tuple of int
        How many positions of zeros are beyond the data, at the top, left, bottom and right. They are nowhere: where
        there are any, the last line of each image is of zeros, and its first element is read in the place of theirs.
    """

    height: int | None
    width: int | None
    channels: Size
    size: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def is_beyond_data(self) -> bool:
        """Whether parts of windows may be beyond the data."""
        return any(self.padding)

    @property
    def runs(self) -> tuple[int, int]:
        """How many parts of a window, down and across, are apart in memory."""
        return self.size[0], 1 if self.dilation[1] == 1 and not self.is_beyond_data else self.size[1]

    @property
    def run(self) -> Size:
        """How many elements each of those parts has."""
        return self.channels * (self.size[1] // self.runs[1])

    def corner(self, row: tirx.Expr, image: PackedGemmImage) -> Corner:
        """Return where the window of a row begins."""
        line = tirx.truncdiv(row, image.across)
        of_batch = tirx.truncdiv(line, image.down)
        return self.at((of_batch, line - of_batch * image.down, row - line * image.across), image)

    def at(self, place: tuple[tirx.Expr, tirx.Expr, tirx.Expr], image: PackedGemmImage) -> Corner:
        """Return where the window at a place begins: one of the batch, down and across."""
        of_batch, y, x = place
        down, across = (n * step - before for n, step, before in zip((y, x), self.strides, self.padding, strict=False))
        return ((of_batch * image.height + down) * image.width + across) * self.channels, down, across

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
    inner, outer : int or expression
        Elements of a row, and of a row of the result: a multiple of `lanes`.
    block : int
        Elements of the result in a block of the weight: one vector, two or three; the last block may be filled up.
    lanes : int
        How many float32 a vector has.
    has_bias, has_residual : bool
        Whether a vector (outer,) and a matrix like the result are added, in this order.
    low, high : float or None
        What sums are raised and lowered to.
    activation : str
        The program of :mod:`.activation` that results are made by from those; empty if they are the results.
    window : PackedGemmWindow or None
        Where rows are in the data, if not one after the other; `lead` is of the result then.
    last : int or None
        Elements of the last block of the weight that are of the result, where `outer` does not tell that.
    overlaps : bool
        Whether the last block ends with the result, and so begins with what the one before has, too, and none is
        filled up.
    pitch : int, expression or None
        Elements from a row of the data to the next, where these are of several groups: each `inner` of them are
        multiplied with blocks of their own, for as many elements of the result as each other group has. The last block
        of a group overlaps.
    least : int or None
        How many float32 the last vector has where no more of it are of the result, if there is one block and the number
        of rows is known: two forms of a tile in one kernel would share memory for vectors of both lengths. None for a
        whole vector.
    joined : tuple of int
        How many elements of a row each of several tensors of data has, one after the other; () if there is one tensor.
    """

    lead: tuple[int | None, ...]
    inner: Size
    outer: Size
    block: int
    lanes: int
    has_bias: bool = False
    has_residual: bool = False
    low: float | None = None
    high: float | None = None
    activation: str = ""
    window: PackedGemmWindow | None = None
    last: int | None = None
    overlaps: bool = False
    pitch: Size | None = None
    least: int | None = None
    joined: tuple[int, ...] = ()

    @property
    def data(self) -> dict[str, Size]:
        """How many elements of a row each tensor of data has, by its name."""
        whole = self.inner if self.pitch is None else self.pitch
        return {f"data{at or ''}": size for at, size in enumerate(self.joined or (whole,))}

    @property
    def groups(self) -> Size:
        """How many parts of a row have weights of their own."""
        return 1 if self.pitch is None else self.pitch // self.inner

    @property
    def blocks_of_group(self) -> Size:
        """How many blocks the weight of a group has."""
        return (self.outer // self.groups + (self.block - 1)) // self.block

    @property
    def blocks(self) -> Size:
        """How many blocks the weight has."""
        return self.groups * self.blocks_of_group

    @property
    def width_of_last(self) -> int:
        """How many elements of the last block of the weight are of the result."""
        if self.overlaps:
            return self.block
        if self.last is not None:
            return self.last
        assert isinstance(self.outer, int)
        return self.outer % self.block or self.block

    def vectors(self, width: int) -> list[int]:
        """Return how many float32 each vector has that so many columns of a block are computed in."""
        whole = [self.lanes] * -(-width // self.lanes)
        if self.least is None or self.rows is None or self.blocks != 1 or not 0 < width % self.lanes <= self.least:
            return whole
        return [*whole[:-1], self.least]

    @property
    def rows(self) -> int | None:
        """How many rows there are, None where that is known at run time."""
        return None if None in self.lead else math.prod(size for size in self.lead if size is not None)

    @property
    def is_of_known_image(self) -> bool:
        """Whether it is known how many windows there are down and across."""
        return None not in self.lead[1:]

    def without_sizes(self) -> PackedGemmShape:
        """Return what all shapes have in common that differ in sizes alone: those are 0 and None in it."""
        window = self.window and replace(self.window, height=None, width=None, channels=0)
        lead = (None,) * len(self.lead)
        pitch = None if self.pitch is None else 0
        return replace(self, lead=lead, inner=0, outer=0, window=window, last=self.width_of_last, pitch=pitch)

    def with_variables(self) -> PackedGemmShape:
        """Return the shape :meth:`without_sizes` with variables in their places, which a kernel is given."""
        inner, outer, window = tirx.Var("inner", "int64"), tirx.Var("outer", "int64"), self.window
        if window is not None:
            channels = tirx.Var("channels", "int64")
            inner, window = channels * (window.size[0] * window.size[1]), replace(window, channels=channels)
        pitch = None if self.pitch is None else tirx.Var("pitch", "int64")
        return replace(self, inner=inner, outer=outer, window=window, pitch=pitch)


@dataclass(frozen=True)
class PackedGemmPlan:
    """How :func:`.packed_gemm` goes about it.

    Attributes
    ----------
    rows : int
        Rows of a tile, whose results for a block are in registers.
    parts : int or None
        Tiles that a block of the weight is used for before the next block; None where the kernel finds that by its
        sizes.
    unrolled : int
        Steps of the sum that are unrolled; a divisor of its length.
    fetched : int
        Lines of the next block of the weight that are fetched meanwhile by as many steps as are unrolled. All tiles of
        a block share this work: memory is slower than one tile, but not slower than all of them.
    """

    rows: int
    parts: int | None
    unrolled: int
    fetched: int


def block_of(outer: int, lanes: int) -> int:
    """Return the best block for a result: two vectors, or three where those leave less over."""
    vectors = -(-outer // lanes)
    if vectors % 2 == 0 or vectors == 1:
        return lanes * min(2, vectors)
    return lanes * (3 if vectors % 3 == 0 else 2)


def block_to_share(outer: int, lanes: int) -> int:
    """Return the block that results of other sizes have, too, as far as there are: two vectors, or one for few."""
    return lanes * (2 if outer >= 2 * lanes else 1)


def vectors_of(width: int, lanes: int) -> list[tuple[int, int]]:
    """Return where the vectors begin that a width is made of, and how many float32 each has: powers of 2 at the end."""
    made = [(begin, lanes) for begin in range(0, width - lanes + 1, lanes)]
    begin = len(made) * lanes
    while begin < width:
        made.append((begin, 1 << (width - begin).bit_length() - 1))
        begin += made[-1][1]
    return made


def plan_packed_gemm(shape: PackedGemmShape, registers: int) -> PackedGemmPlan:
    """Return the order of work for a machine with so many vector registers."""
    most, have = _most_rows(shape, registers), shape.rows
    rows = most
    if have is not None:
        # As few tiles as there can be, and little of the last one computed twice.
        sizes = range(max(1, min(have, most) // 2), min(have, most) + 1)
        rows = min(sizes, key=lambda r: (-(-have // r) * (r + 1), -r))
    unrolled = _unrolled(shape)
    near = _beside(shape) if 4 * shape.inner * shape.outer <= _NEAR else _NEAR
    parts = max(1, near // (4 * rows * shape.inner))
    if have is not None:
        # Cores share groups of tiles: as few, as equal as can be, so that no core has whole ones and another the rest.
        tiles = max(1, -(-have // rows))
        parts = min(parts, -(-tiles * shape.blocks // _TO_SHARE))
        parts = -(-tiles // -(-tiles // parts))
    return PackedGemmPlan(rows, parts, unrolled, fetched(shape, rows, parts, unrolled))


def shared_plan(shape: PackedGemmShape, registers: int) -> PackedGemmPlan:
    """Return the order of work of a kernel that shapes of other sizes have in common with this one, of known sizes.

    As little as can be depends on them: a tile has as many rows as there are registers for, those for the addresses of
    rows a size apart among them, even if more are computed twice.
    """
    most = min(_most_rows(shape, registers), _BEGINS)
    return PackedGemmPlan(most if shape.rows is None else min(most, shape.rows), None, _unrolled(shape), _FETCHED)


def plan_of_any_size(rows: int, unrolled: int) -> PackedGemmPlan:
    """Return the order of work of a kernel that is given its sizes, whose sums are of a multiple of `unrolled`."""
    return PackedGemmPlan(min(rows, _BEGINS), None, unrolled, _FETCHED)


def _most_rows(shape: PackedGemmShape, registers: int) -> int:
    """Return how many rows of a tile there are registers for."""
    # Some registers are for the weight and what it is multiplied with, of which vectors of each length have their own.
    is_short = isinstance(shape.outer, int) and shape.vectors(shape.width_of_last)[-1] < shape.lanes < shape.outer
    most = max(1, (registers - (8 if is_short else 4)) // (shape.block // shape.lanes))
    if shape.window is not None:
        return min(most, _BEGINS)
    if shape.has_residual and isinstance(shape.inner, int) and shape.inner < _ENDS:
        most = min(most, _WAYS)  # fewer lines at once
    if any(4 * size % (CACHES.first // _WAYS) == 0 for size in shape.data.values()):
        return min(most, _WAYS)  # the elements of all rows that go together are in one set of the cache
    return most


def _unrolled(shape: PackedGemmShape) -> int:
    """Return how many steps of a sum are unrolled: fewer where loops stand several times.

    They do for unknown sizes, and for each tensor of data. Steps of short vectors are short themselves. Those of groups
    are of any length, and share kernels.
    """
    if shape.joined:
        return 2 if shape.lanes <= _SHORT and math.gcd(*shape.joined) % 2 == 0 else 1
    run = shape.inner if shape.window is None else shape.window.run
    if shape.pitch is not None:
        return 1 + (run % 2 == 0)
    return next(u for u in ((2, 3, 5, 7, 1) if shape.rows is None else (4, 3, 5, 7, 2, 1)) if run % u == 0)


def _beside(shape: PackedGemmShape) -> int:
    """Return how many bytes of rows go by a block of a weight that stays near.

    As many as the second cache holds beside the weight, for a block is nearer meanwhile. Fewer, that are in the first
    cache, where a block is not and the rows have just been written, or are of several tensors.
    """
    inner, rows = shape.inner, shape.rows
    is_large = isinstance(inner, int) and 4 * inner * shape.block > CACHES.first
    is_near = isinstance(inner, int) and rows is not None and 4 * rows * inner <= 2 * CACHES.second
    return _NEAREST if shape.joined or (is_large and is_near) else _BESIDE


def parts_at_run_time(shape: PackedGemmShape, rows: int) -> tirx.Expr:
    """Return the parts of a plan with so many rows of a tile, for a shape of any size."""
    near = tirx.Select(4 * shape.inner * shape.outer <= _NEAR, integer(_beside(shape)), integer(_NEAR))
    return tirx.Max(integer(1), tirx.floordiv(near, 4 * rows * shape.inner))


def most_parts(shape: PackedGemmShape, tiles: tirx.Expr) -> tirx.Expr:
    """Return how many tiles a block of the weight may be used for at most, that cores have enough to share."""
    return tirx.floordiv(tiles * shape.blocks + (_TO_SHARE - 1), integer(_TO_SHARE))


def fetched(shape: PackedGemmShape, rows: int, parts: int, unrolled: int) -> int:
    """Return how many lines each round of unrolled steps is to fetch, so that a block has come when it is needed."""
    if 4 * shape.inner * shape.outer <= _NEAR:
        return 1  # it comes once and stays
    tiles = _USUAL if shape.rows is None else max(1, -(-shape.rows // rows))
    rounds = min(parts, tiles) * shape.inner // unrolled
    return -(-lines_of(shape) // rounds)


def rows_ahead(shape: PackedGemmShape, plan: PackedGemmPlan) -> int:
    """Return how many lines of the rows that go by next each round of unrolled steps is to fetch.

    All blocks of a weight share this work. None where the weight does not stay near meanwhile, where there are so many
    blocks that rows are hardly waited for, and for rows that are not one after the other.
    """
    if shape.window is not None or shape.joined or shape.pitch is not None or not isinstance(shape.inner, int):
        return 0
    if 4 * shape.inner * shape.outer > _NEAR or shape.blocks > _FEW_BLOCKS:
        return 0
    return -(-plan.rows * plan.unrolled // (LINE * shape.blocks))


def lines_of(shape: PackedGemmShape) -> Size:
    """Return how many lines of memory a block of the weight is in."""
    return (shape.inner * shape.block + (LINE - 1)) // LINE
