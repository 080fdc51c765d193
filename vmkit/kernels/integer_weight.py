"""Weights of integers as vectors of them are multiplied: groups of inputs, of 32 outputs side by side."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

__all__ = ["BLOCK", "INTEGER_MARK", "IntegerWeight"]

INTEGER_MARK = "vmkit.integer_product"
"""The annotation of a kernel's sum that holds its :class:`IntegerWeight` as JSON."""
BLOCK = 32
"""How many outputs are computed at once."""


@dataclass(frozen=True)
class IntegerWeight:
    """The weight of a convolution of integers over channels-last data, or of a dense layer.

    A sum goes over runs of numbers that follow each other in memory: all columns and channels of a row of the window,
    or, where columns are apart, the channels of one.

    Attributes
    ----------
    channels, units : int
        How many inputs and outputs there are at each position.
    group : int
        How many inputs one instruction multiplies and adds up for each output.
    multiple : int
        What the length of a run is filled up to a multiple of, with zeros; itself a multiple of the group.
    kernel, strides, dilation, padding : tuple of int
        Rows and columns of the window; the padding is that before the data. A dense layer has a window of one.
    """

    channels: int
    units: int
    group: int = 4
    multiple: int = 4
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)

    @classmethod
    def from_json(cls, text: str) -> IntegerWeight:
        """Read what :meth:`to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        sizes: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**sizes)

    def to_json(self) -> str:
        """Return the fields as JSON text."""
        return json.dumps(asdict(self))

    @property
    def takes_rows(self) -> bool:
        """Whether a run is a whole row of the window."""
        return self.dilation[1] == 1

    @property
    def is_pointwise(self) -> bool:
        """Whether every output position takes the input position of the same number."""
        return self.kernel == (1, 1) and self.strides == (1, 1) and self.padding == (0, 0)

    @property
    def runs(self) -> tuple[int, int]:
        """How many rows and columns of runs the window has."""
        return self.kernel[0], 1 if self.takes_rows else self.kernel[1]

    @property
    def length(self) -> int:
        """How many numbers of the data a run has."""
        return self.channels * (self.kernel[1] if self.takes_rows else 1)

    @property
    def depth(self) -> int:
        """How many numbers a run has, with what fills it up."""
        return -(-self.length // self.multiple) * self.multiple

    @property
    def blocks(self) -> int:
        """How many blocks of outputs there are, the last one filled up with zeros."""
        return -(-self.units // BLOCK)

    @property
    def dtype(self) -> str:
        """The data type of the packed weight."""
        return "int8" if self.group == 4 else "int16"

    @property
    def shape(self) -> tuple[int, ...]:
        """The packed weight's shape: blocks, runs, groups of a run, outputs of a block, numbers of a group."""
        rows, columns = self.runs
        return self.blocks, rows * columns, self.depth // self.group, BLOCK, self.group

    @property
    def products(self) -> int:
        """How many products an output position has, those with what is filled up among them."""
        rows, columns = self.runs
        return rows * columns * self.depth * self.blocks * BLOCK

    def index(self, row: Any, column: Any, channel: Any, unit: Any) -> tuple[Any, ...]:
        """Return where an element is in the packed weight."""
        at = column * self.channels + channel if self.takes_rows else channel
        run = row if self.takes_rows else row * self.kernel[1] + column
        return unit // BLOCK, run, at // self.group, unit % BLOCK, at % self.group

    def pack(self, weight: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return integers of 8 bits, (units, rows, columns, channels), in :attr:`shape`."""
        rows, columns = self.runs
        whole = np.zeros((self.blocks * BLOCK, rows * columns, self.depth), self.dtype)
        whole[: self.units, :, : self.length] = weight.reshape(self.units, rows * columns, self.length)
        grouped = whole.reshape(self.blocks, BLOCK, rows * columns, self.depth // self.group, self.group)
        return np.ascontiguousarray(grouped.transpose(0, 2, 3, 1, 4))
