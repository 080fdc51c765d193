"""Dense layers whose weights are sparse."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import RelayExpr
from .block_sparse import BlockSparse, Params, SparseAnalysisResult, zeros_of
from .weights import weights_of

__all__ = ["SparseAnalysisResult", "process_params"]


def process_params(
    expr: RelayExpr, params: Params, block_size: Sequence[int], sparsity_threshold: float
) -> SparseAnalysisResult:
    """Put sparse matrices in the place of those weights of dense layers that are sparse.

    Parameters
    ----------
    expr : Expr or Function
        The program.
    params : dict of str to tensor
        Its parameters, which are changed: a weight gives way to its name with ``.data``, ``.indices`` and ``.indptr``.
    block_size : sequence of int
        The rows and columns of blocks, which must divide the weights; ValueError where they do not.
    sparsity_threshold : float
        The least part of zeros in a weight, from 0 to 1.
    """
    found = SparseAnalysisResult([], [])
    for name in weights_of(expr, "nn.dense"):
        value = params[name].numpy() if name in params else None
        if value is not None and zeros_of(value) >= sparsity_threshold:
            found.put(params, name, BlockSparse.of(value, block_size))
    return found
