"""Codes become float32 in registers, and are multiplied as such."""

from __future__ import annotations

from collections.abc import Callable
from operator import add

from tvm import tirx

from ..._dataclasses import dataclass
from ..builder import Size, T, add_to, broadcast, constant, in_register, integer, loop, ramp, register, splat
from .arithmetic import Arithmetic, Block, Prepared, folded, kept, lane_of
from .shape import BlockQuantizedShape

__all__ = ["FloatArithmetic"]

_CHAINS = 8  # sums that wait for each other: fewer would leave the multipliers idle
_MOST_CHAINS = 4  # of a row: more would be added up for longer than they save
_UNROLLED = 64  # products of vectors that are written out
_LOOKUP = "llvm.x86.avx512.permvar.sf.512"  # takes the low four bits of each lane, and leaves the others


@dataclass(frozen=True)
class FloatArithmetic(Arithmetic):
    """Products of float32.

    Attributes
    ----------
    looks_up : bool
        Whether codes of up to 4 bits are looked up in a register of 16 numbers (AVX-512).
    """

    looks_up: bool

    @property
    def has_factors(self) -> bool:
        return False

    def prepare(
        self, s: BlockQuantizedShape, load: Callable[[int], tirx.Expr], to: Prepared, at: Size, b: Size
    ) -> None:
        total: tirx.Expr = splat(0.0, s.lanes)
        for first in range(0, s.block, s.lanes):
            vector = kept(load(first), s.lanes)
            T.buffer_store(to.numbers, vector, [ramp(at + first, s.lanes)])
            total = kept(total + vector, s.lanes)
        share = lane_of(folded(total, s.lanes, "float32", add))
        T.buffer_store(to.corrections, share * constant(-1.0 if s.zeros else -s.middle), [b])

    def sums(self, s: BlockQuantizedShape, block: Block) -> list[tirx.Expr]:
        rows, of_word = range(len(block.rows)), self.word // s.bits
        chains = max(1, min(_CHAINS // len(rows), _MOST_CHAINS, of_word))
        totals = [[register(s.lanes) for _ in range(chains)] for _ in rows]
        for r in rows:
            for number, total in enumerate(totals[r]):
                T.buffer_store(total, splat(0.0, s.lanes) if number else block.start(r), [integer(0)])
        loads = self.loads(s)
        at_once = next(n for n in (8, 4, 2, 1) if loads % n == 0 and (n == 1 or n * of_word * len(rows) <= _UNROLLED))
        table = T.Bind(_table(s)) if self._has_table(s) else None
        with loop(loads // at_once) as outer:
            for inner in range(at_once):
                load = in_register(outer * at_once + inner)
                words = T.Bind(block.weight[ramp(block.begin + load * s.lanes, s.lanes)])
                for place in range(of_word):
                    codes = T.Bind(self._real(s, words, place, table))
                    for r in rows:
                        x = broadcast(block.numbers[block.rows[r] + load * of_word + place], s.lanes)
                        add_to(totals[r][place % chains], x * codes)
        return [_sum([total[0] for total in totals[r]]) for r in rows]

    def _has_table(self, s: BlockQuantizedShape) -> bool:
        return self.looks_up and s.lanes == 16 and s.bits == 4

    def _real(self, s: BlockQuantizedShape, words: tirx.Expr, place: int, table: tirx.Expr | None) -> tirx.Expr:
        """Return the codes at a place of words as float32."""
        dtype, of_type = f"uint32x{s.lanes}", f"float32x{s.lanes}"
        if place:
            words = tirx.shift_right(words, splat(place * s.bits, s.lanes, "uint32"))
        if table is not None:
            index = T.reinterpret(f"int32x{s.lanes}", words)
            return T.call_llvm_pure_intrin(of_type, _LOOKUP, table, index)
        is_last = (place + 1) * s.bits == self.word
        codes = words if is_last else tirx.bitwise_and(words, splat((1 << s.bits) - 1, s.lanes, "uint32"))
        # Few bits are the same signed, which more processors can convert.
        return tirx.Cast(of_type, T.reinterpret(dtype[1:], codes))


def _table(s: BlockQuantizedShape) -> tirx.Expr:
    numbers = [constant(float(code)) for code in range(16)]
    return tirx.Shuffle(numbers, [tirx.IntImm("int32", i) for i in range(16)])


def _sum(parts: list[tirx.Expr]) -> tirx.Expr:
    while len(parts) > 1:
        parts = [T.Bind(a + b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]
