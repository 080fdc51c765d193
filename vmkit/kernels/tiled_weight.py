"""Weights as a matrix unit takes them: float32 as the sum of three bfloat16, in tiles of 32 inputs by 16 outputs.

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

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

__all__ = ["BLOCK", "DEPTH", "MARK", "PARTS", "PRODUCTS", "TILE", "TiledWeight"]

MARK = "vmkit.tiled_product"
"""The annotation of a kernel's sum that holds its :class:`TiledWeight` as JSON."""
PARTS = 3
"""How many bfloat16 a float32 is the sum of."""
PRODUCTS = ((2, 0), (1, 0), (1, 1), (0, 1), (0, 0), (0, 2))
"""The products of parts that are summed up, of the data and of the weight; each shares a part with the one before."""
DEPTH = 32
"""How many inputs a tile takes at once."""
BLOCK = 32
"""How many outputs are computed at once: two tiles."""
TILE = 16
"""How many positions, or outputs, a tile has."""


@dataclass(frozen=True)
class TiledWeight:
    """The weight of a convolution over channels-last data, or of a dense layer, for a matrix unit.

    Attributes
    ----------
    channels, units : int
        How many inputs and outputs there are at each position.
    kernel, strides, dilation, padding : tuple of int
        Rows and columns of the window; the padding is that before the data. A dense layer has a window of one.
    """

    channels: int
    units: int
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)

    @classmethod
    def from_json(cls, text: str) -> TiledWeight:
        """Read what :meth:`to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        sizes: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**sizes)

    def to_json(self) -> str:
        """Return the fields as JSON text."""
        return json.dumps(asdict(self))

    @property
    def takes_rows(self) -> bool:
        """Whether a tile takes a row of the window, columns and channels, as one run of memory.

        Few channels would leave most of a tile empty.
        """
        columns = self.kernel[1]
        return self.dilation[1] == 1 and _up(columns * self.channels) < columns * _up(self.channels)

    @property
    def is_pointwise(self) -> bool:
        """Whether every output position takes the input position of the same number."""
        return self.kernel == (1, 1) and self.strides == (1, 1) and self.padding == (0, 0)

    @property
    def runs(self) -> tuple[int, int, int]:
        """How many rows, columns and tiles the sum goes over; those of a tile's inputs follow each other."""
        rows, columns = self.kernel
        if self.takes_rows:
            return rows, 1, _up(columns * self.channels) // DEPTH
        return rows, columns, _up(self.channels) // DEPTH

    @property
    def steps(self) -> int:
        """How many steps of a tile's depth a sum has."""
        rows, columns, tiles = self.runs
        return rows * columns * tiles

    @property
    def blocks(self) -> int:
        """How many blocks of outputs there are, the last one filled up with zeros."""
        return -(-self.units // BLOCK)

    @property
    def shape(self) -> tuple[int, ...]:
        """The packed weight's shape: blocks, steps, parts, tiles of a block, pairs of inputs, outputs, of a pair."""
        return self.blocks, self.steps, PARTS, 2, DEPTH // 2, TILE, 2

    @property
    def products(self) -> int:
        """How many products an output position has, those with what fills tiles among them."""
        return self.steps * DEPTH * -(-self.units // TILE) * TILE

    def index(self, part: int, row: Any, column: Any, channel: Any, unit: Any) -> tuple[Any, ...]:
        """Return where a part of an element is in the packed weight."""
        rows, columns, _ = self.runs
        at = column * self.channels + channel if self.takes_rows else channel
        tap = row if self.takes_rows else row * columns + column
        step, inner = at // DEPTH * (rows * columns) + tap, at % DEPTH
        return unit // BLOCK, step, part, unit % BLOCK // TILE, inner // 2, unit % TILE, inner % 2

    def pack(self, weight: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return a float32 weight (units, rows, columns, channels) as the bits of bfloat16 in :attr:`shape`."""
        rows, columns, tiles = self.runs
        runs = weight.reshape(self.units, rows * columns, -1)
        whole = np.zeros((self.blocks * BLOCK, rows * columns, tiles * DEPTH), np.float32)
        whole[: self.units, :, : runs.shape[2]] = runs
        tiled = _parts(whole).reshape(PARTS, self.blocks, 2, TILE, rows * columns, tiles, DEPTH // 2, 2)
        return np.ascontiguousarray(tiled.transpose(1, 5, 4, 0, 2, 6, 3, 7)).reshape(self.shape)


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
