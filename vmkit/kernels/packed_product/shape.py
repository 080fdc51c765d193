"""What a packed product is of: a convolution over channels-last data, or a dense layer, with a constant weight."""

from __future__ import annotations

from collections.abc import Sequence

from ..._dataclasses import dataclass
from ..builder import Size

__all__ = ["BLOCK", "TILE", "ProductShape", "steps_of"]

BLOCK = 32
"""How many outputs are computed at once where an encoding says nothing else: two tiles."""
TILE = 16
"""How many positions, or outputs, an AMX tile has."""

_STEPS = (4, 2, 1)  # of a sum that are written one after the other


def steps_of(groups: int) -> int:
    """Return how many groups of inputs a sum goes over at a time: 1, 2 or 4, of which they are a multiple."""
    return next(n for n in _STEPS if groups % n == 0)


@dataclass(frozen=True)
class ProductShape:
    """The sizes of a product.

    Attributes
    ----------
    channels, units : size
        How many inputs and outputs there are at each position: expressions in kernels that sizes share.
    kernel, strides, dilation, padding : tuple of int
        Rows and columns of the window; the padding is that before the data. A dense layer has a window of one.
    """

    channels: Size
    units: Size
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)

    @classmethod
    def of_window(
        cls,
        channels: int,
        units: int,
        kernel: Sequence[int] = (),
        strides: Sequence[int] = (),
        dilation: Sequence[int] = (),
        padding: Sequence[int] = (),
    ) -> ProductShape:
        """Return the sizes for a window of two axes, one, or none, whose padding may be that on both sides."""

        def two(values: Sequence[int], filler: int) -> tuple[int, int]:
            first, second = [filler] * (2 - len(values)) + [int(v) for v in values]
            return first, second

        before = list(padding)[: len(kernel)]
        return cls(int(channels), int(units), two(kernel, 1), two(strides, 1), two(dilation, 1), two(before, 0))

    @property
    def is_pointwise(self) -> bool:
        """Whether every output position takes the input position of the same number."""
        return self.kernel == (1, 1) and self.strides == (1, 1) and self.padding == (0, 0)

    @property
    def reach(self) -> tuple[int, int]:
        """How many rows and columns the last element of the window is from the first."""
        return (self.kernel[0] - 1) * self.dilation[0], (self.kernel[1] - 1) * self.dilation[1]

    def input_rows(self, rows: Size) -> Size:
        """Return how many rows of the data so many output rows take."""
        return (rows - 1) * self.strides[0] + self.reach[0] + 1
