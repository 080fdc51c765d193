"""Convolutions and transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from .... import relay
from ....relay.ir import Dim, Expr, dims
from ....relay.op import build
from ....relay.op.nn.window import extent
from ..context import Context
from ..registry import converter
from ..spans import at_node
from ..window import LAYOUTS, ConvolutionWindow, Window, spatial_rank
from .transposed_sizes import cut_to_size, pads_of_same_size, without_pads

__all__ = ["conv", "transposed_convolution"]


@converter("Conv")
def conv(ctx: Context, x: Expr, weight: Expr, bias: Expr | None = None, *, window: ConvolutionWindow) -> Expr:
    rank = spatial_rank(ctx, x)
    sliding = window.over(ctx, x, window.of_weight(ctx, weight))
    padding = sliding.known_padding
    if padding is None:
        # What depends on sizes is put around the tensor.
        x = relay.nn.pad(x, sliding.pairs(), ctx.constant(0, ctx.dtype(x)))
        padding = [0] * (2 * rank)
    y = build(
        f"nn.conv{rank}d",
        x,
        weight,
        strides=sliding.strides,
        padding=padding,
        dilation=sliding.dilations,
        groups=window.group,
        channels=_channels(ctx, weight, 0),
        kernel_size=_told(sliding.kernel),
        data_layout=LAYOUTS[rank],
        kernel_layout="OI" + LAYOUTS[rank][2:],
    )
    y = at_node(ctx, y)
    return y if bias is None else relay.nn.bias_add(y, bias, axis=1)


def _channels(ctx: Context, weight: Expr, axis: int) -> int | None:
    count = ctx.shape(weight)[axis]
    return count if isinstance(count, int) else None


def _told(kernel: Sequence[Dim]) -> list[Dim] | None:
    """Return the size of a kernel; None, which is that of the weight, where there is one without a name."""
    return None if any(dims.is_any(d) for d in kernel) else list(kernel)


@converter("ConvTranspose")
def conv_transpose(
    ctx: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    *,
    window: ConvolutionWindow,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
) -> Expr:
    return transposed_convolution(ctx, x, weight, bias, window, output_padding, output_shape)


def transposed_convolution(
    ctx: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None,
    window: ConvolutionWindow,
    output_padding: Sequence[int] | None,
    output_shape: Sequence[int] | None = None,
    run_time_pads: Expr | None = None,
) -> Expr:
    """Return a transposed convolution; `run_time_pads`, where there are some, are a tensor instead of the window's."""
    rank = spatial_rank(ctx, x)
    kernel = window.of_weight(ctx, weight)
    extra = list(output_padding or [0] * rank)
    # Where sizes that are not known decide about the padding, the whole result is cut.
    is_known = all(isinstance(d, int) for d in (kernel if output_shape is None else [*kernel, *ctx.shape(x)[2:]]))
    if output_shape is None and run_time_pads is None and not is_known and window.auto_pad.startswith("SAME"):
        run_time_pads = pads_of_same_size(ctx, weight, window, extra)
    is_cut = run_time_pads is not None or (output_shape is not None and not is_known)
    padding = [0] * (2 * rank)
    if not is_cut:
        padding = _transpose_padding(ctx, x, kernel, window, extra, output_shape)
    channels = _channels(ctx, weight, 1)
    y = build(
        f"nn.conv{rank}d_transpose",
        x,
        weight,
        strides=window.steps(rank),
        padding=padding,
        dilation=window.spread(rank),
        groups=window.group,
        channels=None if channels is None else channels * window.group,
        kernel_size=_told(kernel),
        output_padding=extra,
        data_layout=LAYOUTS[rank],
        kernel_layout="IO" + LAYOUTS[rank][2:],
    )
    y = at_node(ctx, y)
    if run_time_pads is not None:
        y = without_pads(ctx, y, run_time_pads)
    elif is_cut and output_shape is not None:
        y = cut_to_size(ctx, y, list(output_shape)[-rank:], window.auto_pad == "SAME_UPPER")
    return y if bias is None else relay.nn.bias_add(y, bias, axis=1)


def _transpose_padding(
    ctx: Context, x: Expr, kernel: list[Dim], window: Window, extra: list[int], output_shape: Sequence[int] | None
) -> list[int]:
    """Return the padding, which the size wanted of the result may decide, where those of data and kernel are known.

    It may also add to the `extra` output.
    """
    rank = len(kernel)
    if output_shape is None and not window.auto_pad.startswith("SAME"):
        return list(window.pads) if window.pads is not None and window.auto_pad != "VALID" else [0] * (2 * rank)
    strides, dilations = window.steps(rank), window.spread(rank)
    before, after = [], []
    for axis in range(rank):
        reach = extent(int(kernel[axis]), dilations[axis])
        if output_shape is None:
            total = max(reach + extra[axis] - strides[axis], 0)
        else:
            length, wanted = int(ctx.shape(x)[2 + axis]), output_shape[axis - rank]
            total = strides[axis] * (length - 1) + extra[axis] + reach - wanted
            if total < 0:
                extra[axis] -= total
                total = 0
        small, large = total // 2, total - total // 2
        before.append(small if window.auto_pad == "SAME_UPPER" else large)
        after.append(large if window.auto_pad == "SAME_UPPER" else small)
    return before + after
