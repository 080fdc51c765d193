"""The distinct rows of a matrix, in order or as they first appear.

Rows are found by a hash table with open addressing, which grows with what was found and so stays in the cache where
few rows differ; the distinct rows alone are sorted. Bits are mixed by the multiplier of xxHash (XXH64's first prime).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Call
from ..ir.tuple_wrapper import TupleWrapper
from ..ir.types import Any as AnyDim
from ..ir.types import TensorType, TupleType, Type
from .attrs import Attrs, Bool, attrs_node, field
from .digit_sort import DIGITS, DigitSort, bits_of, digits_of, ordered_bits
from .elementwise import require_tensor
from .kernel import const, grid, loops
from .registry import OpPattern, Parameters, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []

_MULTIPLIER = 0x9E3779B185EBCA87
_MOST_ROWS = (1 << 31) - 1
_FIRST_CAPACITY = 256
"""Slots of the table at the beginning; a power of two."""


@attrs_node("relay.attrs.ContribUniqueRowsAttrs")
class UniqueRowsAttrs(Attrs):
    """Attributes of contrib.unique_rows."""

    sorted: Bool = field(True, doc="Whether the rows are in order; as they first appear otherwise.")


@operator(
    "contrib.unique_rows",
    "data",
    attrs=UniqueRowsAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters("data is_sorted", renamed={"is_sorted": "sorted"}),
)
class UniqueRows:
    """The distinct rows of a matrix: the first position of each, which of them each row is, and how often each occurs.

    All are int64 vectors; the first and the last are as long as there are distinct rows.
    """

    @staticmethod
    def value(call: Call) -> TupleWrapper:
        return TupleWrapper(call, 3)

    @staticmethod
    def relation(attrs: UniqueRowsAttrs, data: Type) -> Type:
        source = require_tensor(data)
        if len(source.shape) != 2:
            raise TypeCheckError(f"the input must be a matrix, not {source}")
        some = TensorType([AnyDim()], "int64")
        return TupleType([some, TensorType([source.shape[0]], "int64"), some])

    @staticmethod
    def lower(context: LowerContext, attrs: UniqueRowsAttrs, data: relax.Expr) -> tuple[relax.Expr, ...]:
        rows, columns = context.shape(data)
        if not isinstance(rows, int) or rows > _MOST_ROWS:
            context.require(rows <= _MOST_ROWS, f"contrib.unique_rows: there are more than {_MOST_ROWS} rows")
        vector: Any = ([rows], "int64")
        # Half of the slots are free at least: at the last doubling there are less than four for each row.
        slots: Any = ([dims.add(dims.mul(rows, 4), _FIRST_CAPACITY)], "int32")
        results = [vector, vector, vector, ([1], "int64"), slots]
        inverse, first, counts, total, _ = loops(context, results, _find, data, name="unique_rows_groups")
        (found,) = context.read_dims(total)
        vectors: list[Any] = [([found], "int64"), ([found], "int64")]
        if not attrs.sorted:
            positions, numbers = loops(context, vectors, _shorten, first, counts, name="unique_rows_found")
            return positions, inverse, numbers
        scratch: list[Any] = [([found], "int64"), ([2], "int64"), ([2], "int64")]
        if columns == 1:
            scratch = [([2, found], "uint64"), ([2, found], "int64"), ([DIGITS], "int64")]
        sort = _sort_numbers if columns == 1 else _sort_rows
        positions = loops(context, [*vectors[:1], *scratch], sort, data, first, name="unique_rows_order")[0]
        results = [vector, *vectors]
        inverse, numbers, _ = loops(context, results, _rename, positions, counts, inverse, name="unique_rows_found")
        return positions, inverse, numbers


def _find(outputs: list[tirx.Buffer], x: tirx.Buffer) -> None:
    """Write which group each row belongs to, groups as they first appear, and each group's first row and size."""
    inverse, first, counts, total, slots = outputs
    table = _Table(x, first, slots)
    found = T.alloc_buffer((1,), "int64", scope="local", layout=None)
    T.buffer_store(found, const(0), [0])
    table.clear()
    with grid([x.shape[0]]) as (i,):
        group = table.search(i, found[0])
        with T.If(group == found[0]), T.Then():
            T.buffer_store(first, i, [group])
            T.buffer_store(counts, const(0), [group])
            T.buffer_store(found, group + 1, [0])
        T.buffer_store(inverse, group, [i])
        T.buffer_store(counts, counts[group] + 1, [group])
        with T.If(found[0] * 2 > table.capacity[0]), T.Then():
            table.grow(found[0])
    T.buffer_store(total, found[0], [0])


