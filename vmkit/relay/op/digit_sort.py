"""Numbers as unsigned words in their order, and sorting of words digit by digit.

A radix sort takes a pass over the words for each byte, and none for a byte that is the same in all of them. So it takes
time in proportion to their number, without a branch that depends on their order.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm import DataType, tirx
from tvm.script.ir_builder import tirx as T

from .kernel import as_index, const, grid
from .ordering import has_nan, is_nan

__all__ = ["DIGITS", "DigitSort", "bits_of", "digits_of", "ordered_bits"]

DIGITS = 256
"""How many values a digit has."""

_WIDER = {"bool": "uint8", "float16": "float32", "bfloat16": "float32"}


def _wide(dtype: str) -> str:
    return _WIDER.get(dtype, dtype)


def digits_of(dtype: str) -> range:
    """Return the bytes, the lowest first, in which `ordered_bits` of a data type's numbers may differ."""
    return range(DataType(_wide(dtype)).bits // 8)


def bits_of(value: tirx.Expr) -> tirx.Expr:
    """Return a number of a kernel as uint64: the same for equal numbers, and one for all NaN."""
    dtype = str(value.ty.dtype)
    if not has_nan(dtype):
        return value.astype(_wide(dtype)).astype("uint64")
    return _float_bits(value.astype(_wide(dtype))).astype("uint64")


def ordered_bits(value: tirx.Expr) -> tirx.Expr:
    """Return a number of a kernel as uint64 in the order of the numbers; NaN, all of which are one, comes last."""
    dtype = _wide(str(value.ty.dtype))
    value, width = value.astype(dtype), DataType(dtype).bits
    unsigned = f"uint{width}"
    highest = tirx.const(1 << (width - 1), unsigned)
    if has_nan(dtype):
        bits = _float_bits(value)
        ordered = tirx.Select((bits & highest) != tirx.const(0, unsigned), ~bits, bits | highest)
        return tirx.Select(is_nan(value), tirx.max_value(unsigned), ordered).astype("uint64")
    return (value if dtype.startswith("uint") else value.astype(unsigned) ^ highest).astype("uint64")


def _float_bits(value: tirx.Expr) -> tirx.Expr:
    dtype = str(value.ty.dtype)
    unsigned = "u" + dtype.replace("float", "int")
    bits = tirx.reinterpret(unsigned, value)
    number = tirx.Select(value == tirx.const(0, dtype), tirx.const(0, unsigned), bits)
    return tirx.Select(is_nan(value), tirx.max_value(unsigned), number)


class DigitSort:
    """Writes the code that sorts words, ascending; equal ones keep their order (Knuth, TAOCP volume 3, 5.2.5).

    Parameters
    ----------
    words : Buffer
        Shape (2, n), uint64: the first row holds the words.
    carried : Buffer or None
        Shape (2, n): what moves with the words, in the first row as well.
    counts : Buffer
        Shape (256,), int64: the sort's own.
    """

    def __init__(self, words: tirx.Buffer, carried: tirx.Buffer | None, counts: tirx.Buffer) -> None:
        self.moved = [words] if carried is None else [words, carried]
        self.counts = counts
        self.half = T.alloc_buffer((1,), "int64", scope="local", layout=None)
        self.next = T.alloc_buffer((1,), "int64", scope="local", layout=None)

    def run(self, size: tirx.Expr, digits: Iterable[int]) -> tirx.Expr:
        """Sort the first `size` words by bytes, the lowest first, and return the row that then holds them."""
        T.buffer_store(self.half, const(0), [0])
        with T.If(size > 1), T.Then():
            for digit in digits:
                self._pass(size, digit)
        return T.bind(self.half[0])

    def _pass(self, size: tirx.Expr, digit: int) -> None:
        def digit_at(i: tirx.Expr) -> tirx.Expr:
            word = self.moved[0][self.half[0], i]
            return as_index((word >> tirx.const(8 * digit, "uint64")) & tirx.const(DIGITS - 1, "uint64"))

        with grid([const(DIGITS)]) as (d,):
            T.buffer_store(self.counts, const(0), [d])
        with grid([size]) as (i,):
            T.buffer_store(self.counts, self.counts[digit_at(i)] + 1, [digit_at(i)])
        with T.If(self.counts[digit_at(const(0))] != size), T.Then():
            T.buffer_store(self.next, const(0), [0])
            with grid([const(DIGITS)]) as (d,):
                count = T.bind(self.counts[d])
                T.buffer_store(self.counts, self.next[0], [d])
                T.buffer_store(self.next, self.next[0] + count, [0])
            with grid([size]) as (i,):
                place, at = T.bind(self.counts[digit_at(i)]), digit_at(i)
                T.buffer_store(self.counts, place + 1, [at])
                for buffer in self.moved:
                    T.buffer_store(buffer, buffer[self.half[0], i], [const(1) - self.half[0], place])
            T.buffer_store(self.half, const(1) - self.half[0], [0])
