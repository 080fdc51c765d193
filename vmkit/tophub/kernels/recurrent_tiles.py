"""How kernels of recurrent layers divide their work, so that what is loaded serves many multiplications."""

from __future__ import annotations

from dataclasses import dataclass

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
    blocks : tuple of int
        How many blocks of the hidden units have their sums at once, for each of `rows`.
    """

    rows: tuple[int, ...]
    blocks: tuple[int, ...]

    @staticmethod
    def of(lanes: int, gates: int, count: int) -> RecurrentTiles:
        """Return the tiles for vectors of so many float32 and `count` blocks of hidden units with so many gates.

        Vectors of 16 come with 32 registers, narrower ones with 16: more sums would leave them, which costs more than
        it saves.
        """
        is_wide = lanes >= 16
        rows = (4, 2, 1) if is_wide else (2, 1)
        return RecurrentTiles(rows, tuple(_blocks(gates * each, is_wide or each == 1, count) for each in rows))


def _blocks(sums: int, is_over: bool, count: int) -> int:
    """Return how many of `count` blocks give enough sums, more than enough where `is_over` allows it."""
    return min(count, -(-_SUMS // sums) if is_over else max(1, _SUMS // sums))
