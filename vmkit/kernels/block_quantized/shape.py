"""What is multiplied: rows with a matrix of codes of a few bits, in panels of as many columns as a vector has lanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._dataclasses import dataclass

__all__ = ["BlockQuantizedShape"]


@dataclass(frozen=True)
class BlockQuantizedShape:
    """The sizes of a product, and what it has for operands.

    Attributes
    ----------
    channels, units : int
        How many inputs and outputs a row has.
    bits : int
        Of a code: 2, 4 or 8.
    block : int
        How many inputs of an output share a scale and a zero point; a power of 2 from 16 on.
    lanes : int
        How many outputs a panel has: the numbers of a vector of 32 bits each.
    zeros : str
        The data type of zero points; empty where all of them are the middle of the codes.
    has_bias : bool
        Whether a vector is added to each row of results.
    """

    channels: int
    units: int
    bits: int
    block: int
    lanes: int
    zeros: str = ""
    has_bias: bool = False

    @property
    def blocks(self) -> int:
        """How many blocks the inputs have, the last of them filled up with zeros."""
        return -(-self.channels // self.block)

    @property
    def depth(self) -> int:
        """How many inputs there are with what fills them up."""
        return self.blocks * self.block

    @property
    def panels(self) -> int:
        """How many panels the outputs have, the last of them filled up."""
        return -(-self.units // self.lanes)

    @property
    def middle(self) -> int:
        """The zero point where none is given."""
        return 1 << (self.bits - 1)

    def of_panels(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return numbers of outputs (units, ...) as (panels, ..., lanes), with zeros for outputs that there are not."""
        whole = np.zeros((self.panels * self.lanes, *values.shape[1:]), values.dtype)
        whole[: self.units] = values
        apart = whole.reshape(self.panels, self.lanes, *values.shape[1:])
        return np.ascontiguousarray(np.moveaxis(apart, 1, -1))
