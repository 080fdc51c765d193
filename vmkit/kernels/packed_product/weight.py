"""A constant weight in the order in which an encoding's instructions take it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..._dataclasses import dataclass
from .shape import TILE, ProductShape, steps_of
from .sizes import ceildiv, divided

if TYPE_CHECKING:
    from ..builder import Size
    from .encoding import Encoding

__all__ = ["Alike", "PackedWeight"]


@dataclass(frozen=True)
class Alike:
    """What weights have in common that share a kernel, which takes their sizes as arguments.

    Attributes
    ----------
    steps : int
        How many groups of a run a sum goes over at a time; see :func:`.steps_of`.
    rest : int
        Outputs beyond whole tiles of them.
    """

    steps: int
    rest: int


@dataclass(frozen=True)
class PackedWeight:
    """The weight of a product, in an encoding.

    A sum goes over runs of inputs that follow each other in memory: all columns and channels of a row of the window, or
    the channels of one column.

    Attributes
    ----------
    product : ProductShape
        What is multiplied.
    encoding : Encoding
        How.
    extras : int
        How many groups of inputs a block has at most that are there twice: see :mod:`.pairs`.
    alike : Alike or None
        What is known of sizes that are expressions; runs of such are whole groups. None where all sizes are known.
    """

    product: ProductShape
    encoding: Encoding
    extras: int = 0
    alike: Alike | None = None

    def to_share(self) -> Alike | None:
        """Return what kernels know of the weights that share them with this one; None where it has one of its own."""
        depth, units = self.encoding.depth, self.product.units
        if not self.encoding.shares_sizes or self.extras or self.is_filled or not isinstance(units, int):
            return None
        return Alike(steps_of(self.depth // depth), units % TILE)

    @property
    def rest(self) -> int:
        """How many outputs there are beyond whole tiles of them."""
        units = self.product.units
        if isinstance(units, int):
            return units % TILE
        assert self.alike is not None
        return self.alike.rest

    @property
    def steps(self) -> int:
        """How many groups of a run a sum goes over at a time; see :func:`.steps_of`."""
        groups = self.depth // self.encoding.depth
        if isinstance(groups, int):
            return steps_of(groups)
        assert self.alike is not None
        return self.alike.steps

    @property
    def is_filled(self) -> bool:
        """Whether runs have more than the inputs in them."""
        return isinstance(self.length, int) and self.depth != self.length

    @property
    def block(self) -> int:
        """How many outputs are computed at once."""
        return self.encoding.block

    @property
    def blocks(self) -> Size:
        """How many blocks of outputs there are, the last one filled up with zeros."""
        return ceildiv(self.product.units, self.block)

    @property
    def takes_rows(self) -> bool:
        """Whether a run is a whole row of the window."""
        return self.encoding.takes_rows(self.product)

    @property
    def runs(self) -> tuple[int, int]:
        """How many rows and columns of runs the window has."""
        rows, columns = self.product.kernel
        return rows, 1 if self.takes_rows else columns

    @property
    def length(self) -> Size:
        """How many inputs a run has."""
        if self.encoding.is_depthwise:
            return 1
        return self.product.channels * (self.product.kernel[1] if self.takes_rows else 1)

    @property
    def depth(self) -> Size:
        """How many inputs a run has, with what fills it up."""
        return _filled(self.length, self.encoding.depth) if isinstance(self.length, int) else self.length

    @property
    def groups(self) -> Size:
        """How many groups of inputs, as many as an encoding's depth, all runs have."""
        rows, columns = self.runs
        return divided(self.depth * (rows * columns), self.encoding.depth)[0]

    @property
    def last_place(self) -> Size:
        """Where the last group begins among the inputs of all runs."""
        return (self.groups - 1) * self.encoding.depth

    @property
    def words(self) -> int:
        """How many int32 a block has that say which groups are there twice, filled up to a vector."""
        return -(-(self.extras + 1) // 8) * 8 if self.extras else 0

    @property
    def products(self) -> Size:
        """How many products an output position has, those with what is filled up among them."""
        rows, columns = self.runs
        return rows * columns * self.depth * _filled(self.product.units, self.encoding.width)

    @property
    def shape(self) -> tuple[Size, ...]:
        """The packed weight's shape."""
        return self.encoding.packed_shape(self)

    def place(self, row: Size, column: Size, channel: Size) -> tuple[Size, Size]:
        """Return the run of an element of the window, and where the element is in it."""
        if self.takes_rows:
            return row, column * self.product.channels + channel
        return row * self.product.kernel[1] + column, channel

    def pack(self, weight: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return a weight (units, rows, columns, channels, or 1 of a depthwise one) in :attr:`shape`."""
        return np.ascontiguousarray(self.encoding.arranged(self, self._whole(weight))).reshape(self.shape)

    def extras_of(self, weight: np.ndarray[Any, Any]) -> int:
        """Return how many :attr:`extras` a weight needs."""
        return self.encoding.extras_of(self, self._whole(weight))

    def _whole(self, weight: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return a weight (units, runs, inputs of a run), filled up."""
        rows, columns = self.runs
        whole = np.zeros((self.blocks * self.block, rows * columns, self.depth), self.encoding.element)
        whole[: self.product.units, :, : self.length] = weight.reshape(-1, rows * columns, self.length)
        return whole


def _filled(size: Size, multiple: int) -> Size:
    return ceildiv(size, multiple) * multiple
