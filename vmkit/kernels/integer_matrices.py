"""Products of matrices of integers that are known at run time only, summed up in int32 by instructions for pairs.

An instruction multiplies pairs of int16 and adds each pair's products as int32. Pairs of the left operand follow each
other in memory; those of the right one are put side by side, in panels where several rows go by them. Vectors and
tiles at the end of an axis begin earlier and compute some elements again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import tirx

from .._dataclasses import dataclass
from ..target.integer_unit import IntegerUnit
from .builder import (
    Size,
    T,
    as_expr,
    broadcast,
    either,
    in_parallel,
    in_register,
    integer,
    kernel,
    local,
    loop,
    memory,
    ramp,
    reinterpreted,
    shuffled,
)
from .packed_product.integer_code import multiply_groups, start_sum

__all__ = ["NEEDS_LANES", "IntegerMatrices", "integer_matrices"]

NEEDS_LANES = "vmkit.needs_integer_lanes"
"""The attribute of a kernel that says how many int32 the vectors have whose instructions it calls."""

_ROWS, _VECTORS = 4, 2  # of a tile, which leave registers for what they are computed from on every unit
_LINE = 64  # columns of 8 bits that a row by itself reads together
_CHUNK = 48  # tiles that repay the making of a panel

Read = Callable[[tirx.Expr, int], tirx.Expr]
"""Returns a vector of pairs of the right operand: for the number of a pair, and that of a vector."""


@dataclass(frozen=True)
class IntegerMatrices:
    """What a kernel multiplies; sizes that are known at run time only are None.

    Attributes
    ----------
    batches : tuple of int or None
        How many matrices the result has, and each operand, which may have one for all.
    rows, inner, columns : int or None
        Sizes of a product.
    dtype : str
        The data type of the right operand: int8, uint8 or int16.
    lanes : int
        How many int32 a vector has.
    """

    batches: tuple[int | None, int | None, int | None]
    rows: int | None
    inner: int | None
    columns: int | None
    dtype: str
    lanes: int


@dataclass(frozen=True)
class _Product:
    """One product of two matrices: numbers of the operands and of the result, each in one axis, and places in them."""

    unit: IntegerUnit
    left: tirx.Buffer
    right: tirx.Buffer
    out: tirx.Buffer
    rows: tirx.Expr
    inner: tirx.Expr
    columns: tirx.Expr
    places: tuple[tirx.Expr, tirx.Expr, tirx.Expr]

    @property
    def lanes(self) -> int:
        return self.unit.lanes


def integer_matrices(shape: IntegerMatrices) -> tirx.PrimFunc:
    """Return the kernel ``out = left @ right``: (b, rows, inner) of int16 by (b, inner, columns) gives int32."""
    unit = IntegerUnit(shape.lanes, 2, 0)
    with kernel() as builder:
        handles = [T.arg(name, T.handle()) for name in ("left", "right", "out")]

        def size(known: int | None, name: str) -> tirx.Expr:
            return tirx.Var(name, "int64") if known is None else integer(known)

        batch, of_left, of_right = (size(n, name) for n, name in zip(shape.batches, "bpq", strict=True))
        rows, inner, columns = size(shape.rows, "m"), size(shape.inner, "k"), size(shape.columns, "n")
        sizes = ([of_left, rows, inner], [of_right, inner, columns], [batch, rows, columns])
        dtypes = ("int16", shape.dtype, "int32")
        buffers = [
            T.match_buffer(handle, dims, dtype, layout=None)
            for handle, dims, dtype in zip(handles, sizes, dtypes, strict=True)
        ]
        left, right, out = (
            T.decl_buffer([dims[0] * dims[1] * dims[2]], dtype, data=buffer.data, layout=None)
            for buffer, dims, dtype in zip(buffers, sizes, dtypes, strict=True)
        )

        def product(at: tirx.Expr) -> _Product:
            own = [tirx.Min(at, count - 1) for count in (of_left, of_right)]
            first, second = (in_register(n * of) for n, of in zip(own, (rows * inner, inner * columns), strict=True))
            places = first, second, in_register(at * rows * columns)
            return _Product(unit, left, right, out, rows, inner, columns, places)

        def by_vectors() -> None:
            either(rows >= _ROWS, lambda: _tiles(product, batch, size_of), lambda: _single(product, batch, size_of))

        size_of = (rows, columns, shape.lanes)
        either(
            columns >= shape.lanes,
            by_vectors,
            lambda: either(columns > 0, lambda: _narrow(product, batch)),  # of none there is nothing to read
        )
    return builder.get().with_attr(NEEDS_LANES, shape.lanes)


def _tiles(product: Callable[[tirx.Expr], _Product], batch: tirx.Expr, sizes: tuple[tirx.Expr, tirx.Expr, int]) -> None:
    """Compute tiles of several rows, for each block of columns those of a chunk one after another."""
    rows, columns, lanes = sizes
    width = _VECTORS * lanes
    blocks, tiles = _ceildiv(columns, width), _ceildiv(rows, _ROWS)
    groups = _ceildiv(tiles, _CHUNK)
    with in_parallel(batch * groups * blocks) as work:
        at, block, group = _place(work, groups, blocks)
        p = product(at)
        starts = [in_register(tirx.Min(block * width + v * lanes, columns - lanes)) for v in range(_VECTORS)]
        read = _panel(p, starts)
        with loop(tirx.Min(integer(_CHUNK), tiles - group * _CHUNK)) as part:
            row = in_register(tirx.Min((group * _CHUNK + part) * _ROWS, rows - _ROWS))
            _tile(p, row, _ROWS, _VECTORS, read, _to_vectors(p, starts))


def _single(
    product: Callable[[tirx.Expr], _Product], batch: tirx.Expr, sizes: tuple[tirx.Expr, tirx.Expr, int]
) -> None:
    """Compute each row by itself, for which no panel is made."""
    rows, columns, lanes = sizes
    vectors = _LINE // lanes
    if isinstance(columns, tirx.IntImm):
        vectors = min(vectors, -(-int(columns) // lanes))
    blocks = _ceildiv(columns, vectors * lanes)
    with in_parallel(batch * rows * blocks) as work:
        at, block, row = _place(work, rows, blocks)
        p = product(at)
        starts = [in_register(tirx.Min((block * vectors + v) * lanes, columns - lanes)) for v in range(vectors)]
        _tile(p, row, 1, vectors, lambda pair, v: _side_by_side(p, pair, starts[v]), _to_vectors(p, starts))


def _narrow(product: Callable[[tirx.Expr], _Product], batch: tirx.Expr) -> None:
    """Compute products of fewer columns than a vector has."""
    with in_parallel(batch) as at:
        p = product(at)
        lanes, panel = p.lanes, memory(tirx.Max(_pairs(p), integer(1)) * (2 * p.lanes), "int16")
        with loop(_pairs(p)) as pair, loop(lanes) as lane:
            for number, k in enumerate(_rows_of_pair(p, pair)):
                value = p.right[p.places[1] + k * p.columns + tirx.Min(lane, p.columns - 1)]
                T.buffer_store(panel, value.astype("int16"), [(pair * lanes + lane) * 2 + number])

        def store(row: tirx.Expr, v: int, sums: tirx.Expr) -> None:
            kept = local(lanes, dtype="int32")
            T.buffer_store(kept, sums, [ramp(integer(0), lanes)])
            with loop(p.columns) as column:
                T.buffer_store(p.out, kept[column], [p.places[2] + row * p.columns + column])

        with loop(p.rows) as row:
            _tile(p, row, 1, 1, lambda pair, v: panel[ramp(pair * (2 * lanes), 2 * lanes)], store)


def _tile(
    p: _Product,
    row: tirx.Expr,
    rows: int,
    vectors: int,
    read: Read,
    store: Callable[[tirx.Expr, int, tirx.Expr], None],
) -> None:
    """Compute some rows of some vectors of the result."""
    totals = [[start_sum(p.unit) for _ in range(vectors)] for _ in range(rows)]
    begins = [in_register(p.places[0] + (row + r) * p.inner) for r in range(rows)]
    numbers = f"int16x{2 * p.lanes}"

    def add(pair: tirx.Expr, pair_of: Callable[[tirx.Expr], tirx.Expr]) -> None:
        weights = [T.Bind(read(pair, v)) for v in range(vectors)]
        for begin, of_row in zip(begins, totals, strict=True):
            both = T.Bind(reinterpreted(numbers, broadcast(pair_of(begin), p.lanes)))
            for total, weight in zip(of_row, weights, strict=True):
                multiply_groups(p.unit, total, both, weight)

    with loop(tirx.floordiv(p.inner, 2)) as step:
        pair = in_register(step)
        add(pair, lambda begin: reinterpreted("int32", p.left[ramp(begin + pair * 2, 2)]))

    def add_last() -> None:
        # The second number of the last pair is 0, whatever stands beside it.
        last = p.inner - 1
        add(
            in_register(tirx.floordiv(last, 2)), lambda b: p.left[b + last].astype("int32") & tirx.const(65535, "int32")
        )

    either(tirx.floormod(p.inner, 2) > 0, add_last)
    for r, of_row in enumerate(totals):
        for v, total in enumerate(of_row):
            store(row + r, v, total[0])


def _to_vectors(p: _Product, starts: Sequence[tirx.Expr]) -> Callable[[tirx.Expr, int, tirx.Expr], None]:
    def store(row: tirx.Expr, v: int, sums: tirx.Expr) -> None:
        T.buffer_store(p.out, sums, [ramp(p.places[2] + row * p.columns + starts[v], p.lanes)])

    return store


def _panel(p: _Product, starts: Sequence[tirx.Expr]) -> Read:
    """Copy the pairs of some vectors of columns, the pairs' numbers outermost; return how they are read."""
    width, numbers = 2 * p.lanes * len(starts), 2 * p.lanes
    panel = memory(tirx.Max(_pairs(p), integer(1)) * width, "int16")

    def at(pair: tirx.Expr, v: int) -> tirx.Expr:
        return ramp(pair * width + v * numbers, numbers)

    with loop(_pairs(p)) as pair:
        for v, start in enumerate(starts):
            T.buffer_store(panel, _side_by_side(p, pair, start), [at(pair, v)])
    return lambda pair, v: panel[at(pair, v)]


