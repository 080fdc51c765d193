"""Pooling over windows and over all of the spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import relay
from ....relay.ir import Expr, dims
from ....relay.op import build
from ..context import Context
from ..registry import converter
from .convolution import spatial_rank, window_padding


def _pool(
    ctx: Context,
    kind: str,
    x: Expr,
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
    **attributes: Any,
) -> Expr:
    rank = spatial_rank(ctx, x)
    if len(kernel) != rank:
        ctx.fail(f"kernel_shape {list(kernel)} is for {len(kernel)} spatial dimensions; the input has {rank}")
    steps, spread = list(strides or [1] * rank), list(dilations or [1] * rank)
    padding = window_padding(ctx, x, kernel, steps, spread, pads, auto_pad)
    if not all(isinstance(p, int) for p in padding):
        ctx.fail(f"auto_pad {auto_pad} of a pool whose input has sizes that are not known at import: {ctx.type(x)}")
    pooled = build(
        f"nn.{kind}_pool{rank}d",
        x,
        pool_size=list(kernel),
        strides=steps,
        dilation=spread,
        padding=padding,
        **attributes,
    )
    return _without_idle_windows(ctx, x, pooled, steps, padding) if attributes.get("ceil_mode") else pooled


def _without_idle_windows(ctx: Context, x: Expr, pooled: Expr, strides: Sequence[int], padding: Sequence[Any]) -> Expr:
    """Return the pool without windows that start behind the input and its padding in front: ONNX leaves them out."""
    begin, end, axes = [], [], []
    for axis, (extent, stride) in enumerate(zip(ctx.shape(x)[2:], strides, strict=True)):
        starts = dims.ceildiv(dims.add(extent, padding[axis]), stride)
        if not dims.at_least(starts, ctx.shape(pooled)[2 + axis]):
            begin.append(0)
            end.append(starts)
            axes.append(2 + axis)
    return relay.strided_slice(pooled, begin, end, [1] * len(axes), axes=axes) if axes else pooled


@converter("MaxPool")
def max_pool(
    ctx: Context,
    x: Expr,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    storage_order: int = 0,
) -> list[Expr | None]:
    pooled = _pool(ctx, "max", x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode=bool(ceil_mode))
    return [pooled, None]  # where the maxima were is not kept


@converter("AveragePool")
def average_pool(
    ctx: Context,
    x: Expr,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
) -> Expr:
    return _pool(
        ctx, "avg", x, kernel_shape, strides, dilations, pads, auto_pad,
        ceil_mode=bool(ceil_mode), count_include_pad=bool(count_include_pad),
    )  # fmt: skip


@converter("LpPool")
def lp_pool(
    ctx: Context,
    x: Expr,
    *,
    kernel_shape: Sequence[int],
    p: int = 2,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
) -> Expr:
    """The root of the sum of powers: an average that counts the padding, times the size of the window."""
    dtype = ctx.dtype(x)
    powers = relay.power(relay.abs(x), ctx.constant(p, dtype))
    mean = _pool(
        ctx, "avg", powers, kernel_shape, strides, dilations, pads, auto_pad,
        ceil_mode=bool(ceil_mode), count_include_pad=True,
    )  # fmt: skip
    total = relay.multiply(mean, ctx.constant(int(np.prod(kernel_shape)), dtype))
    return relay.power(total, ctx.constant(1 / p, dtype))


def _spatial_axes(ctx: Context, x: Expr) -> list[int]:
    return list(range(2, ctx.rank(x)))


@converter("GlobalAveragePool")
def global_average_pool(ctx: Context, x: Expr) -> Expr:
    return relay.nn.global_avg_pool2d(x) if ctx.rank(x) == 4 else relay.mean(x, _spatial_axes(ctx, x), True)


@converter("GlobalMaxPool")
def global_max_pool(ctx: Context, x: Expr) -> Expr:
    return relay.nn.global_max_pool2d(x) if ctx.rank(x) == 4 else relay.max(x, _spatial_axes(ctx, x), True)


@converter("GlobalLpPool")
def global_lp_pool(ctx: Context, x: Expr, *, p: int = 2) -> Expr:
    dtype = ctx.dtype(x)
    powers = relay.power(relay.abs(x), ctx.constant(p, dtype))
    return relay.power(relay.sum(powers, _spatial_axes(ctx, x), True), ctx.constant(1 / p, dtype))
