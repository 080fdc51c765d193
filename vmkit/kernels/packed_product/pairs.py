"""Integers of 8 bits whose products an instruction adds in pairs as int16, for weights that keep it from saturating.

``vpmaddubsw`` of AVX2 takes twice as many numbers as products of int16, but sums of two products saturate at 16 bits. A
sum of two numbers of uint8 by weights stays within them if the positive ones of the two weights are at most 128
together, and so are the negative ones. Of the few pairs of which that is not true, what is more is kept apart: a
group of inputs with such a pair is multiplied once more, with what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import te, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.integer_unit import IntegerUnit, integer_unit
from ...target.processor import cores_of
from .encoding import Term, Terms
from .integer_loops import IntegerProduct
from .integers import IntegerGroups
from .shape import BLOCK, TILE
from .sizes import divided

if TYPE_CHECKING:
    from ..builder import Size
    from .weight import PackedWeight

__all__ = ["PAIRS", "IntegerPairs", "pairs_of"]

_MOST = 128  # times 255 is within int16
_GROUP = 4
_STEPS = 16  # of how many groups there are twice, beside those that there are once


@dataclass(frozen=True)
class IntegerPairs(IntegerGroups):
    """Integers of 8 bits in groups, some of which are there twice.

    A block of a packed weight is first that of other integers: (groups, outputs, numbers of a group). Then come the
    extra groups, each with what is left of weights that were too large, and at last numbers of int32: how many extra
    groups the block has, and of each the place of its first input in all runs of the window.
    """

    @property
    def has_extras(self) -> bool:
        return True

    def packed_shape(self, weight: PackedWeight) -> tuple[Size, ...]:
        return weight.blocks, (weight.groups + weight.extras) * self.block + weight.words, _GROUP

    def extras_of(self, weight: PackedWeight, whole: np.ndarray[Any, Any]) -> int:
        most = max((len(_with_excess(_excess(block))) for block in self._by_block(weight, whole)), default=0)
        step = -(-weight.groups // _STEPS)  # so that layers of one shape have one kernel
        return -(-most // step) * step

    def arranged(self, weight: PackedWeight, whole: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        once, again = (count * self.block * _GROUP for count in (weight.groups, weight.extras))
        packed = np.zeros((weight.blocks, once + again + 4 * weight.words), "int8")
        # One block after the other: all at once, what is computed meanwhile takes ten times the memory of the weight.
        for row, block in zip(packed, self._by_block(weight, whole), strict=True):
            excess = _excess(block)
            chosen = _with_excess(excess)
            within, rest = (part.reshape(-1, self.block, _GROUP) for part in (row[:once], row[once : once + again]))
            within[:] = block
            # Only pairs of one sign are too large, so that what is left of the second keeps its sign.
            within[..., 1::2] -= excess
            rest[: len(chosen), :, 1::2] = excess[chosen]
            if weight.extras:
                words = row[once + again :].view("<i4")
                words[0], words[1 : len(chosen) + 1] = len(chosen), chosen * _GROUP
        return packed

    def _by_block(self, weight: PackedWeight, whole: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return weights (blocks, groups, outputs, numbers)."""
        return whole.reshape(weight.blocks, self.block, -1, _GROUP).transpose(0, 2, 1, 3)

    def terms(self, weight: PackedWeight, packed: te.Tensor, axes: int) -> Terms:
        groups, extras = weight.groups, weight.extras
        entry, number = te.reduce_axis((0, groups + extras), name="g"), te.reduce_axis((0, _GROUP), name="i")

        def of(unit: tirx.Expr) -> Term:
            block, place = unit // self.block, entry * _GROUP
            if extras:
                word = (groups + extras) * self.block + 1 + tirx.max(entry - groups, 0)
                of_extra = sum((_byte(packed(block, word, byte), byte) for byte in range(4)), tirx.const(0, "int32"))
                of_extra = tirx.max(tirx.min(of_extra, tirx.const(weight.last_place, "int32")), tirx.const(0, "int32"))
                place = tirx.Select(entry < groups, place, of_extra.astype(entry.var.ty.dtype))
            run, within = divided(place + number, weight.depth)
            row, column = divided(run, weight.runs[1])
            if weight.takes_rows:
                column, channel = divided(within, weight.product.channels)
            else:
                channel = tirx.min(within, weight.product.channels - 1)  # what fills a run up has weights of 0
            factor = packed(block, entry * self.block + unit % self.block, number)
            return (row, column, channel), factor.astype(self.sums)

        return Terms([entry, number], of)

    def loops(
        self, weight: PackedWeight, operands: Sequence[tirx.Buffer], shape: Sequence[tirx.Expr], target: Target
    ) -> IntegerProduct | None:
        unit = integer_unit(target)
        if unit is None or unit.in_pairs is None or pairs_of(unit) is not self:
            return None
        filler = next((buffer for buffer in operands if len(buffer.shape) == 0), None)
        (packed,) = (buffer for buffer in operands if str(buffer.dtype) == self.weight)
        (data,) = (buffer for buffer in operands if buffer is not filler and buffer is not packed)
        return IntegerProduct(weight, data, packed, list(shape), unit.in_pairs, filler, cores_of(target))


PAIRS = (
    IntegerPairs("int8_pairs", "uint8", "int8", "int32", "int8", depth=_GROUP, width=BLOCK, has_filler=True, group=4),
    IntegerPairs(
        "int8_pairs_narrow", "uint8", "int8", "int32", "int8", depth=_GROUP, width=TILE, has_filler=True, group=4
    ),
)
"""For AVX-512 without VNNI, and for AVX2."""


def pairs_of(unit: IntegerUnit) -> IntegerPairs | None:
    """Return the encoding for a target whose instruction for integers of 8 bits saturates; None for another."""
    return None if unit.in_pairs is None else next(each for each in PAIRS if each.width == 2 * unit.lanes)


def _excess(block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return by how much each pair of a block's weights (groups, outputs, numbers) is too large."""
    total = np.add(block[..., ::2], block[..., 1::2], dtype="int16")
    return (total - np.clip(total, -_MOST, _MOST)).astype("int8")


def _with_excess(excess: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the positions of the groups with pairs that are too large."""
    return np.flatnonzero(excess.any(axis=(1, 2)))


def _byte(value: tirx.Expr, number: int) -> tirx.Expr:
    """Return a byte of an int32 in its place."""
    return (value.astype("int32") & tirx.const(255, "int32")) << tirx.const(8 * number, "int32")
