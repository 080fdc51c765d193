"""Convolutions whose weights are sparse."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Call, RelayExpr, Var, is_call, post_order
from .block_sparse import BlockSparse, Params, SparseAnalysisResult, zeros_of
from .weights import weights_of

__all__ = ["SparseAnalysisResult", "is_sparse_conv2d", "process_params"]


def process_params(
    expr: RelayExpr,
    params: Params,
    block_size: Sequence[int],
    sparsity_threshold: float,
    layout: str,
    kernel_size: int,
    reg_task_input: bool = True,
) -> SparseAnalysisResult:
    """Put sparse matrices in the place of those weights of convolutions that are sparse.

    Parameters
    ----------
    expr : Expr or Function
        The program.
    params : dict of str to tensor
        Its parameters, which are changed: a weight gives way to its name with ``.data``, ``.indices`` and ``.indptr``.
    block_size : sequence of int
        The rows and columns of blocks of the weight as a matrix with a row for each output channel.
    sparsity_threshold : float
        The least part of zeros in a weight, from 0 to 1.
    layout : str
        The layout of the data, ``"NHWC"`` with kernels in HWIO or ``"NCHW"`` with kernels in OIHW.
    kernel_size : int
        The size of the window on both axes, 1 or 3. Weights of convolutions that ``nn.sparse_conv2d`` cannot do stay.
    reg_task_input : bool
        Whether TVM's tuner was to be told of the weights; there is nothing to tell here.
    """
    found = SparseAnalysisResult([], [])
    for name in weights_of(expr, "nn.conv2d"):
        value = params[name].numpy() if name in params else None
        if value is None or zeros_of(value) < sparsity_threshold:
            continue
        users = [node for node in post_order(expr) if _has_weight(node, name)]
        if all(is_sparse_conv2d(user, value.shape, layout, kernel_size) for user in users):
            made = BlockSparse.of_convolution(value, layout, block_size)
            if made is not None:
                found.put(params, name, made)
    return found


def _has_weight(node: RelayExpr, name: str) -> bool:
    return isinstance(node, Call) and any(isinstance(a, Var) and a.name_hint == name for a in node.args)


def is_sparse_conv2d(call: RelayExpr, shape: Sequence[object], layout: str, kernel_size: int) -> bool:
    """Say whether ``nn.sparse_conv2d`` can do what a call does: a padded convolution of stride 1 and one group.

    Parameters
    ----------
    call : Expr
        The call.
    shape : sequence
        The shape of its weight.
    layout, kernel_size
        As for :func:`process_params`.
    """
    kernel = "HWIO" if layout == "NHWC" else "OIHW"
    if not is_call(call, "nn.conv2d") or call.attrs.kernel_layout != kernel:
        return False
    attrs = call.attrs
    return (
        (attrs.data_layout, attrs.groups) == (layout, 1)
        and list(attrs.strides) == [1, 1]
        and list(attrs.dilation) == [1, 1]
        and [shape[kernel.index(axis)] for axis in "HW"] == [kernel_size] * 2
        and list(attrs.padding) == [kernel_size // 2] * 4
        and attrs.out_layout in ("", layout)
        and attrs.out_dtype in ("", "float32")
    )
