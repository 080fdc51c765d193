"""How many multiplications with an addition a program takes."""

from __future__ import annotations

from math import prod

from ...errors import ModelError
from ..ir import Call, Function, Op, RelayExpr, TensorType, is_call, post_order

__all__ = ["get_total_mac_number"]

_CONVOLUTIONS = ("nn.conv2d", "nn.conv2d_transpose", "nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc")


def get_total_mac_number(expr: RelayExpr) -> int:
    """Return how many multiply-accumulates the convolutions and matrix products of a typed expression take.

    Counted are ``nn.conv2d`` and its blocked form, ``nn.conv2d_transpose``, ``nn.dense`` and ``nn.batch_matmul``, each
    call once, however often it runs.

    Parameters
    ----------
    expr : Expr or Function
        The expression, its types inferred.

    Raises
    ------
    ValueError
        When its types have not been inferred.
    ModelError
        When a dimension that counts is not known before the program runs.
    """
    return sum(_macs(node) for node in post_order(expr) if isinstance(node, Call) and isinstance(node.op, Op))


def _macs(call: Call) -> int:
    if is_call(call, *_CONVOLUTIONS):
        channels = _axes(call.args[0], call.attrs.data_layout, "Cc")
        return _elements(call) * channels // call.attrs.groups * _axes(call.args[1], call.attrs.kernel_layout, "HW")
    if is_call(call, "nn.dense", "nn.contrib_dense_pack"):
        return _elements(call) * _shape(call.args[0])[-1]
    if is_call(call, "nn.batch_matmul"):
        return _elements(call) * _shape(call.args[0])[-2 if call.attrs.transpose_a else -1]
    return 0


def _axes(expr: RelayExpr, layout: str, wanted: str) -> int:
    """Return the product of the sizes of some axes of a tensor, blocks of them included."""
    axes = [letter for letter in layout if letter.isalpha()]
    return prod(size for axis, size in zip(axes, _shape(expr), strict=True) if axis in wanted)


def _elements(expr: RelayExpr) -> int:
    return prod(_shape(expr))


def _shape(expr: Function | RelayExpr) -> tuple[int, ...]:
    ty = expr.checked_type
    assert isinstance(ty, TensorType)  # what the relations of these operators require
    if not all(isinstance(size, int) for size in ty.shape):
        raise ModelError(f"the multiply-accumulates on a {ty} are not known before the program runs")
    return tuple(ty.shape)