class _Table:
    """Writes the code of a hash table of groups of equal rows; a slot that is free holds -1."""

    def __init__(self, x: tirx.Buffer, first: tirx.Buffer, slots: tirx.Buffer) -> None:
        self.x, self.first, self.slots = x, first, slots
        self.capacity = T.alloc_buffer((1,), "int64", scope="local", layout=None)
        self.hash = T.alloc_buffer((1,), "uint64", scope="local", layout=None)
        self.slot = T.alloc_buffer((1,), "int64", scope="local", layout=None)
        self.group = T.alloc_buffer((1,), "int64", scope="local", layout=None)
        self.same = T.alloc_buffer((1,), "int32", scope="local", layout=None)
        T.buffer_store(self.capacity, const(_FIRST_CAPACITY), [0])

    def clear(self) -> None:
        with grid([self.capacity[0]]) as (s,):
            T.buffer_store(self.slots, tirx.const(-1, "int32"), [s])

    def search(self, row: tirx.Expr, fresh: tirx.Expr) -> tirx.Expr:
        """Return the group of a row; where there is none, `fresh`, which then stands in the table."""
        self._start(row)
        T.buffer_store(self.group, const(-1), [0])
        with T.While(self.group[0] < 0):
            held = T.bind(self.slots[self.slot[0]].astype("int64"))
            with T.If(held < 0):
                with T.Then():
                    T.buffer_store(self.slots, fresh.astype("int32"), [self.slot[0]])
                    T.buffer_store(self.group, fresh, [0])
                with T.Else():
                    self._compare(self.first[held], row)
                    with T.If(self.same[0] != 0):
                        with T.Then():
                            T.buffer_store(self.group, held, [0])
                        with T.Else():
                            self._advance()
        return T.bind(self.group[0])

    def grow(self, found: tirx.Expr) -> None:
        """Double the capacity, and enter the groups again."""
        T.buffer_store(self.capacity, self.capacity[0] * 2, [0])
        self.clear()
        with grid([found]) as (g,):
            self._start(T.bind(self.first[g]))
            with T.While(self.slots[self.slot[0]] >= tirx.const(0, "int32")):
                self._advance()
            T.buffer_store(self.slots, g.astype("int32"), [self.slot[0]])

    def _start(self, row: tirx.Expr) -> None:
        T.buffer_store(self.hash, tirx.const(0, "uint64"), [0])
        shift = tirx.const(32, "uint64")
        with grid([self.x.shape[1]]) as (c,):
            mixed = T.bind((self.hash[0] ^ bits_of(self.x[row, c])) * tirx.const(_MULTIPLIER, "uint64"))
            T.buffer_store(self.hash, mixed ^ (mixed >> shift), [0])
        T.buffer_store(self.slot, self._within(self.hash[0].astype("int64")), [0])

    def _advance(self) -> None:
        T.buffer_store(self.slot, self._within(self.slot[0] + 1), [0])

    def _within(self, slot: tirx.Expr) -> tirx.Expr:
        return slot & (self.capacity[0] - 1)

    def _compare(self, a: tirx.Expr, b: tirx.Expr) -> None:
        T.buffer_store(self.same, tirx.const(1, "int32"), [0])
        with grid([self.x.shape[1]]) as (c,):
            left, right = bits_of(self.x[a, c]), bits_of(self.x[b, c])
            T.buffer_store(self.same, self.same[0] & (left == right).astype("int32"), [0])


def _shorten(outputs: list[tirx.Buffer], *wholes: tirx.Buffer) -> None:
    for out, whole in zip(outputs, wholes, strict=True):
        with grid(list(out.shape)) as i:
            T.buffer_store(out, whole[tuple(i)], i)


