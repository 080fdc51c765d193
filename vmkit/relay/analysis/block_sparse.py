"""Matrices of which only the blocks that are not all zeros are kept (BSR)."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import tvm

from ..._dataclasses import dataclass

__all__ = ["BlockSparse", "Params", "SparseAnalysisResult", "zeros_of"]

Params: TypeAlias = MutableMapping[str, tvm.runtime.Tensor]
"""Values of a program's parameters by their names."""


@dataclass(frozen=True, eq=False)
class BlockSparse:
    """A matrix in blocks.

    Attributes
    ----------
    data : numpy.ndarray
        The blocks that are kept, of shape (blocks, rows of a block, columns of a block).
    indices : numpy.ndarray
        Which column of blocks each is in, int32.
    indptr : numpy.ndarray
        Where the blocks of each row of blocks begin, and where the last ones end, int32.
    shape : tuple of int
        The shape of the matrix.

    Examples
    --------
    >>> matrix = BlockSparse.of(np.diag([1.0, 2.0, 0.0, 0.0]).astype("float32"), (2, 1))
    >>> matrix.data.shape, matrix.indices.tolist(), matrix.indptr.tolist(), matrix.sparsity
    ((2, 2, 1), [0, 1], [0, 2, 2], 0.75)
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shape: tuple[int, int]

    @classmethod
    def of(cls, matrix: np.ndarray, block: Sequence[int]) -> BlockSparse:
        """Return a matrix in blocks of (rows, columns), which must divide it."""
        (height, width), (tall, wide) = matrix.shape, block
        if height % tall or width % wide:
            raise ValueError(f"blocks of {tall} x {wide} do not divide a matrix of {height} x {width}")
        blocks = matrix.reshape(height // tall, tall, width // wide, wide).transpose(0, 2, 1, 3)
        is_kept = blocks.any(axis=(2, 3))
        indptr = np.concatenate([[0], np.cumsum(is_kept.sum(axis=1))]).astype("int32")
        return cls(blocks[is_kept], np.nonzero(is_kept)[1].astype("int32"), indptr, (height, width))

    @classmethod
    def of_convolution(cls, weight: np.ndarray, layout: str, block: Sequence[int]) -> BlockSparse | None:
        """Return a convolution's weight as a matrix of a row for each output channel; None where blocks do not fit.

        Parameters
        ----------
        weight : numpy.ndarray
            In HWIO for data in NHWC, in OIHW for NCHW.
        layout : str
            The layout of the data.
        block : sequence of int
            The rows and columns of blocks.
        """
        matrix = weight.reshape(-1, weight.shape[3]).T if layout == "NHWC" else weight.reshape(weight.shape[0], -1)
        if any(size % part for size, part in zip(matrix.shape, block, strict=True)):
            return None
        return cls.of(np.ascontiguousarray(matrix), block)

    @property
    def sparsity(self) -> float:
        """The part of the elements that is not kept."""
        return 1.0 - self.data.size / (self.shape[0] * self.shape[1])

    def tensors(self) -> list[tvm.runtime.Tensor]:
        """Return the blocks, their columns and the row pointers as tensors."""
        return [tvm.runtime.tensor(np.ascontiguousarray(part)) for part in (self.data, self.indices, self.indptr)]

    @property
    def sizes(self) -> list[int]:
        """The shapes of the three tensors one after the other, as passes take them."""
        return [*self.data.shape, *self.indices.shape, *self.indptr.shape]


class SparseAnalysisResult(NamedTuple):
    """The names of the weights that were sparse, and the sizes of what took their places."""

    weight_name: list[str]
    weight_shape: list[list[int]]

    def put(self, params: Params, name: str, made: BlockSparse) -> None:
        """Put a sparse matrix in the place of a weight, as three parameters, and note it."""
        del params[name]
        names = [f"{name}.{part}" for part in ("data", "indices", "indptr")]
        params.update(zip(names, made.tensors(), strict=True))
        self.weight_name.append(name)
        self.weight_shape.append(made.sizes)


def zeros_of(value: np.ndarray) -> float:
    """Return the part of an array's elements that are zero."""
    return 1.0 - float(np.count_nonzero(value)) / value.size
