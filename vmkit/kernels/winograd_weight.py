"""How a weight is transformed for Winograd's tiles, by numpy: when it is compiled, or when a program starts.

Transformed, a weight has up to four times its bytes, so files hold it as it was. What is here needs no compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._dataclasses import dataclass

__all__ = ["PAIRS", "PLAIN_TILE", "WinogradWeight", "weight_matrix"]

PAIRS: dict[int, tuple[float, ...]] = {4: (1.0,), 6: (0.6875, 1.5), 8: (0.5, 1.0, 2.0)}
"""The positive one of each pair of points, by the reach of a tile: how many elements it depends on."""

PLAIN_TILE = (1, 1)
"""The tile of a weight that is not transformed."""

# Multiplications of one product of matrices: of more, BLAS begins threads, which takes ten times as long beside others.
_STEPS = 1 << 17


def weight_matrix(reach: int, kernel: int) -> np.ndarray[Any, Any]:
    """Return the matrix (reach, kernel) that transforms an axis of a weight, in float64."""
    if reach == kernel:
        return np.eye(kernel)
    points = [0.0, *(sign * p for p in PAIRS[reach] for sign in (1, -1))]
    rows = [[p**k / np.prod([p - q for q in points if q != p]) for k in range(kernel)] for p in points]
    return np.array([*rows, [0.0] * (kernel - 1) + [1.0]])


@dataclass(frozen=True)
class WinogradWeight:
    """A weight (height, width, input channels, output channels) and what it is transformed to.

    Attributes
    ----------
    shape : tuple of int
        That of the weight.
    tile : tuple of int
        How many results on each axis come from one tile; :data:`PLAIN_TILE` for the weight as it is, in blocks.
    block : int
        Output channels in a block of the transformed weight.
    """

    shape: tuple[int, int, int, int]
    tile: tuple[int, int]
    block: int

    @property
    def reach(self) -> tuple[int, int]:
        """How many products each axis of a tile takes."""
        return self.tile[0] + self.shape[0] - 1, self.tile[1] + self.shape[1] - 1

    @property
    def is_plain(self) -> bool:
        """Whether a weight is put in blocks as it is, which are those of a packed product."""
        return self.tile == PLAIN_TILE

    @property
    def is_possible(self) -> bool:
        """Whether there are points for the tiles, and the output channels are whole blocks."""
        if min(*self.shape, *self.tile, self.block) < 1 or self.shape[3] % self.block:
            return False
        if self.is_plain:
            return True
        pairs = zip(self.reach, self.shape[:2], strict=True)
        return all(reach == 1 if size == 1 else reach in PAIRS for reach, size in pairs)

    @property
    def made(self) -> tuple[int, int, int, int]:
        """The shape of the transformed weight: blocks, products, input channels, output channels of a block."""
        _, _, inner, outer = self.shape
        return outer // self.block, self.reach[0] * self.reach[1], inner, self.block

    @property
    def matrix(self) -> np.ndarray[Any, Any]:
        """The transform (products, elements of the kernel), in float64."""
        return np.kron(*(weight_matrix(*pair) for pair in zip(self.reach, self.shape[:2], strict=True)))

    def transform(self, weight: np.ndarray[Any, Any], made: np.ndarray[Any, Any]) -> None:
        """Write the transform of a weight to `made`, rounded once from float64.

        Parameters
        ----------
        weight, made : numpy.ndarray
            Of the shapes :attr:`shape` and :attr:`made`, in float32; the weight may be in float16, too.
        """
        blocks, points, inner, block = self.made
        if self.is_plain:
            made[...] = weight.reshape(points, inner, blocks, block).transpose(2, 0, 1, 3)
            return
        matrix, elements = self.matrix, weight.reshape(-1, inner, blocks, block)
        size, together = len(elements), max(1, _STEPS // (matrix.size * block))
        group = next(g for g in range(min(together, inner), 0, -1) if inner % g == 0)
        count, width = inner // group, group * block
        # A block at a time: what is in float64 stays small.
        part, result = np.empty((count, size, group, block)), np.empty((count, points, width))
        for at in range(blocks):
            part[...] = elements[:, :, at].reshape(size, count, group, block).transpose(1, 0, 2, 3)
            np.matmul(matrix, part.reshape(count, size, width), out=result)
            made[at].reshape(points, count, width)[...] = result.transpose(1, 0, 2)