def _side_by_side(p: _Product, pair: tirx.Expr, column: tirx.Expr) -> tirx.Expr:
    """Return a vector of the pairs of a vector of columns, read from two rows of the right operand."""
    rows = [p.right[ramp(p.places[1] + k * p.columns + column, p.lanes)] for k in _rows_of_pair(p, pair)]
    order = [lane + number * p.lanes for lane in range(p.lanes) for number in range(2)]
    return shuffled(T.Bind(rows[0]), T.Bind(rows[1]), order).astype(f"int16x{2 * p.lanes}")


def _rows_of_pair(p: _Product, pair: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr]:
    """Return the rows of the right operand of a pair, of which the last one may have one alone."""
    if isinstance(p.inner, tirx.IntImm) and int(p.inner) % 2 == 0:
        return pair * 2, pair * 2 + 1
    return pair * 2, in_register(tirx.Min(pair * 2 + 1, p.inner - 1))


def _pairs(p: _Product) -> tirx.Expr:
    return _ceildiv(p.inner, 2)


def _place(work: tirx.Expr, groups: tirx.Expr, blocks: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr, tirx.Expr]:
    """Return the matrix, the block of columns and the group of rows of a part of the work."""
    # A count is 0 only where there is no work.
    blocks, groups = (n if isinstance(n, tirx.IntImm) else tirx.Max(n, integer(1)) for n in (blocks, groups))
    block, rest = T.Bind(tirx.floormod(work, blocks)), T.Bind(tirx.floordiv(work, blocks))
    return T.Bind(tirx.floordiv(rest, groups)), block, T.Bind(tirx.floormod(rest, groups))


def _ceildiv(value: Size, size: int) -> tirx.Expr:
    return tirx.floordiv(as_expr(value) + (size - 1), integer(size))
