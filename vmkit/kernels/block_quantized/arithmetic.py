"""As which numbers rows are multiplied with codes, and by which instructions; all else is the same for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import tirx

from ..._dataclasses import dataclass
from ..builder import Size, T, integer, register, shuffled
from .shape import BlockQuantizedShape

__all__ = ["Arithmetic", "Block", "Join", "Prepared", "folded", "kept", "lane_of"]

Join = Callable[[tirx.Expr, tirx.Expr], tirx.Expr]


@dataclass(frozen=True)
class Prepared:
    """Rows as they are multiplied: (rows, depth) numbers, and what there is once a block, (rows, blocks).

    Attributes
    ----------
    numbers : buffer
        The inputs, zeros where there are none, in one axis.
    corrections : buffer
        What is to be added to a block's sum of products with codes, in float32: the sum of its numbers times -1, and
        times the zero point where all outputs have the same.
    factors : buffer or None
        What a block's sum is multiplied with besides the scale of its weights.
    """

    numbers: tirx.Buffer
    corrections: tirx.Buffer
    factors: tirx.Buffer | None


@dataclass(frozen=True)
class Block:
    """A block of some rows and a panel.

    Attributes
    ----------
    numbers, weight : buffer
        Those of the rows and of the weight, in one axis.
    rows : list of int
        Where the block of each row begins.
    begin : int
        Where the words of the block begin.
    start : callable
        Returns what the sum of a row starts with, as a vector of float32.
    """

    numbers: tirx.Buffer
    weight: tirx.Buffer
    rows: Sequence[Size]
    begin: Size
    start: Callable[[int], tirx.Expr]


@dataclass(frozen=True)
class Arithmetic(ABC):
    """A way of multiplying rows with codes.

    Attributes
    ----------
    name : str
        Its name in :data:`.ways.WAYS`.
    numbers : str
        The data type of the rows as they are multiplied.
    word : int
        How many bits the words of a weight have.
    group : int
        How many inputs of an output are next to each other.
    """

    name: str
    numbers: str
    word: int
    group: int

    @property
    @abstractmethod
    def has_factors(self) -> bool:
        """Whether a block of a row has a factor."""

    @abstractmethod
    def prepare(
        self, s: BlockQuantizedShape, load: Callable[[int], tirx.Expr], to: Prepared, at: Size, b: Size
    ) -> None:
        """Write a block of a row as it is multiplied.

        Parameters
        ----------
        load : callable
            Returns the vector of inputs of the block with a number.
        at, b : int
            Where the block begins among the numbers, and among what there is once a block.
        """

    @abstractmethod
    def sums(self, s: BlockQuantizedShape, block: Block) -> list[tirx.Expr]:
        """Return the sums of products of a block's rows with its codes, as vectors of float32."""

    def shape(self, s: BlockQuantizedShape) -> tuple[int, ...]:
        """Return the shape of a packed weight: (panels, blocks, vectors of a block, lanes, inputs of a group)."""
        return s.panels, s.blocks, self.loads(s), s.lanes, self.group

    def packed(self, s: BlockQuantizedShape, codes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return codes (units, blocks, inputs of a block) as words, in the order in which vectors of them are loaded.

        The codes of a word, the lowest bits first, are as many inputs apart as a group has, so that each shift of a
        vector has the same inputs of all its outputs.
        """
        count = self.word // s.bits
        whole = np.zeros((s.panels * s.lanes, s.blocks, s.block), f"uint{self.word}")
        whole[: s.units] = codes
        apart = whole.reshape(s.panels, s.lanes, s.blocks, -1, count, self.group)
        words = apart[..., 0, :].copy()
        for place in range(1, count):
            words |= apart[..., place, :] << np.array(place * s.bits, words.dtype)
        return np.ascontiguousarray(words.transpose(0, 2, 3, 1, 4))

    def loads(self, s: BlockQuantizedShape) -> int:
        """Return how many vectors of words a block has."""
        return s.block * s.bits // (self.word * self.group)


def kept(vector: tirx.Expr, lanes: int, dtype: str = "float32") -> tirx.Expr:
    """Return a vector put in a register; see :func:`.in_register`."""
    place = register(lanes, dtype)
    T.buffer_store(place, vector, [integer(0)])
    return place[0]


def folded(vector: tirx.Expr, lanes: int, dtype: str, join: Join) -> tirx.Expr:
    """Return a vector that has in every lane what all lanes of another join to."""
    step = lanes // 2
    while step:
        vector = kept(vector, lanes, dtype)
        vector = join(vector, shuffled(vector, vector, [lane ^ step for lane in range(lanes)]))
        step //= 2
    return kept(vector, lanes, dtype)


def lane_of(vector: tirx.Expr) -> tirx.Expr:
    """Return the first element of a vector."""
    return tirx.Shuffle([vector], [tirx.IntImm("int32", 0)])
