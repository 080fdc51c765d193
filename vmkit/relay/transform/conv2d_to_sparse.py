"""Convolutions become those by sparse weights."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.block_sparse import BlockSparse
from ..analysis.sparse_conv2d import is_sparse_conv2d
from ..ir import Call, Constant, Function, RelayExpr, is_call
from ..op.registry import entry
from .known_type import rewrite_typed
from .registry import ModuleTransform, per_function, relay_pass
from .weight_parameters import sparse_parameters, weight_name, with_other_weights

__all__ = ["Conv2dToSparse", "Conv2dToSparse2"]


@relay_pass(opt_level=4)
def Conv2dToSparse(
    weight_name: Sequence[str], weight_shape: Sequence[Sequence[int]], layout: str, kernel_size: int
) -> ModuleTransform:
    """Return the pass that makes ``nn.conv2d`` with some parameters ``nn.sparse_conv2d``.

    Parameters
    ----------
    weight_name : sequence of str
        The names of the weights. Each gives way to three parameters, its name with ``.data``, ``.indices`` and
        ``.indptr``.
    weight_shape : sequence of sequence of int
        For each, the two or three sizes of the blocks' tensor, and the lengths of the columns and of the row pointers.
        ``relay.analysis.sparse_conv2d.process_params`` returns both, and makes the parameters' values.
    layout : str
        The layout of the data, ``"NHWC"`` or ``"NCHW"``.
    kernel_size : int
        The size of the window on both axes, 1 or 3.
    """
    shapes = dict(zip(map(str, weight_name), weight_shape, strict=True))
    return per_function(lambda function: _by_parameters(function, shapes, layout, kernel_size))


def _by_parameters(function: Function, shapes: dict[str, Sequence[int]], layout: str, kernel_size: int) -> Function:
    made = {name: sparse_parameters(name, list(shape)) for name, shape in shapes.items()}

    def change(node: RelayExpr) -> RelayExpr:
        name = weight_name(node, "nn.conv2d")
        if not isinstance(node, Call) or name not in made or not _is_sparse(node, layout, kernel_size):
            return node
        return _sparse_call(node.args[0], made[name], layout, kernel_size)

    return with_other_weights(function, change)


@relay_pass(opt_level=5)
def Conv2dToSparse2(layout: str, kernel_size: int, blockH: int, blockW: int, sparse_thresh: float) -> ModuleTransform:
    """Return the pass that makes ``nn.conv2d`` with constant weights that are sparse ``nn.sparse_conv2d``.

    Parameters
    ----------
    layout : str
        The layout of the data, ``"NHWC"`` with kernels in HWIO or ``"NCHW"`` with kernels in OIHW.
    kernel_size : int
        The size of the window on both axes, 1 or 3.
    blockH, blockW : int
        The sizes of the blocks, of output channels and of what a channel is made from.
    sparse_thresh : float
        The least part of the weight that is in blocks of zeros, from 0 to 1.
    """

    def change(node: RelayExpr) -> RelayExpr:
        if not is_call(node, "nn.conv2d") or not isinstance(node.args[1], Constant):
            return node
        if not _is_sparse(node, layout, kernel_size) or node.args[1].data.dtype != "float32":
            return node
        weight = BlockSparse.of_convolution(node.args[1].data.numpy(), layout, (blockH, blockW))
        if weight is None or weight.sparsity < sparse_thresh:
            return node
        return _sparse_call(node.args[0], [Constant(part) for part in weight.tensors()], layout, kernel_size)

    return per_function(lambda function: rewrite_typed(function, change))


def _sparse_call(data: RelayExpr, weight: Sequence[RelayExpr], layout: str, kernel_size: int) -> Call:
    size = [kernel_size, kernel_size]
    return entry("nn.sparse_conv2d").call(data, *weight, layout=layout, kernel_size=size)


def _is_sparse(conv: Call, layout: str, kernel_size: int) -> bool:
    return is_sparse_conv2d(conv, list(conv.args[1].checked_type.shape), layout, kernel_size)
