"""Convolutions with sparse weights."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.block_sparse import Params
from ..analysis.sparse_conv2d import process_params
from ..ir import Function
from ..transform.conv2d_to_sparse import Conv2dToSparse, Conv2dToSparse2
from .run import after

__all__ = ["convert", "convert2"]


def convert(
    func: Function,
    params: Params,
    blocksize: Sequence[int],
    sparsity_threshold: float,
    layout: str = "NHWC",
    kernel_size: int = 1,
) -> tuple[Function, Params]:
    """Return a function whose convolutions take sparse weights where these are sparse, and its parameters.

    Parameters
    ----------
    func : Function
        The program.
    params : dict of str to tensor
        Its parameters by name, which are changed.
    blocksize : sequence of int
        The rows and columns of blocks of a weight as a matrix with a row for each output channel.
    sparsity_threshold : float
        The least part of zeros in a weight, from 0 to 1.
    layout : str
        The layout of the data, ``"NHWC"`` or ``"NCHW"``.
    kernel_size : int
        The size of the window on both axes, 1 or 3.
    """
    found = process_params(func, params, blocksize, sparsity_threshold, layout, kernel_size)
    return after(Conv2dToSparse(found.weight_name, found.weight_shape, layout, kernel_size), func), params


def convert2(
    func: Function,
    params: Params,
    blocksize: Sequence[int],
    sparsity_threshold: float,
    layout: str,
    kernel_size: int,
) -> tuple[Function, Params]:
    """Return a function whose convolutions with constant weights take sparse ones, and the parameters as they were.

    The parameters are those of :func:`convert`; the threshold is of elements in blocks of zeros.
    """
    tall, wide = blocksize
    return after(Conv2dToSparse2(layout, kernel_size, tall, wide, sparsity_threshold), func), params
