"""float32 as the sum of three bfloat16, in AMX tiles of 32 inputs by 16 outputs.

A float32 is cut in three parts of 8 bits each, high, middle and low, whose sum it is exactly. Of the nine products of
two such numbers' parts the six largest are summed up in float32; what is left out, middle * low, low * middle and low
* low, makes

    |error| <= 2**-20 * sum(|x| * |w|)

beside the rounding of a float32 sum in another order. Most errors are a fraction of that, and their signs differ.
Parts below 2**-126 count as zero, and an infinity in the data may make NaN of a result that is infinite in float32.
Where a tile takes a row of the window as one run, an infinity or NaN also reaches results up to a tile's depth to its
left, since what fills up the run is multiplied with zeros. The method is BF16x3 with six products of Henry, Tang and
Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations", ARITH 2019, with
parts that are cut and not rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import te, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.matrix_unit import has_matrix_unit
from ..builder import Size, constant, reinterpreted
from .bfloat16_code import DEPTH, PARTS
from .bfloat16_loops import PartsProduct
from .encoding import Encoding
from .shape import BLOCK, TILE, ProductShape

if TYPE_CHECKING:
    from .weight import PackedWeight

__all__ = ["BFLOAT16_PARTS", "BFloat16Parts"]


@dataclass(frozen=True)
class BFloat16Parts(Encoding):
    """Numbers of float32 as three bfloat16 each.

    A packed weight is (blocks, steps, parts, tiles of a block, pairs of inputs, outputs, of a pair); the steps are the
    runs of the window for each DEPTH of their inputs.
    """

    def takes_rows(self, product: ProductShape) -> bool:
        """Say whether a run is a whole row of a window: few channels would leave most of a tile empty."""
        columns = product.kernel[1]
        channels = int(product.channels)
        return product.dilation[1] == 1 and _up(columns * channels) < columns * _up(channels)

    def packed_shape(self, weight: PackedWeight) -> tuple[Size, ...]:
        rows, columns = weight.runs
        return weight.blocks, rows * columns * (weight.depth // DEPTH), PARTS, 2, DEPTH // 2, TILE, 2

    def arranged(self, weight: PackedWeight, whole: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        runs = whole.shape[1]
        shape = PARTS, weight.blocks, 2, TILE, runs, weight.depth // DEPTH, DEPTH // 2, 2
        return _parts(whole).reshape(shape).transpose(1, 5, 4, 0, 2, 6, 3, 7)

    def index(
        self, weight: PackedWeight, part: int, row: Size, column: Size, channel: Size, unit: Size
    ) -> tuple[Size, ...]:
        """Return where a part of an element is in the packed weight."""
        rows, columns = weight.runs
        run, at = weight.place(row, column, channel)
        step, inner = at // DEPTH * (rows * columns) + run, at % DEPTH
        return unit // BLOCK, step, part, unit % BLOCK // TILE, inner // 2, unit % TILE, inner % 2

    def factor(
        self, weight: PackedWeight, packed: te.Tensor, place: tuple[Size, Size, Size], unit: tirx.Expr
    ) -> tirx.Expr:
        parts = [_float32(packed(*self.index(weight, part, *place, unit))) for part in range(PARTS)]
        return sum(parts[1:], parts[0])

    def loops(
        self, weight: PackedWeight, operands: Sequence[tirx.Buffer], shape: Sequence[tirx.Expr], target: Target
    ) -> PartsProduct | None:
        if not has_matrix_unit(target):
            return None
        data, packed = operands
        return PartsProduct(weight, data, packed, list(shape), int(target.attrs.get("num-cores", 1)))


BFLOAT16_PARTS = BFloat16Parts(
    "bfloat16_parts", "float32", "uint16", "float32", "float32", depth=DEPTH, width=TILE, has_filler=False
)


def _up(count: int) -> int:
    """Return the next multiple of a tile's depth."""
    return -(-count // DEPTH) * DEPTH


def _parts(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the bits of float32 numbers' parts, the high ones first."""
    parts = []
    for _ in range(PARTS):
        bits = values.view(np.uint32) & np.uint32(0xFFFF0000)
        part = bits.view(np.float32)
        parts.append((bits >> 16).astype(np.uint16))
        # An infinity is its own high part, and nothing is left.
        values = np.subtract(values, part, out=np.zeros_like(values), where=values != part)
    return np.stack(parts)


def _float32(bits: tirx.Expr) -> tirx.Expr:
    """Return the float32 of the bits of a bfloat16."""
    return reinterpreted("float32", bits.astype("uint32") << constant(16, "uint32"))
