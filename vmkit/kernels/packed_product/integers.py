"""Integers of 8 bits in groups, whose products with the data an instruction adds to an int32 for each output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import te, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.integer_unit import IntegerUnit, integer_unit
from ...target.processor import cores_of
from ..builder import Size
from .encoding import Encoding
from .integer_loops import IntegerProduct
from .shape import BLOCK, TILE, ProductShape
from .sizes import divided

if TYPE_CHECKING:
    from .weight import PackedWeight

__all__ = ["INTEGERS", "IntegerGroups", "integers_of"]


@dataclass(frozen=True)
class IntegerGroups(Encoding):
    """Integers of 8 bits, as such or as int16.

    A packed weight is (blocks, runs, groups of a run, outputs of a block, numbers of a group).

    Attributes
    ----------
    group : int
        How many inputs one instruction multiplies and adds up for each output.
    """

    group: int

    @property
    def block(self) -> int:
        return self.width

    @property
    def shares_sizes(self) -> bool:
        return self.depth == self.group and not self.has_extras

    def takes_rows(self, product: ProductShape) -> bool:
        return product.dilation[1] == 1

    def packed_shape(self, weight: PackedWeight) -> tuple[Size, ...]:
        rows, columns = weight.runs
        return weight.blocks, rows * columns, divided(weight.depth, self.group)[0], self.block, self.group

    def arranged(self, weight: PackedWeight, whole: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        blocks, runs, groups, block, group = weight.shape
        return whole.reshape(blocks, block, runs, groups, group).transpose(0, 2, 3, 1, 4)

    def index(self, weight: PackedWeight, row: Size, column: Size, channel: Size, unit: Size) -> tuple[Size, ...]:
        """Return where an element is in the packed weight."""
        run, at = weight.place(row, column, channel)
        return unit // self.block, run, at // self.group, unit % self.block, at % self.group

    def factor(
        self, weight: PackedWeight, packed: te.Tensor, place: tuple[Size, Size, Size], unit: tirx.Expr
    ) -> tirx.Expr:
        return packed(*self.index(weight, *place, unit)).astype(self.sums)

    def loops(
        self, weight: PackedWeight, operands: Sequence[tirx.Buffer], shape: Sequence[tirx.Expr], target: Target
    ) -> IntegerProduct | None:
        unit = integer_unit(target)
        units = weight.product.units
        # What takes its sizes as arguments may be of few outputs or of many.
        counts = (units,) if isinstance(units, int) else (1, BLOCK)
        if unit is None or self not in [integers_of(unit, count) for count in counts]:
            return None
        filler = next((buffer for buffer in operands if len(buffer.shape) == 0), None)
        data, packed = (buffer for buffer in operands if buffer is not filler)
        return IntegerProduct(weight, data, packed, list(shape), unit, filler, cores_of(target))


INTEGERS = (
    IntegerGroups("int8", "uint8", "int8", "int32", "int8", depth=4, width=BLOCK, has_filler=True, group=4),
    IntegerGroups("int8_narrow", "uint8", "int8", "int32", "int8", depth=4, width=TILE, has_filler=True, group=4),
    IntegerGroups("int8_tiles", "uint8", "int8", "int32", "int8", depth=64, width=BLOCK, has_filler=True, group=4),
    IntegerGroups("int16", "uint8", "int16", "int32", "int16", depth=2, width=BLOCK, has_filler=True, group=2),
    IntegerGroups("int16_narrow", "uint8", "int16", "int32", "int16", depth=2, width=TILE, has_filler=True, group=2),
)
"""For VNNI, and for few outputs by it; for AMX, whose tiles take 64 inputs at once; and for what has products of int16
alone: AVX-512, and AVX2, whose registers hold the sums of more positions if there are fewer outputs."""


def integers_of(unit: IntegerUnit, units: int = BLOCK) -> IntegerGroups:
    """Return the encoding that a target's instructions take for so many outputs."""
    width = 2 * unit.lanes if unit.group == 2 else BLOCK if units > TILE or unit.has_tiles else TILE
    return next(each for each in INTEGERS if (each.group, each.depth, each.width) == (unit.group, unit.depth, width))
