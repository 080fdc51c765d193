"""How kernels of recurrent layers divide their work, so that what is loaded serves many multiplications."""

from __future__ import annotations

from tvm import tirx

from .._dataclasses import dataclass

__all__ = ["RecurrentTiles"]

_MOST = (6, 4)  # rows, for each of which there is code, with 32 registers and with 16
_SUMS = 8  # vectors whose sums grow at once: fewer than that wait for the results of those before them


@dataclass(frozen=True)
class RecurrentTiles:
    """The tiles of a kernel.

    Attributes
    ----------
    rows : tuple of int
        How many rows of the batch may go through all steps together, each with a vector of sums for every gate: a
        weight is read once for all of them. The most first.
    is_wide : bool
        Whether there are registers for more than enough sums.
    count : int
        How many blocks of hidden units there are.
    """

    rows: tuple[int, ...]
    is_wide: bool
    count: int

    @staticmethod
    def of(lanes: int, count: int, gates: int, batch: int | None = None, *, may_end: bool = False) -> RecurrentTiles:
        """Return the tiles for vectors of so many float32, `count` blocks of hidden units and so many gates.

        Vectors of 16 come with 32 registers, narrower ones with 16. They hold the sums, a weight for every gate and a
        number of a state: more sums would leave them, which costs more than it saves. Of a batch that is known, rows
        are those that its tiles have; where rows `may_end` before others, fewer go on.
        """
        is_wide = lanes >= 16
        registers = 32 if is_wide else 16
        largest = min(_MOST[not is_wide], (registers - 1) // gates - 1)
        if batch is None:
            return RecurrentTiles(tuple(range(largest, 0, -1)), is_wide, count)
        tiles = max(-(-batch // largest), 1)
        most = max(-(-batch // tiles), 1)
        rows = range(1, most + 1) if may_end else {most, max(batch - most * (tiles - 1), 1)}
        return RecurrentTiles(tuple(sorted(rows, reverse=True)), is_wide, count)

    def split(self, batch: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr]:
        """Return how many tiles a batch has, as few as there may be, and how many rows each but the last."""
        most = self.rows[0]
        tiles = (batch + (most - 1)) // most
        return tiles, (batch + (tiles - 1)) // tirx.max(tiles, tirx.const(1, "int64"))

    def blocks(self, rows: int, gates: int) -> int:
        """Return how many blocks of hidden units have the sums of so many rows and gates at once."""
        sums = rows * gates
        is_over = self.is_wide or rows == 1
        return min(self.count, -(-_SUMS // sums) if is_over else max(1, _SUMS // sums))
