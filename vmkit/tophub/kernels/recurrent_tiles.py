"""How kernels of recurrent layers share a weight that is loaded among the rows of a batch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RecurrentTiles"]


@dataclass(frozen=True)
class RecurrentTiles:
    """The tiles of a kernel.

    Attributes
    ----------
    rows : int
        How many rows of the batch go through all steps together, each with a vector of sums for every gate.
    """

    rows: int

    @staticmethod
    def of(lanes: int) -> RecurrentTiles:
        """Return the tiles for vectors of so many float32: those of 16 come with 32 registers, narrower ones with 16.

        With more rows the sums of four gates would leave the registers, which costs more than it saves.
        """
        return RecurrentTiles(4 if lanes >= 16 else 2)
