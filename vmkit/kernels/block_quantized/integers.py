"""Rows become int8, a scale for each block, and are multiplied with codes as integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add

from tvm import tirx

from ..._dataclasses import dataclass
from ..builder import Size, T, broadcast, constant, in_register, integer, loop, ramp, register, reinterpreted, splat
from .arithmetic import Arithmetic, Block, Join, Prepared, folded, kept, lane_of
from .shape import BlockQuantizedShape

__all__ = ["IntegerArithmetic"]

_MOST = 127  # of an int8 on both sides of 0
_UNROLLED = 64  # products of vectors that are written out
# By the lanes of a vector: four products of uint8 with int8 in each int32, added to it; or, without VNNI, two in each
# int16, and two of int16 in each int32.
_DOT = {16: "llvm.x86.avx512.vpdpbusd.512", 8: "llvm.x86.avx512.vpdpbusd.256"}
_BYTES = {16: "llvm.x86.avx512.pmaddubs.w.512", 8: "llvm.x86.avx2.pmadd.ub.sw"}
_WORDS = {16: "llvm.x86.avx512.pmaddw.d.512", 8: "llvm.x86.avx2.pmadd.wd"}


@dataclass(frozen=True)
class IntegerArithmetic(Arithmetic):
    """Products of int8 with codes.

    A block of a row has the scale ``max(abs(x)) / 127``, and its numbers are rounded to the nearest, ties to even: what
    onnxruntime has for the accuracy level that allows it (MLAS, ``CompInt8``). Sums of products are exact.

    Attributes
    ----------
    has_dot : bool
        Whether one instruction multiplies and adds (VNNI). Otherwise codes have 4 bits at most: products of 8 would not
        fit into 16.
    """

    has_dot: bool

    @property
    def has_factors(self) -> bool:
        return True

    def prepare(
        self, s: BlockQuantizedShape, load: Callable[[int], tirx.Expr], to: Prepared, at: Size, b: Size
    ) -> None:
        lanes, dtype = s.lanes, f"int32x{s.lanes}"
        vectors = [kept(load(first), lanes) for first in range(0, s.block, lanes)]
        # The bits of magnitudes are in the order of the magnitudes, those of what is not a number behind all others.
        magnitudes = [tirx.bitwise_and(reinterpreted(dtype, v), splat(0x7FFFFFFF, lanes, "int32")) for v in vectors]
        most = folded(_joined(magnitudes, lanes, tirx.Max), lanes, "int32", tirx.Max)
        largest = kept(reinterpreted(f"float32x{lanes}", most), lanes)
        zero = splat(0.0, lanes)
        inverse = kept(tirx.Select(largest == zero, zero, splat(_MOST, lanes) / largest), lanes)
        integers = [kept(tirx.Cast(dtype, tirx.nearbyint(v * inverse)), lanes, "int32") for v in vectors]
        for number, each in enumerate(integers):
            T.buffer_store(to.numbers, tirx.Cast(f"int8x{lanes}", each), [ramp(at + number * lanes, lanes)])
        total = folded(_joined(integers, lanes, add), lanes, "int32", add)
        assert to.factors is not None
        share = tirx.Cast("float32", lane_of(total))
        T.buffer_store(to.factors, lane_of(largest) * constant(1 / _MOST), [b])
        T.buffer_store(to.corrections, share * constant(-1.0 if s.zeros else -s.middle), [b])

    def sums(self, s: BlockQuantizedShape, block: Block) -> list[tirx.Expr]:
        rows, of_word, loads = range(len(block.rows)), self.word // s.bits, self.loads(s)
        # A row or two is summed up where codes are in their bytes, and sums are shifted; for more, codes are, once.
        stays = self.has_dot and len(rows) <= 2
        totals = [[register(s.lanes, "int32") for _ in range(of_word if stays else 1)] for _ in rows]
        for total in (each for row in totals for each in row):
            T.buffer_store(total, splat(0, s.lanes, "int32"), [integer(0)])
        at_once = next(n for n in (8, 4, 2, 1) if loads % n == 0 and (n == 1 or n * of_word * len(rows) <= _UNROLLED))
        length = s.lanes * self.group
        with loop(loads // at_once) as outer:
            for inner in range(at_once):
                load = in_register(outer * at_once + inner)
                words = T.Bind(block.weight[ramp(block.begin + load * length, length)])
                for place in range(of_word):
                    codes = T.Bind(_codes(s, words, place, stays))
                    for r in rows:
                        at = block.rows[r] + (load * of_word + place) * self.group
                        four = reinterpreted("int32", block.numbers[ramp(at, self.group)])
                        x = reinterpreted(f"int8x{length}", broadcast(four, s.lanes))
                        self._multiply(s.lanes, totals[r][place if stays else 0], codes, x)
        return [T.Bind(block.start(r) + _real(s, [total[0] for total in totals[r]])) for r in rows]

    def _multiply(self, lanes: int, total: tirx.Buffer, codes: tirx.Expr, x: tirx.Expr) -> None:
        dtype = f"int32x{lanes}"
        if self.has_dot:
            added = T.call_llvm_pure_intrin(dtype, _DOT[lanes], total[0], codes, x)
        else:
            pairs = T.call_llvm_pure_intrin(f"int16x{lanes * 2}", _BYTES[lanes], codes, x)
            ones = splat(1, lanes * 2, "int16")
            added = total[0] + T.call_llvm_pure_intrin(dtype, _WORDS[lanes], pairs, ones)
        T.buffer_store(total, added, [integer(0)])


def _codes(s: BlockQuantizedShape, words: tirx.Expr, place: int, stays: bool) -> tirx.Expr:
    """Return the codes at a place of bytes, at that place or as the lowest bits."""
    length, mask = s.lanes * 4, (1 << s.bits) - 1
    if s.bits == 8:
        return words
    if stays:
        return tirx.bitwise_and(words, splat(mask << (place * s.bits), length, "uint8"))
    if place:
        # There are no shifts of bytes; what comes in from the next one is cut off.
        wide = reinterpreted(f"uint32x{s.lanes}", words)
        words = reinterpreted(f"uint8x{length}", tirx.shift_right(wide, splat(place * s.bits, s.lanes, "uint32")))
    return tirx.bitwise_and(words, splat(mask, length, "uint8"))


def _real(s: BlockQuantizedShape, totals: list[tirx.Expr]) -> tirx.Expr:
    """Return the sum of sums of codes at each place of bytes, as float32."""
    total = totals[0]
    for place, each in enumerate(totals[1:], 1):
        total = total + tirx.shift_right(each, splat(place * s.bits, s.lanes, "int32"))
    return tirx.Cast(f"float32x{s.lanes}", total)


def _joined(vectors: Sequence[tirx.Expr], lanes: int, join: Join) -> tirx.Expr:
    """Return what vectors of int32 join to, each with the one before."""
    return reduce(lambda made, each: kept(join(made, each), lanes, "int32"), vectors)
