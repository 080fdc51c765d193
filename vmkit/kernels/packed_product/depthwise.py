"""Depthwise convolutions of integers of 8 bits: each output is of one channel, and sums go over its window.

The numbers of a channel that stand below each other in the window are put side by side in an int32, so that the
instruction which multiplies groups sums up a column of the window at once. Such a column serves all output positions
whose windows it is in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import te, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.integer_unit import IntegerUnit, integer_unit
from ...target.processor import cores_of
from ..builder import Size, T, in_register, loop, ramp, reinterpreted, splat
from .integer_code import multiply_groups, start_sum
from .integer_loops import IntegerProduct
from .integer_plan import IntegerPlan
from .integers import IntegerGroups
from .loops import Place
from .shape import BLOCK, ProductShape

if TYPE_CHECKING:
    from .weight import PackedWeight

__all__ = ["DEPTHWISE", "DepthwiseGroups", "DepthwiseProduct", "depthwise_of"]


@dataclass(frozen=True)
class DepthwiseGroups(IntegerGroups):
    """Integers of 8 bits of one channel for each output, as such or as int16.

    A packed weight is (blocks, groups of rows, columns, outputs of a block, rows of a group).
    """

    @property
    def is_depthwise(self) -> bool:
        return True

    @property
    def shares_sizes(self) -> bool:
        return True

    def takes_rows(self, product: ProductShape) -> bool:
        return False

    def packed_shape(self, weight: PackedWeight) -> tuple[Size, ...]:
        rows, columns = weight.product.kernel
        return weight.blocks, -(-rows // self.group), columns, BLOCK, self.group

    def arranged(self, weight: PackedWeight, whole: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        rows, columns = weight.product.kernel
        blocks, groups, _, block, group = weight.shape
        filled = np.zeros((blocks, block, groups * group, columns), whole.dtype)
        filled[:, :, :rows] = whole.reshape(blocks, block, rows, columns)
        return filled.reshape(blocks, block, groups, group, columns).transpose(0, 2, 4, 1, 3)

    def factor(
        self, weight: PackedWeight, packed: te.Tensor, place: tuple[Size, Size, Size], unit: tirx.Expr
    ) -> tirx.Expr:
        row, column, _ = place
        at = unit // BLOCK, row // self.group, column, unit % BLOCK, row % self.group
        return packed(*at).astype(self.sums)

    def loops(
        self, weight: PackedWeight, operands: Sequence[tirx.Buffer], shape: Sequence[tirx.Expr], target: Target
    ) -> DepthwiseProduct | None:
        unit = integer_unit(target)
        if unit is None or depthwise_of(unit) is not self:
            return None
        filler = next((buffer for buffer in operands if len(buffer.shape) == 0), None)
        data, packed = (buffer for buffer in operands if buffer is not filler)
        return DepthwiseProduct(
            weight, data, packed, list(shape), replace(unit, has_tiles=False), filler, cores_of(target)
        )


DEPTHWISE = (
    DepthwiseGroups("int8_depthwise", "uint8", "int8", "int32", "int8", depth=1, width=BLOCK, has_filler=True, group=4),
    DepthwiseGroups(
        "int16_depthwise", "uint8", "int16", "int32", "int16", depth=1, width=BLOCK, has_filler=True, group=2
    ),
)
"""For VNNI, and for what has products of int16 alone. Tiles of AMX have no use here."""


def depthwise_of(unit: IntegerUnit) -> DepthwiseGroups:
    """Return the encoding of depthwise convolutions that a target's instructions take."""
    return next(each for each in DEPTHWISE if each.group == unit.group)


@dataclass(frozen=True)
class DepthwiseProduct(IntegerProduct):
    """The loops of a depthwise convolution: those of other products of integers, with sums over a window alone."""

    @property
    def most_positions(self) -> int:
        if self.is_short:
            return super().most_positions
        # The sums of one vector of channels are in registers, beside a column's weights and data.
        return 12 if self.unit.registers >= 32 else 8

    def emit_sums(
        self, plan: IntegerPlan, operands: Sequence[tirx.Buffer], place: Place, sums: tirx.Buffer, count: int
    ) -> None:
        unit, (data, weight, _) = self.unit, operands
        panel = in_register(place.block * prod(self.window.shape[1:]))
        with loop(BLOCK // unit.lanes) as v:
            begin = in_register(place.start + place.block * BLOCK + v * unit.lanes)
            weights = in_register(panel + v * (unit.lanes * unit.group))
            totals = [start_sum(unit) for _ in range(count)]
            for group in range(self.window.shape[1]):
                self._add_rows(plan, data, weight, (begin, weights), group, totals)
            for position, total in enumerate(totals):
                T.buffer_store(sums, total[0], [position * (BLOCK // unit.lanes) + v])

    def _add_rows(
        self,
        plan: IntegerPlan,
        data: tirx.Buffer,
        weight: tirx.Buffer,
        begins: tuple[Size, Size],
        group: int,
        totals: Sequence[tirx.Buffer],
    ) -> None:
        """Add the products of a group of the window's rows to the sums of positions next to each other."""
        unit, p, (begin, weights) = self.unit, plan.product, begins
        numbers, columns = unit.lanes * unit.group, p.kernel[1]
        first = group * unit.group
        rows = [in_register(begin + plan.offset(r, 0)) for r in range(first, min(first + unit.group, p.kernel[0]))]
        at = weights + group * (columns * BLOCK * unit.group)
        factors = [T.Bind(weight[ramp(at + x * (BLOCK * unit.group), numbers)]) for x in range(columns)]
        users: dict[int, list[tuple[int, int]]] = {}
        for position in range(len(totals)):
            for x in range(columns):
                users.setdefault(position * p.strides[1] + x * p.dilation[1], []).append((position, x))
        for column, of_column in sorted(users.items()):
            below = T.Bind(self._column(data, rows, column * p.channels))
            for position, x in of_column:
                multiply_groups(unit, totals[position], below, factors[x])

    def _column(self, data: tirx.Buffer, rows: Sequence[Size], offset: int) -> tirx.Expr:
        """Return the numbers of some rows of a column, those of a channel in one int32, the first row's lowest."""
        unit, lanes = self.unit, self.unit.lanes
        if unit.permutes_bytes and unit.group == 4:
            below = [T.Bind(data[ramp(row + offset, lanes)]) for row in rows]
            # A row that is not there is multiplied with 0, and may be any: the last one again.
            last = len(rows) - 1
            places = [min(r, last) * lanes + lane for lane in range(lanes) for r in range(unit.group)]
            filled = [*below, *below[-1:] * (unit.group - len(rows))]
            return tirx.Shuffle(filled, [tirx.IntImm("int32", place) for place in places])
        column: tirx.Expr | None = None
        for number, row in enumerate(rows):
            wide = tirx.Cast(f"int32x{unit.lanes}", data[ramp(row + offset, unit.lanes)])
            if number:
                wide = tirx.shift_left(wide, splat(number * (32 // unit.group), unit.lanes, "int32"))
            column = wide if column is None else tirx.bitwise_or(column, wide)
        assert column is not None
        return reinterpreted(f"{unit.dtypes[0]}x{unit.lanes * unit.group}", T.Bind(column))
