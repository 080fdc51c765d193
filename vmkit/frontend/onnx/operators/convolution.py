"""Convolutions and what they share with pooling: windows and their padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import relay
from ....relay.ir import Dim, Expr, dims
from ....relay.op import build
from ..context import Context
from ..registry import converter
from .transposed_sizes import cut_to_size, without_pads

__all__ = ["kernel_of", "spatial_rank", "transposed_convolution", "window_padding"]

_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def spatial_rank(ctx: Context, x: Expr) -> int:
    """Return the number of spatial dimensions of a tensor of batch, channels, spatial; ModelError if not 1 to 3."""
    rank = ctx.rank(x) - 2
    if rank not in _LAYOUTS:
        ctx.fail(f"{ctx.type(x)} has {rank} spatial dimensions; 1, 2 and 3 are supported")
    return rank


def window_padding(
    ctx: Context,
    x: Expr,
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int] | None,
    auto_pad: str,
) -> list[Dim]:
    """Return the padding of a sliding window: before each spatial axis, then after each."""
    rank = len(window)
    if auto_pad in ("NOTSET", ""):
        chosen = list(pads) if pads is not None else [0] * (2 * rank)
        if len(chosen) != 2 * rank:
            ctx.fail(f"pads has {len(chosen)} values; {2 * rank} are needed for {rank} spatial dimensions")
        return chosen
    if auto_pad == "VALID":
        return [0] * (2 * rank)
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        ctx.fail(f"auto_pad is {auto_pad!r}; it is NOTSET, SAME_UPPER, SAME_LOWER or VALID")
    before: list[Dim] = []
    after: list[Dim] = []
    for extent, size, stride, dilation in zip(ctx.shape(x)[2:], window, strides, dilations, strict=True):
        reach = (size - 1) * dilation + 1
        if stride == 1:
            total: Dim = reach - 1
        else:
            if dims.is_any(extent):
                ctx.fail("auto_pad of a size that is not known at import")
            last = dims.mul(dims.sub(dims.ceildiv(extent, stride), 1), stride)
            total = dims.maximum(dims.sub(dims.add(last, reach), extent), 0)
        small = dims.floordiv(total, 2)
        large = dims.sub(total, small)
        before.append(small if auto_pad == "SAME_UPPER" else large)
        after.append(large if auto_pad == "SAME_UPPER" else small)
    return before + after


def padded(ctx: Context, x: Expr, padding: Sequence[Dim]) -> tuple[Expr, list[int]]:
    """Return a tensor and the padding left to the operator: what depends on sizes is put around the tensor."""
    if all(isinstance(p, int) for p in padding):
        return x, [int(p) for p in padding]
    rank = len(padding) // 2
    pairs = [[0, 0], [0, 0], *([padding[i], padding[rank + i]] for i in range(rank))]
    return relay.nn.pad(x, pairs, ctx.constant(0, ctx.dtype(x))), [0] * len(padding)


@converter("Conv")
def conv(
    ctx: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    *,
    kernel_shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    group: int = 1,
) -> Expr:
    rank = spatial_rank(ctx, x)
    kernel = kernel_of(ctx, weight, kernel_shape)
    steps, spread = list(strides or [1] * rank), list(dilations or [1] * rank)
    padding = window_padding(ctx, x, kernel, steps, spread, pads, auto_pad)
    x, own = padded(ctx, x, padding)
    y = build(
        f"nn.conv{rank}d",
        x,
        weight,
        strides=steps,
        padding=own,
        dilation=spread,
        groups=group,
        channels=_channels(ctx, weight, 0),
        kernel_size=kernel,
        data_layout=_LAYOUTS[rank],
        kernel_layout="OI" + _LAYOUTS[rank][2:],
    )
    return y if bias is None else relay.nn.bias_add(y, bias, axis=1)


def kernel_of(ctx: Context, weight: Expr, kernel_shape: Sequence[int] | None) -> list[int]:
    """Return the spatial sizes of a kernel; ModelError where they are not known."""
    own = ctx.shape(weight)[2:]
    if kernel_shape is not None:
        return list(kernel_shape)
    if not all(isinstance(d, int) for d in own):
        ctx.fail(f"the size of the kernel is not known at import: the weight is {ctx.type(weight)}")
    return [int(d) for d in own]


def _channels(ctx: Context, weight: Expr, axis: int) -> Any:
    count = ctx.shape(weight)[axis]
    return count if isinstance(count, int) else None


@converter("ConvTranspose")
def conv_transpose(
    ctx: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    *,
    kernel_shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    group: int = 1,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
) -> Expr:
    return transposed_convolution(
        ctx, x, weight, bias, kernel_shape=kernel_shape, strides=strides, dilations=dilations, pads=pads,
        auto_pad=auto_pad, group=group, output_padding=output_padding, output_shape=output_shape,
    )  # fmt: skip


def transposed_convolution(
    ctx: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None,
    *,
    kernel_shape: Sequence[int] | None,
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
    group: int,
    output_padding: Sequence[int] | None,
    output_shape: Sequence[int] | None = None,
    run_time_pads: Expr | None = None,
) -> Expr:
    """Return a transposed convolution; `run_time_pads`, where there are some, are a tensor instead of `pads`."""
    rank = spatial_rank(ctx, x)
    kernel = kernel_of(ctx, weight, kernel_shape)
    steps, spread = list(strides or [1] * rank), list(dilations or [1] * rank)
    extra = list(output_padding or [0] * rank)
    # Where the size of the data decides about the padding and is not known, the whole result is cut.
    is_cut = run_time_pads is not None or (
        output_shape is not None and not all(isinstance(d, int) for d in ctx.shape(x)[2:])
    )
    padding = [0] * (2 * rank)
    if not is_cut:
        padding = _transpose_padding(ctx, x, kernel, steps, spread, extra, pads, auto_pad, output_shape)
    channels = _channels(ctx, weight, 1)
    y = build(
        f"nn.conv{rank}d_transpose",
        x,
        weight,
        strides=steps,
        padding=padding,
        dilation=spread,
        groups=group,
        channels=None if channels is None else channels * group,
        kernel_size=kernel,
        output_padding=extra,
        data_layout=_LAYOUTS[rank],
        kernel_layout="IO" + _LAYOUTS[rank][2:],
    )
    if run_time_pads is not None:
        y = without_pads(ctx, y, run_time_pads)
    elif is_cut and output_shape is not None:
        y = cut_to_size(ctx, y, list(output_shape)[-rank:], auto_pad == "SAME_UPPER")
    return y if bias is None else relay.nn.bias_add(y, bias, axis=1)


def _transpose_padding(
    ctx: Context,
    x: Expr,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    extra: list[int],
    pads: Sequence[int] | None,
    auto_pad: str,
    output_shape: Sequence[int] | None,
) -> list[int]:
    """Return the padding, which the size wanted of the result may decide, where that of the data is known.

    It may also add to the `extra` output.
    """
    rank = len(kernel)
    if output_shape is None and not auto_pad.startswith("SAME"):
        return [int(p) for p in pads] if pads is not None and auto_pad != "VALID" else [0] * (2 * rank)
    before, after = [], []
    for axis in range(rank):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        if output_shape is None:
            total = max(reach + extra[axis] - strides[axis], 0)
        else:
            extent, wanted = int(ctx.shape(x)[2 + axis]), output_shape[axis - rank]
            total = strides[axis] * (extent - 1) + extra[axis] + reach - wanted
            if total < 0:
                extra[axis] -= total
                total = 0
        small, large = total // 2, total - total // 2
        before.append(small if auto_pad == "SAME_UPPER" else large)
        after.append(large if auto_pad == "SAME_UPPER" else small)
    return before + after
