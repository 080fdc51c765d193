"""Dense layers with sparse weights."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.block_sparse import Params
from ..analysis.sparse_dense import process_params
from ..ir import Function
from ..transform.dense_to_sparse import DenseToSparse
from .run import after

__all__ = ["convert"]


def convert(
    func: Function, params: Params, blocksize: Sequence[int], sparsity_threshold: float
) -> tuple[Function, Params]:
    """Return a function whose dense layers take sparse weights where these are sparse, and its parameters.

    Parameters
    ----------
    func : Function
        The program.
    params : dict of str to tensor
        Its parameters by name, which are changed.
    blocksize : sequence of int
        The rows and columns of blocks.
    sparsity_threshold : float
        The least part of zeros in a weight, from 0 to 1.
    """
    found = process_params(func, params, blocksize, sparsity_threshold)
    return after(DenseToSparse(found.weight_name, found.weight_shape), func), params
