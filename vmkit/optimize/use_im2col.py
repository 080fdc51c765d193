"""Convolutions whose windows neither overlap nor leave gaps, as at the start of a vision transformer."""

from __future__ import annotations

from math import prod
from typing import Any

from ..relay.ir import Dim, Expr, RelayExpr, TensorType, dims, is_call
from ..relay.op.registry import build
from ..relay.transform.known_type import rewrite_typed, type_of
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass

__all__ = ["UseIm2col"]

_LAYOUTS = {"nn.conv1d": ("NWC", "WIO"), "nn.conv2d": ("NHWC", "HWIO"), "nn.conv3d": ("NDHWC", "DHWIO")}
_FEW_CHANNELS = 32  # with more, kernels read the channels of one position at a time as well as those of a patch


@relay_pass(opt_level=1)
def UseIm2col() -> ModuleTransform:
    """Return the pass that makes a convolution over patches, channels last, one over single positions.

    The elements of a patch become the channels of its position. That pays where a position has few channels, as images
    do: sums over the channels of one position after another do not fill vectors and tiles. The sizes of images must be
    known; what a last patch would lack is left out, as a convolution does.
    """
    return per_function(lambda function: rewrite_typed(function, _replaced))


def _replaced(node: RelayExpr) -> RelayExpr:
    if not is_call(node, *_LAYOUTS):
        return node
    attrs, (data, weight) = node.attrs, node.args
    is_last = (attrs.data_layout, attrs.kernel_layout) == _LAYOUTS[node.op.name]
    if not is_last or attrs.out_layout not in ("", attrs.data_layout):
        return node
    batch, *sizes, channels = _shape(data)
    *window, inner, outer = _shape(weight)
    if not all(isinstance(d, int) for d in (*sizes, *window, inner, outer)) or dims.is_any(batch):
        return node
    strides, one = [int(s) for s in attrs.strides], [1] * len(window)
    is_of_patches = strides == window and attrs.groups == 1 and [int(d) for d in attrs.dilation] == one
    if not is_of_patches or any(int(p) for p in attrs.padding) or prod(window) == 1 or inner >= _FEW_CHANNELS:
        return node
    counts = [size // step for size, step in zip(sizes, window, strict=True)]
    if 0 in counts:
        return node
    whole = [count * step for count, step in zip(counts, window, strict=True)]
    if whole != sizes:
        axes = list(range(1, len(sizes) + 1))
        data = build("strided_slice", data, [0] * len(sizes), whole, one, axes=axes)
    cut = [size for pair in zip(counts, window, strict=True) for size in pair]
    rank = len(window)
    order = [0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2), 2 * rank + 1]
    patches = build("transpose", _reshaped(data, [batch, *cut, channels]), order)
    return build(
        node.op.name,
        _reshaped(patches, [batch, *counts, prod(window) * inner]),
        _reshaped(weight, [*one, prod(window) * inner, outer]),
        strides=one,
        padding=[0] * (2 * rank),
        dilation=one,
        channels=outer,
        kernel_size=one,
        data_layout=attrs.data_layout,
        kernel_layout=attrs.kernel_layout,
        out_dtype=attrs.out_dtype,
    )


def _reshaped(data: Expr, shape: list[Dim]) -> Expr:
    return build("reshape", data, newshape=shape, allowzero=True)


def _shape(node: RelayExpr) -> list[Any]:
    ty = type_of(node)
    assert isinstance(ty, TensorType)
    return list(ty.shape)