def _sort_numbers(outputs: list[tirx.Buffer], x: tirx.Buffer, first: tirx.Buffer) -> None:
    """Write the first rows of the groups in the order of their numbers."""
    order, words, rows, counts = outputs
    (size,) = order.shape
    with grid([size]) as (g,):
        row = T.bind(first[g])
        T.buffer_store(words, ordered_bits(x[row, 0]), [const(0), g])
        T.buffer_store(rows, row, [const(0), g])
    half = DigitSort(words, rows, counts).run(size, digits_of(str(x.dtype)))
    with grid([size]) as (g,):
        T.buffer_store(order, rows[half, g], [g])


def _rename(outputs: list[tirx.Buffer], positions: tirx.Buffer, counts: tirx.Buffer, inverse: tirx.Buffer) -> None:
    """Write which group in order each row is of, and the sizes of the groups in order."""
    names, numbers, place = outputs
    with grid(list(positions.shape)) as (at,):
        group = T.bind(inverse[positions[at]])
        T.buffer_store(place, at, [group])
        T.buffer_store(numbers, counts[group], [at])
    with grid(list(inverse.shape)) as (i,):
        T.buffer_store(names, place[inverse[i]], [i])


def _compare(state: tirx.Buffer, x: tirx.Buffer, a: tirx.Expr, b: tirx.Expr) -> None:
    """Write whether a row comes before (-1), equals (0) or comes behind (1) another one."""
    T.buffer_store(state, const(0), [0])
    with grid([x.shape[1]]) as (c,), T.If(state[0] == 0), T.Then():
        left, right = _comparable(x[a, c]), _comparable(x[b, c])
        sign = tirx.Select(_less(left, right), const(-1), tirx.Select(_less(right, left), const(1), const(0)))
        T.buffer_store(state, sign, [0])


def _comparable(value: tirx.Expr) -> tirx.Expr:
    dtype = str(value.ty.dtype)
    return value.astype({"bool": "int8", "float16": "float32", "bfloat16": "float32"}.get(dtype, dtype))


def _less(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    """Say whether a number comes before another one; NaN comes last, and all of them are one."""
    if not str(a.ty.dtype).startswith("float"):
        return a < b
    return tirx.all(tirx.Not(tirx.isnan(a)), tirx.any(tirx.isnan(b), a < b))


def _sort_rows(outputs: list[tirx.Buffer], x: tirx.Buffer, first: tirx.Buffer) -> None:
    """Write the first rows of the groups in the order of the rows, by merging runs of doubled lengths."""
    order, spare, state, places = outputs
    (rows,) = order.shape
    with grid([rows]) as (i,):
        T.buffer_store(order, first[i], [i])
    T.buffer_store(state, const(1), [1])
    # 63 doublings are more than any number of rows takes.
    with grid([const(63)]) as (_,), T.If(state[1] < rows), T.Then():
        width = state[1]
        with grid([tirx.floordiv(rows + 2 * width - 1, 2 * width)]) as (run,):
            begin = T.bind(run * 2 * state[1])
            middle = T.bind(tirx.min(begin + state[1], rows))
            end = T.bind(tirx.min(middle + state[1], rows))
            _merge((order, spare, state, places), x, begin, middle, end)
        with grid([rows]) as (i,):
            T.buffer_store(order, spare[i], [i])
        T.buffer_store(state, state[1] * 2, [1])


def _merge(
    buffers: tuple[tirx.Buffer, tirx.Buffer, tirx.Buffer, tirx.Buffer],
    x: tirx.Buffer,
    begin: tirx.Expr,
    middle: tirx.Expr,
    end: tirx.Expr,
) -> None:
    """Merge two neighbouring sorted runs; of equal rows that of the first run comes first."""
    order, spare, state, places = buffers

    T.buffer_store(places, begin, [0])
    T.buffer_store(places, middle, [1])
    with grid([end - begin]) as (k,):
        T.buffer_store(state, const(0), [0])
        with T.If(places[0] >= middle), T.Then():
            T.buffer_store(state, const(1), [0])
        with T.If(tirx.all(places[0] < middle, places[1] < end)), T.Then():
            _compare(state, x, order[places[0]], order[places[1]])
        with T.If(state[0] > 0):
            with T.Then():
                T.buffer_store(spare, order[places[1]], [begin + k])
                T.buffer_store(places, places[1] + 1, [1])
            with T.Else():
                T.buffer_store(spare, order[places[0]], [begin + k])
                T.buffer_store(places, places[0] + 1, [0])
