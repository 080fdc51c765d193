"""Products of matrices of integers that are known at run time only, summed up in int32 by instructions for groups.

An instruction multiplies pairs of int16, or fours of uint8 with int8, and adds each group's products as int32. Groups
of the left operand follow each other in memory; those of the right one are put side by side, in panels where several
rows go by them. Vectors and tiles at the end of an axis begin earlier and compute some elements again.
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

__all__ = ["NEEDS_UNIT", "IntegerMatrices", "integer_matrices"]

NEEDS_UNIT = "vmkit.needs_integer_unit"
"""The attribute of a kernel that says which instructions it calls: of how many int32, and of how many products each."""

_ROWS, _VECTORS = 4, 2  # of a tile, which leave registers for what they are computed from on every unit
_LINE = 64  # columns of 8 bits that a row by itself reads together
_CHUNK = 48  # tiles that repay the making of a panel

Read = Callable[[tirx.Expr, int], tirx.Expr]
"""Returns a vector of groups of the right operand: for the number of a group, and that of a vector."""


@dataclass(frozen=True)
class IntegerMatrices:
    """What a kernel multiplies; sizes that are known at run time only are None.

    Attributes
    ----------
    batches : tuple of int or None
        How many matrices the result has, and each operand, which may have one for all.
    rows, inner, columns : int or None
        Sizes of a product.
    dtypes : tuple of str
        The data types of the operands: int16 by int8, uint8 or int16, which go in pairs; uint8 by int8, in fours.
    lanes : int
        How many int32 a vector has.
    """

    batches: tuple[int | None, int | None, int | None]
    rows: int | None
    inner: int | None
    columns: int | None
    dtypes: tuple[str, str]
    lanes: int

    @property
    def group(self) -> int:
        """How many products an instruction adds to each int32."""
        return 2 if self.dtypes[0] == "int16" else 4


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

    @property
    def group(self) -> int:
        return self.unit.group

    @property
    def numbers(self) -> int:
        """How many numbers of an operand a vector has."""
        return self.unit.lanes * self.unit.group

    @property
    def dtype(self) -> str:
        """The data type of the right operand in groups."""
        return self.unit.dtypes[1]


def integer_matrices(shape: IntegerMatrices) -> tirx.PrimFunc:
    """Return the kernel ``out = left @ right``: (b, rows, inner) by (b, inner, columns) gives int32."""
    unit = IntegerUnit(shape.lanes, shape.group, 0)
    with kernel() as builder:
        handles = [T.arg(name, T.handle()) for name in ("left", "right", "out")]

        def size(known: int | None, name: str) -> tirx.Expr:
            return tirx.Var(name, "int64") if known is None else integer(known)

        batch, of_left, of_right = (size(n, name) for n, name in zip(shape.batches, "bpq", strict=True))
        rows, inner, columns = size(shape.rows, "m"), size(shape.inner, "k"), size(shape.columns, "n")
        sizes = ([of_left, rows, inner], [of_right, inner, columns], [batch, rows, columns])
        dtypes = (*shape.dtypes, "int32")
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
    return builder.get().with_attr(NEEDS_UNIT, [shape.lanes, shape.group])


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
        _tile(p, row, 1, vectors, lambda group, v: _side_by_side(p, group, starts[v]), _to_vectors(p, starts))


def _narrow(product: Callable[[tirx.Expr], _Product], batch: tirx.Expr) -> None:
    """Compute products of fewer columns than a vector has."""
    with in_parallel(batch) as at:
        p = product(at)
        lanes, panel = p.lanes, memory(tirx.Max(_groups(p), integer(1)) * p.numbers, p.dtype)
        with loop(_groups(p)) as group, loop(lanes) as lane:
            for number, k in enumerate(_rows_of_group(p, group)):
                value = p.right[p.places[1] + k * p.columns + tirx.Min(lane, p.columns - 1)]
                T.buffer_store(panel, value.astype(p.dtype), [(group * lanes + lane) * p.group + number])

        def store(row: tirx.Expr, v: int, sums: tirx.Expr) -> None:
            kept = local(lanes, dtype="int32")
            T.buffer_store(kept, sums, [ramp(integer(0), lanes)])
            with loop(p.columns) as column:
                T.buffer_store(p.out, kept[column], [p.places[2] + row * p.columns + column])

        with loop(p.rows) as row:
            _tile(p, row, 1, 1, lambda group, v: panel[ramp(group * p.numbers, p.numbers)], store)


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
    numbers = f"{p.unit.dtypes[0]}x{p.numbers}"

    def add(group: tirx.Expr, group_of: Callable[[tirx.Expr], tirx.Expr]) -> None:
        weights = [T.Bind(read(group, v)) for v in range(vectors)]
        for begin, of_row in zip(begins, totals, strict=True):
            everywhere = T.Bind(reinterpreted(numbers, broadcast(group_of(begin), p.lanes)))
            for total, weight in zip(of_row, weights, strict=True):
                multiply_groups(p.unit, total, everywhere, weight)

    with loop(tirx.floordiv(p.inner, p.group)) as step:
        group = in_register(step)
        add(group, lambda begin: reinterpreted("int32", p.left[ramp(begin + group * p.group, p.group)]))

    def add_last() -> None:
        last = in_register(tirx.floordiv(p.inner, p.group))
        add(last, lambda begin: _rest(p, begin, last))

    either(tirx.floormod(p.inner, p.group) > 0, add_last)
    for r, of_row in enumerate(totals):
        for v, total in enumerate(of_row):
            store(row + r, v, total[0])


def _rest(p: _Product, begin: tirx.Expr, group: tirx.Expr) -> tirx.Expr:
    """Return the last group of a row, whose numbers behind the end are 0, whatever stands there."""
    bits, zero = 32 // p.group, tirx.const(0, "int32")
    value = zero
    for number in range(p.group):
        at = group * p.group + number
        found = p.left[begin + tirx.Min(at, p.inner - 1)].astype("int32") & tirx.const((1 << bits) - 1, "int32")
        value = value | (tirx.Select(at < p.inner, found, zero) << tirx.const(bits * number, "int32"))
    return value


def _to_vectors(p: _Product, starts: Sequence[tirx.Expr]) -> Callable[[tirx.Expr, int, tirx.Expr], None]:
    def store(row: tirx.Expr, v: int, sums: tirx.Expr) -> None:
        T.buffer_store(p.out, sums, [ramp(p.places[2] + row * p.columns + starts[v], p.lanes)])

    return store


def _panel(p: _Product, starts: Sequence[tirx.Expr]) -> Read:
    """Copy the groups of some vectors of columns, the groups' numbers outermost; return how they are read."""
    width = p.numbers * len(starts)
    panel = memory(tirx.Max(_groups(p), integer(1)) * width, p.dtype)

    def at(group: tirx.Expr, v: int) -> tirx.Expr:
        return ramp(group * width + v * p.numbers, p.numbers)

    with loop(_groups(p)) as group:
        for v, start in enumerate(starts):
            T.buffer_store(panel, _side_by_side(p, group, start), [at(group, v)])
    return lambda group, v: panel[at(group, v)]


