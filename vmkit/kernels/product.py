"""Products of matrices that are known at run time only: tiles of the result in registers, panels of the right operand.

Vectors and tiles at the end of an axis begin earlier and compute some elements again, so that none is cut. A right
operand whose sums are next to each other in memory is transposed into panels, or for few rows added up along them. One
that is what windows see of an image is read step by step of the window, or gathered into panels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import mul

from tvm import tirx

from .._dataclasses import dataclass
from .builder import Size, T, broadcast, either, in_parallel, in_register, integer, local, loop, memory, ramp, splat
from .lanes import sums_of, transposed

__all__ = ["Product", "Tile", "emit_product", "place_of"]

_STREAMS = 8  # rows of the right operand that are read side by side

Place = Sequence["tirx.Expr"]
"""Where a matrix is: an index for each outer axis."""


@dataclass(frozen=True)
class Product:
    """What is multiplied.

    Attributes
    ----------
    outer : list of expression
        Sizes of the axes along which there are products.
    rows, columns, inner : expression
        Sizes of a product: of the result, and of the sums.
    left : callable
        ``left(place, row, k)`` returns an element, or for a ramp of `k` a vector if `is_left_along` is set.
    right : callable
        ``right(place, k, column)`` returns an element, or a vector for a ramp of `column`, or of `k` if `is_transposed`
        is set. With a `window`, ``right(place, k, column, step)`` does for a step of the `k`-th window.
    is_left_along, is_transposed : bool
        Whether consecutive elements of a sum are next to each other in the left operand, and in the right one.
    finish : callable
        ``finish(place, row, column, lanes, sums)`` writes what becomes of a vector of sums that begins at a column.
    window : int
        How many consecutive steps of a sum are written out one by one, each by its number; they divide `inner`.
    spot : callable or None
        ``spot(column)`` returns numbers that say where a column is; `right` is given them for one column and, unless
        `is_gathered` is set, returns the vector that begins there. None where it is given columns.
    is_gathered : bool
        Whether columns are gathered one by one into panels.
    dtype : str
        The data type of the operands and of the sums: float32 or float64.
    term : callable
        ``term(x, y)`` returns what is added up for elements of the left and of the right operand, or vectors of them.
    """

    outer: Sequence[tirx.Expr]
    rows: tirx.Expr
    columns: tirx.Expr
    inner: tirx.Expr
    left: Callable[[Place, tirx.Expr, tirx.Expr], tirx.Expr]
    right: Callable[..., tirx.Expr]
    is_left_along: bool
    is_transposed: bool
    finish: Callable[[Place, tirx.Expr, tirx.Expr, int, tirx.Expr], None]
    window: int = 1
    spot: Callable[[tirx.Expr], Sequence[Size]] | None = None
    is_gathered: bool = False
    dtype: str = "float32"
    term: Callable[[tirx.Expr, tirx.Expr], tirx.Expr] = mul

    @property
    def bits(self) -> int:
        """How many bits a number has."""
        return 64 if self.dtype == "float64" else 32

    def zeros(self, lanes: int) -> tirx.Expr:
        """Return a vector of zeros."""
        return splat(0.0, lanes, self.dtype)


@dataclass(frozen=True)
class Tile:
    """How a product is computed that has as many rows as a tile, and as many columns as a vector, or more.

    Attributes
    ----------
    rows, vectors, lanes : int
        How much of the result is in registers: rows of vectors of so many lanes.
    unrolled : int
        How many steps of the sum one iteration has; they divide it.
    chunk : int
        How many tiles go by a panel before the next one is made.
    is_packed : bool
        Whether panels are copied, so that what a tile reads is in one piece.
    is_dot : bool
        Whether vectors go along the sums instead, for each row by itself; the operands allow that.
    parallel : bool
        Whether tiles are shared among cores.
    is_streamed : bool
        Whether the right operand is read row by row, as it comes fastest from memory, for each row by itself.
    """

    rows: int
    vectors: int
    lanes: int
    unrolled: int
    chunk: int
    is_packed: bool
    is_dot: bool
    parallel: bool
    is_streamed: bool = False


def emit_product(product: Product, tiles: Sequence[Tile], least: int = 2) -> None:
    """Write the loops of a product into the builder at hand.

    The first of `tiles` that is not larger than the result computes it; where none is, the result is empty.

    Parameters
    ----------
    product : Product
        What is multiplied.
    tiles : sequence of Tile
        The largest first.
    least : int
        The size of a tile from which on it is compared with that of the result.
    """
    first, *others = tiles
    fits = [(size, of_tile) for size, of_tile in ((product.rows, first.rows), (product.columns, first.lanes))]
    unsure = [size >= of_tile for size, of_tile in fits if of_tile >= least and not isinstance(size, tirx.IntImm)]
    if not unsure:
        _loops(product, first)
        return
    with T.If(reduce(tirx.And, unsure)):
        with T.Then():
            _loops(product, first)
        if others:
            with T.Else():
                # Of `n * 21` columns, fewer than a vector has, TVM proves that there are none, and divides by how many
                # tiles they make, unless what it has proved not to run says so itself.
                emit_product(product, others, least=1)


def _loops(p: Product, t: Tile) -> None:
    width = t.lanes if t.is_dot else t.lanes * t.vectors
    blocks = _ceildiv(p.columns, width)
    tiles = integer(1) if t.is_dot or t.is_streamed else _ceildiv(p.rows, t.rows)
    groups = _ceildiv(tiles, t.chunk)
    count = reduce(mul, p.outer, groups * blocks)
    with (in_parallel if t.parallel else loop)(count) as work:
        at, block = _divided(work, blocks)
        at, group = _divided(at, groups)
        place = place_of(at, p.outer)
        if t.is_dot:
            _dots(p, t, place, _start(p.columns, block * width, t.lanes, width))
            return
        if t.is_streamed:
            _stream(p, t, place, block * width)
            return
        starts = [_start(p.columns, block * width + v * t.lanes, t.lanes, width) for v in range(t.vectors)]
        read = _panel(p, t, place, block * width) if t.is_packed else _rows_of_right(p, t, place, starts)
        with loop(tirx.Min(integer(t.chunk), tiles - group * t.chunk)) as part:
            row = _start(p.rows, (group * t.chunk + part) * t.rows, t.rows, t.rows)
            _tile(p, t, place, row, starts, read)


def _tile(
    p: Product,
    t: Tile,
    place: Place,
    row: tirx.Expr,
    starts: Sequence[tirx.Expr],
    read: Callable[..., tirx.Expr],
) -> None:
    """Compute a tile of the result.

    ``read(k, v)`` returns a vector of the right operand; ``read(k, v, step)`` one of a window that no panel has.
    """
    total = _totals(p, t.rows * t.vectors, t.lanes)
    is_by_window = p.window > 1 and not t.is_packed
    steps = p.window if is_by_window else t.unrolled
    with loop(tirx.floordiv(p.inner, steps)) as outer:
        window = in_register(outer) if is_by_window else outer
        for step in range(steps):
            k = in_register(outer * steps + step)
            columns = [T.Bind(read(window, v, step) if is_by_window else read(k, v)) for v in range(t.vectors)]
            for r in range(t.rows):
                x = T.Bind(broadcast(p.left(place, row + r, k), t.lanes))
                for v in range(t.vectors):
                    _add(total, r * t.vectors + v, p.term(x, columns[v]), t.lanes)
    for r in range(t.rows):
        for v in range(t.vectors):
            p.finish(place, row + r, starts[v], t.lanes, _sum(total, r * t.vectors + v, t.lanes))


def _rows_of_right(p: Product, t: Tile, place: Place, starts: Sequence[tirx.Expr]) -> Callable[..., tirx.Expr]:
    columns = [_column(p, start, t.lanes) for start in starts]
    return lambda k, v, *step: p.right(place, k, columns[v], *step)


def _panel(p: Product, t: Tile, place: Place, first: tirx.Expr) -> Callable[..., tirx.Expr]:
    """Copy what a block of columns needs of the right operand, sums outermost; return how it is read."""
    width = t.vectors * t.lanes
    panel = memory(tirx.Max(p.inner, integer(1)) * width, p.dtype)

    def at(k: tirx.Expr, v: Size) -> tirx.Expr:
        return ramp(k * width + v * t.lanes, t.lanes)

    def start_of(v: Size) -> tirx.Expr:
        return _start(p.columns, first + v * t.lanes, t.lanes, width)

    def by_windows() -> None:
        count = t.lanes if p.is_gathered else 1
        columns = [
            _column(p, start_of(v) + lane if count > 1 else start_of(v), 1 if p.is_gathered else t.lanes)
            for v in range(t.vectors)
            for lane in range(count)
        ]
        with loop(tirx.floordiv(p.inner, p.window)) as k:
            for step in range(p.window):
                for number, column in enumerate(columns):
                    first = (k * p.window + step) * width + number * (t.lanes // count)
                    T.buffer_store(panel, p.right(place, k, column, step), [ramp(first, t.lanes // count)])

    def plainly() -> None:
        with loop(p.inner) as k:
            for v in range(t.vectors):
                start = start_of(v)
                if p.is_transposed and t.lanes > 1:
                    with loop(t.lanes) as lane:
                        T.buffer_store(panel, p.right(place, k, start + lane), [k * width + v * t.lanes + lane])
                else:
                    T.buffer_store(panel, p.right(place, k, ramp(start, t.lanes)), [at(k, v)])

    def in_squares() -> None:
        with loop(_ceildiv(p.inner, t.lanes)) as square:
            k = _start(p.inner, square * t.lanes, t.lanes, t.lanes)
            with loop(t.vectors) as v:
                start = start_of(v)
                rows = [T.Bind(p.right(place, ramp(k, t.lanes), start + lane)) for lane in range(t.lanes)]
                for lane, column in enumerate(transposed(rows, t.lanes, p.bits)):
                    T.buffer_store(panel, column, [at(k + lane, v)])

    if p.spot is not None or p.window > 1:
        by_windows()
    elif not p.is_transposed or t.lanes == 1:
        plainly()
    else:
        either(p.inner >= t.lanes, in_squares, plainly)
    return lambda k, v: panel[at(k, v)]


def _column(p: Product, start: tirx.Expr, lanes: int) -> tirx.Expr | list[Size]:
    """Return what the right operand is given for a vector that begins at a column."""
    return ramp(start, lanes) if p.spot is None else [in_register(each) for each in p.spot(start)]


def _dots(p: Product, t: Tile, place: Place, column: tirx.Expr) -> None:
    """Compute as many columns as a vector has lanes, each row by itself, a vector of partial sums for each column."""
    lanes = t.lanes
    whole, rest = tirx.floordiv(p.inner, lanes), tirx.floormod(p.inner, lanes)
    lane = ramp(integer(0), lanes)
    with loop(p.rows) as row:
        total = _totals(p, lanes, lanes)

        def add(
            begin: tirx.Expr,
            row: tirx.Expr = row,
            total: tirx.Buffer = total,
            is_new: tirx.Expr | None = None,
        ) -> None:
            k = ramp(begin, lanes)
            x = T.Bind(p.left(place, row, k))
            for c in range(lanes):
                product = p.term(x, p.right(place, k, column + c))
                _add(total, c, product if is_new is None else tirx.Select(is_new, product, p.zeros(lanes)), lanes)

        def add_end() -> None:
            # Of the last vector, which begins earlier, only what has not been added yet.
            add(in_register(p.inner - lanes), is_new=lane >= broadcast(lanes - rest, lanes))

        def add_few(row: tirx.Expr = row, total: tirx.Buffer = total) -> None:
            with loop(rest) as k:
                x = p.left(place, row, k)
                for c in range(lanes):
                    product = broadcast(p.term(x, p.right(place, k, column + c)), lanes)
                    is_first = tirx.EQ(lane, broadcast(integer(0), lanes))
                    _add(total, c, tirx.Select(is_first, product, p.zeros(lanes)), lanes)

        with loop(whole) as step:
            add(in_register(step * lanes))
        if lanes > 1:
            either(rest > 0, lambda: either(p.inner >= lanes, add_end, add_few))
        sums = sums_of([T.Bind(_sum(total, c, lanes)) for c in range(lanes)], lanes)
        p.finish(place, row, column, lanes, sums)


def _stream(p: Product, t: Tile, place: Place, first: tirx.Expr) -> None:
    """Compute a block of columns, each row by itself, whose sums are in the nearest cache meanwhile."""
    lanes = t.lanes
    count = tirx.Min(integer(t.vectors), _ceildiv(p.columns - first, lanes))
    sums = memory(integer(t.vectors * lanes), p.dtype)

    def add(row: tirx.Expr, k: tirx.Expr, steps: int) -> None:
        x = [T.Bind(broadcast(p.left(place, row, k + step), lanes)) for step in range(steps)]
        with loop(count) as v:
            column = ramp(in_register(tirx.Min(first + v * lanes, p.columns - lanes)), lanes)
            total = sums[ramp(v * lanes, lanes)]
            for step in range(steps):
                total = T.Bind(total + p.term(x[step], p.right(place, k + step, column)))
            T.buffer_store(sums, total, [ramp(v * lanes, lanes)])

    with loop(p.rows) as row:
        with loop(count) as v:
            T.buffer_store(sums, p.zeros(lanes), [ramp(v * lanes, lanes)])
        with loop(tirx.floordiv(p.inner, _STREAMS)) as steps:
            add(row, in_register(steps * _STREAMS), _STREAMS)
        with loop(tirx.floormod(p.inner, _STREAMS)) as step:
            add(row, in_register(tirx.floordiv(p.inner, _STREAMS) * _STREAMS + step), 1)
        with loop(count) as v:
            column = in_register(tirx.Min(first + v * lanes, p.columns - lanes))
            p.finish(place, row, column, lanes, sums[ramp(v * lanes, lanes)])


def _totals(p: Product, count: int, lanes: int) -> tirx.Buffer:
    total = local(integer(count * lanes), dtype=p.dtype)
    for at in range(count):
        T.buffer_store(total, p.zeros(lanes), [ramp(integer(at * lanes), lanes)])
    return total


def _sum(total: tirx.Buffer, at: int, lanes: int) -> tirx.Expr:
    return total[ramp(integer(at * lanes), lanes)]


def _add(total: tirx.Buffer, at: int, value: tirx.Expr, lanes: int) -> None:
    T.buffer_store(total, _sum(total, at, lanes) + value, [ramp(integer(at * lanes), lanes)])


def _start(size: tirx.Expr, begin: tirx.Expr, least: int, step: int) -> tirx.Expr:
    """Return where a part of an axis begins that is one of several every `step`, and ends with the axis at last."""
    if isinstance(size, tirx.IntImm) and int(size) % step == 0:
        return in_register(begin)
    return in_register(tirx.Min(begin, size - least))


def place_of(at: tirx.Expr, sizes: Sequence[tirx.Expr]) -> Place:
    """Return the index of each axis for a position among all of them."""
    found: list[tirx.Expr] = []
    for size in reversed(sizes[1:]):
        at, index = _divided(at, size)
        found.insert(0, index)
    return [at, *found] if sizes else []


def _divided(value: tirx.Expr, size: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr]:
    """Return the quotient and the rest of a place by a size, which is 0 only where no loop comes to the place."""
    if isinstance(size, tirx.IntImm) and int(size) == 1:
        return value, integer(0)
    # TVM refuses a division where it can prove that the size is 0, as it can in a branch for few rows.
    if not isinstance(size, tirx.IntImm):
        size = tirx.Max(size, integer(1))
    return T.Bind(tirx.floordiv(value, size)), T.Bind(tirx.floormod(value, size))


def _ceildiv(value: tirx.Expr, size: int) -> tirx.Expr:
    return tirx.floordiv(value + (size - 1), integer(size))
