"""How kernels of recurrent layers divide their work, so that what is loaded serves many multiplications."""

from __future__ import annotations

from .._dataclasses import dataclass

__all__ = ["RecurrentTiles"]

_SUMS = 8  # vectors whose sums grow at once: fewer than that wait for the results of those before them


@dataclass(frozen=True)
class RecurrentTiles:
    """The tiles of a kernel.

    Attributes
    ----------
    rows : tuple of int
        How many rows of the batch go through all steps together, each with a vector of sums for every gate; the most
        first, and 1 last.
    is_wide : bool
        Whether there are registers for more than enough sums.
    count : int
        How many blocks of hidden units there are.
    """

    rows: tuple[int, ...]
    is_wide: bool
    count: int

    @staticmethod
    def of(lanes: int, count: int) -> RecurrentTiles:
        """Return the tiles for vectors of so many float32 and `count` blocks of hidden units.

        Vectors of 16 come with 32 registers, narrower ones with 16: more sums would leave them, which costs more than
        it saves.
        """
        is_wide = lanes >= 16
        return RecurrentTiles((4, 2, 1) if is_wide else (2, 1), is_wide, count)

    def blocks(self, rows: int, gates: int) -> int:
        """Return how many blocks of hidden units have the sums of so many rows and gates at once."""
        sums = rows * gates
        is_over = self.is_wide or rows == 1
        return min(self.count, -(-_SUMS // sums) if is_over else max(1, _SUMS // sums))
