"""The k best elements along an axis, in order.

Few of many are found by a heap of those found so far, the worst of them at its root: most elements are no more than
compared with it. Where a good part of a line is taken that is not short, it is sorted by digits: all of it, or, of a
long line, those elements whose first bits are no worse than those of the last one that is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tvm import DataType, relax, te, tirx
from tvm.script.ir_builder import tirx as T

from ..ir import dims
from ..ir.types import Dim
from .digit_sort import DIGITS, DigitSort, digits_of, ordered_bits
from .kernel import Result, as_index, const, grid, loops, over_lines
from .ordering import has_nan, keys_of_floats
from .registry import OpPattern

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["best_along"]

# What has no comparisons of its own is compared as something that holds all of its values.
_BITS = 32
"""What a word has for a position where the numbers leave as much of it."""
_COMPARED_AS = {"bool": "int8"}
_WIDER = {"bfloat16": "float32", "float16": "float32"}
_PART = 16
"""A line is sorted if no less than one in so many of its elements is taken."""
_FEW, _SHORT = 12, 40
"""Elements taken, and those of a line, of which a heap is done before the digits of sorting are counted."""
_PART_OF_LONG, _MANY = 64, 64
"""The same of a long line, of which few elements are left to be sorted."""
_LONG, _VERY_LONG, _FIRST_BITS = 256, 4096, 11
"""Elements of a line from which on it pays to count them by their first bits, and by so many, not one less."""


def best_along(
    context: LowerContext, data: relax.Expr, axis: int, k: Dim, smallest: bool
) -> tuple[relax.Expr, relax.Expr]:
    """Return the `k` largest or smallest elements of a lowered tensor along an axis, and their positions as int32.

    Of equal elements the first come first. `k` is at most the size of the axis. An element takes time that grows with
    the logarithm of `k`, and no more than a comparison if it is none of the best. Floats are found by integers in their
    order, so that a comparison stays one instruction.
    """
    if not has_nan(str(data.ty.dtype)):
        return _best(context, data, axis, k, smallest)
    wider = _WIDER.get(str(data.ty.dtype))
    floats = data if wider is None else context.emit(relax.op.astype(data, wider))
    keys = context.te(keys_of_floats, floats, name="in_order", pattern=OpPattern.ELEMWISE)
    _, positions = _best(context, keys, axis, k, smallest)

    def values(data: te.Tensor, positions: te.Tensor) -> te.Tensor:
        def element(*i: tirx.Expr) -> tirx.Expr:
            return data(*i[:axis], positions(*i).astype("int64"), *i[axis + 1 :])

        return te.compute(positions.shape, element, name="best")

    return context.te(values, data, positions, name="topk_values", pattern=OpPattern.INJECTIVE), positions


def _best(context: LowerContext, data: relax.Expr, axis: int, k: Dim, smallest: bool) -> tuple[relax.Expr, relax.Expr]:
    shape = context.shape(data)
    dtype = str(data.ty.dtype)
    whole = [*shape[:axis], k, *shape[axis + 1 :]]

    length = shape[axis]
    are_fixed = isinstance(k, int) and isinstance(length, int)
    sorts = not _is_not(_is_sorted(k, length))
    packed = DataType(dtype).bits <= _BITS
    # The words of a line, how many there are of each digit, and, where words leave no room for them, the positions.
    counted = DIGITS if _is_not(_is_cut(k, length)) else 1 << _FIRST_BITS
    scratch: list[Result] = [([2, length], "uint64"), ([counted], "int64")] if sorts else []
    scratch += [([2, length], "int32")] if sorts and not packed else []

    def body(outputs: list[tirx.Buffer], source: tirx.Buffer, sizes: list[tirx.Expr]) -> None:
        size, count = source.shape[axis], sizes[0]
        results, own = outputs[:2], outputs[2:]
        lines = [source.shape[d] for d in range(len(shape)) if d != axis]

        def select(rest: Sequence[tirx.Expr]) -> None:
            _Heap(results, source, count, lambda i: (*rest[:axis], i, *rest[axis:]), smallest).run(axis)

        if not sorts:
            over_lines(lines, size, select)
            return
        # Lines that are sorted have their words in the same memory, one after the other.
        with grid(lines) as rest:

            def at(i: tirx.Expr) -> tuple[tirx.Expr, ...]:
                return (*rest[:axis], i, *rest[axis:])

            if are_fixed:
                _sort_line(results, source, own, (count, size), at, smallest)
            else:
                with T.If(_is_sorted(count, size)):
                    with T.Then():
                        _sort_line(results, source, own, (count, size), at, smallest)
                    with T.Else():
                        select(rest)

    made = loops(context, [(whole, dtype), (whole, "int32"), *scratch], body, data, [k], name="topk")
    return made[0], made[1]


def _is_sorted(k: Dim, length: Dim) -> tirx.Expr:
    """Return whether a line is sorted of which `k` elements are taken; a constant for known sizes."""
    k, length = dims.as_expr(k), dims.as_expr(length)
    is_part = tirx.all(k * _PART >= length, k >= _FEW, length > _SHORT)
    return tirx.any(is_part, tirx.all(k * _PART_OF_LONG >= length, k >= _MANY, length >= _LONG))


def _is_cut(k: Dim, length: Dim) -> tirx.Expr:
    """Return whether most elements of a line that is sorted are left out before; a constant for known sizes."""
    k, length = dims.as_expr(k), dims.as_expr(length)
    return tirx.all(k * 2 <= length, length >= _LONG)


def _is_not(condition: tirx.Expr) -> bool:
    """Say whether a condition is known not to hold."""
    return isinstance(condition, tirx.IntImm) and not condition.value


def _sort_line(
    results: Sequence[tirx.Buffer],
    source: tirx.Buffer,
    scratch: Sequence[tirx.Buffer],
    sizes: tuple[tirx.Expr, tirx.Expr],
    at: Callable[[tirx.Expr], tuple[tirx.Expr, ...]],
    smallest: bool,
) -> None:
    """Write the first elements of a line of a tensor after it is sorted, and their positions."""
    (values, positions), (words, counts, *carried), (k, length) = results, scratch, sizes
    dtype = str(source.dtype)
    digits, low = digits_of(dtype), tirx.const((1 << _BITS) - 1, "uint64")
    turned = tirx.const(0, "uint64") if smallest else tirx.max_value("uint64")

    def word_at(i: tirx.Expr) -> tirx.Expr:
        return ordered_bits(source[at(i)]) ^ turned

    def write(i: tirx.Expr, place: tirx.Expr) -> None:
        word = word_at(i)
        if carried:
            T.buffer_store(carried[0], i.astype("int32"), [const(0), place])
        else:
            word = (word << tirx.const(_BITS, "uint64")) | i.astype("uint64")
        T.buffer_store(words, word, [const(0), place])

    left = T.alloc_buffer((1,), "int64", scope="local", layout=None)

    def take_all() -> None:
        T.buffer_store(left, length, [0])
        with grid([length]) as (i,):
            write(i, i)

    def take_best() -> None:
        limit = T.alloc_buffer((1,), "int64", scope="local", layout=None)
        differ = T.alloc_buffer((1,), "uint64", scope="local", layout=None)
        T.buffer_store(differ, tirx.const(1, "uint64"), [0])
        first = T.bind(word_at(const(0)))
        with grid([length]) as (i,):
            T.buffer_store(differ, differ[0] | (word_at(i) ^ first), [0])
        # The first of the bits that differ, so many of them or all.
        bits = T.bind(tirx.Select(length >= _VERY_LONG, const(_FIRST_BITS), const(_FIRST_BITS - 1)))
        numbers = T.bind(const(1) << bits)
        above = const(64) - bits - tirx.clz(differ[0]).astype("int64")
        shift = T.bind(tirx.max(above, const(0)).astype("uint64"))

        def first_bits(i: tirx.Expr) -> tirx.Expr:
            return as_index((word_at(i) >> shift) & (numbers - const(1)).astype("uint64"))

        with grid([numbers]) as (d,):
            T.buffer_store(counts, const(0), [d])
        with grid([length]) as (i,):
            T.buffer_store(counts, counts[first_bits(i)] + 1, [first_bits(i)])
        T.buffer_store(left, const(0), [0])
        T.buffer_store(limit, const(0), [0])
        with T.While(left[0] < k):
            T.buffer_store(left, left[0] + counts[limit[0]], [0])
            T.buffer_store(limit, limit[0] + 1, [0])
        T.buffer_store(left, const(0), [0])
        # Each is written where the next one goes, which the next one overwrites if it is not to stay.
        with grid([length]) as (i,):
            write(i, left[0])
            T.buffer_store(left, left[0] + (first_bits(i) < limit[0]).astype("int64"), [0])

    is_cut = _is_cut(k, length)
    if isinstance(is_cut, tirx.IntImm):
        (take_best if is_cut.value else take_all)()
    else:
        with T.If(is_cut):
            with T.Then():
                take_best()
            with T.Else():
                take_all()
    if not carried:
        digits = range(_BITS // 8, _BITS // 8 + len(digits))
    half = DigitSort(words, carried[0] if carried else None, counts).run(left[0], digits)
    with grid([k]) as (i,):
        place = T.bind(as_index(carried[0][half, i] if carried else words[half, i] & low))
        T.buffer_store(values, source[at(place)], list(at(i)))
        T.buffer_store(positions, place.astype("int32"), list(at(i)))


class _Heap:
    """Writes the code that selects along one line of a tensor. The results themselves hold the heap."""

    def __init__(
        self,
        outputs: Sequence[tirx.Buffer],
        source: tirx.Buffer,
        k: tirx.Expr | int,
        at: Callable[[tirx.Expr], tuple[tirx.Expr, ...]],
        smallest: bool,
    ) -> None:
        self.values, self.positions = outputs
        self.source, self.k, self.at, self.smallest = source, dims.as_expr(k), at, smallest
        self.item = T.alloc_buffer((1,), str(source.dtype), scope="local", layout=None)
        self.place = T.alloc_buffer((1,), "int32", scope="local", layout=None)
        self.hole = T.alloc_buffer((2,), "int64", scope="local", layout=None)  # and the larger of the two below it
        self.goes_on = T.alloc_buffer((1,), "int32", scope="local", layout=None)

    def run(self, axis: int) -> None:
        one, k = const(1), self.k
        with grid([k]) as (i,):
            self._write(i, self.source[self.at(i)], i.astype("int32"))
        with grid([k // 2]) as (i,):
            self._take(k // 2 - one - i)
            self._sift(k // 2 - one - i, k)
        # The root is the worst of the best: most elements are only compared with it.
        with grid([tirx.max(self.source.shape[axis] - k, const(0))]) as (i,):
            found = T.bind(self.source[self.at(i + k)])
            with T.If(self._beats(found, self.values[self.at(const(0))])), T.Then():
                T.buffer_store(self.item, found, [0])
                T.buffer_store(self.place, (i + k).astype("int32"), [0])
                self._sift(const(0), k)
        # One after another the worst goes to the end, and what was there is put into the heap that is left.
        with grid([tirx.max(k - one, const(0))]) as (i,):
            last = T.bind(k - one - i)
            self._take(last)
            self._write(last, self.values[self.at(const(0))], self.positions[self.at(const(0))])
            self._sift(const(0), last)

    def _sift(self, start: tirx.Expr, size: tirx.Expr) -> None:
        """Put the item into the heap of a size from a place on, whose element is not needed any more."""
        hole, below, one, two = self.hole[0], self.hole[1], const(1), const(2)
        T.buffer_store(self.hole, start, [0])
        T.buffer_store(self.hole, start * two + one, [1])
        T.buffer_store(self.goes_on, const(1, "int32"), [0])
        with T.While(tirx.all(self.goes_on[0] == const(1, "int32"), self.hole[1] < size)):
            is_pair = self.hole[1] + one < size
            other = tirx.min(self.hole[1] + one, size - one)
            with T.If(tirx.all(is_pair, self._is_worse(*self._read(other), *self._read(below)))), T.Then():
                T.buffer_store(self.hole, self.hole[1] + one, [1])
            with T.If(self._is_worse(*self._read(below), self.item[0], self.place[0])):
                with T.Then():
                    self._write(hole, *self._read(below))
                    T.buffer_store(self.hole, self.hole[1], [0])
                    T.buffer_store(self.hole, self.hole[0] * two + one, [1])
                with T.Else():
                    T.buffer_store(self.goes_on, const(0, "int32"), [0])
        self._write(hole, self.item[0], self.place[0])

    def _read(self, i: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr]:
        return self.values[self.at(i)], self.positions[self.at(i)]

    def _write(self, i: tirx.Expr, value: tirx.Expr, position: tirx.Expr) -> None:
        T.buffer_store(self.values, value, list(self.at(i)))
        T.buffer_store(self.positions, position, list(self.at(i)))

    def _take(self, i: tirx.Expr) -> None:
        value, position = self._read(i)
        T.buffer_store(self.item, value, [0])
        T.buffer_store(self.place, position, [0])

    def _beats(self, a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
        a, b = (_comparable(v) for v in (a, b))
        return a < b if self.smallest else a > b

    def _is_worse(self, a: tirx.Expr, a_place: tirx.Expr, b: tirx.Expr, b_place: tirx.Expr) -> tirx.Expr:
        same = tirx.all(_comparable(a) == _comparable(b), a_place > b_place)
        return tirx.any(self._beats(b, a), same)


def _comparable(value: tirx.Expr) -> tirx.Expr:
    wider = _COMPARED_AS.get(str(value.ty.dtype))
    return value if wider is None else value.astype(wider)