def _side_by_side(p: _Product, group: tirx.Expr, column: tirx.Expr) -> tirx.Expr:
    """Return a vector of the groups of a vector of columns, read from rows of the right operand."""
    rows = [T.Bind(p.right[ramp(p.places[1] + k * p.columns + column, p.lanes)]) for k in _rows_of_group(p, group)]
    pairs = [_interleaved(rows[at], rows[at + 1], p.lanes) for at in range(0, len(rows), 2)]
    if len(pairs) == 1:
        return pairs[0].astype(f"int16x{p.numbers}")
    one, other = (T.Bind(reinterpreted(f"int16x{p.lanes}", pair)) for pair in pairs)
    return reinterpreted(f"int8x{p.numbers}", _interleaved(one, other, p.lanes))


def _interleaved(one: tirx.Expr, other: tirx.Expr, lanes: int) -> tirx.Expr:
    """Return the elements of two vectors by turns."""
    return shuffled(one, other, [lane + number * lanes for lane in range(lanes) for number in range(2)])


def _rows_of_group(p: _Product, group: tirx.Expr) -> list[tirx.Expr]:
    """Return the rows of the right operand of a group, of which the last group may have fewer."""
    rows = [group * p.group + number for number in range(p.group)]
    if isinstance(p.inner, tirx.IntImm) and int(p.inner) % p.group == 0:
        return rows
    return [rows[0], *(in_register(tirx.Min(row, p.inner - 1)) for row in rows[1:])]


def _groups(p: _Product) -> tirx.Expr:
    return _ceildiv(p.inner, p.group)


def _place(work: tirx.Expr, groups: tirx.Expr, blocks: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr, tirx.Expr]:
    """Return the matrix, the block of columns and the group of rows of a part of the work."""
    # A count is 0 only where there is no work.
    blocks, groups = (n if isinstance(n, tirx.IntImm) else tirx.Max(n, integer(1)) for n in (blocks, groups))
    block, rest = T.Bind(tirx.floormod(work, blocks)), T.Bind(tirx.floordiv(work, blocks))
    return T.Bind(tirx.floordiv(rest, groups)), block, T.Bind(tirx.floormod(rest, groups))


def _ceildiv(value: Size, size: int) -> tirx.Expr:
    return tirx.floordiv(as_expr(value) + (size - 1), integer(size))
