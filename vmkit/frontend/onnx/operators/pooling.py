"""Pooling over windows and over all of the spatial axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .... import relay
from ....relay.ir import Expr, TupleGetItem, dims
from ....relay.op import build
from ..context import Context
from ..known import sizes
from ..registry import converter
from ..run_time_axes import as_vector
from .convolution import spatial_rank, window_padding
from .layout import to_shape


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
        return _pool_of_padded(ctx, kind, x, kernel, steps, spread, padding, attributes)
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


def _pool_of_padded(
    ctx: Context,
    kind: str,
    x: Expr,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: Sequence[Any],
    attributes: Mapping[str, Any],
) -> Expr:
    """Return a pool whose padding depends on sizes that are not known now: the input is padded first."""
    dtype, rank = ctx.dtype(x), len(kernel)
    widths = [[0, 0], [0, 0], *([padding[k], padding[rank + k]] for k in range(rank))]

    def pooled(values: Expr, outside: float, **more: Any) -> Expr:
        around = relay.nn.pad(values, widths, ctx.constant(outside, dtype))
        return _pool(ctx, kind, around, kernel, strides, dilations, None, "NOTSET", **{**attributes, **more})

    if kind == "max":
        return pooled(x, -np.inf if dtype.startswith(("float", "bfloat")) else np.iinfo(dtype).min)
    mean = pooled(x, 0, count_include_pad=True)
    if attributes.get("count_include_pad"):
        return mean
    # The mean over all of a window by the share of it that lies on the input.
    return relay.divide(mean, pooled(relay.ones_like(x), 0, count_include_pad=True))


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
    if ctx.wants(1):
        return _with_indices(ctx, x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode, storage_order)
    pooled = _pool(ctx, "max", x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode=bool(ceil_mode))
    return [pooled, None]


def _with_indices(
    ctx: Context,
    x: Expr,
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
    ceil_mode: int,
    storage_order: int,
) -> list[Expr | None]:
    """Return the maxima and where in the whole input they are."""
    rank = spatial_rank(ctx, x)
    if len(kernel) != rank:
        ctx.fail(f"kernel_shape {list(kernel)} is for {len(kernel)} spatial dimensions; the input has {rank}")
    steps, spread = list(strides or [1] * rank), list(dilations or [1] * rank)
    padding = window_padding(ctx, x, kernel, steps, spread, pads, auto_pad)
    if not all(isinstance(p, int) for p in padding):
        ctx.fail(f"auto_pad {auto_pad} of a pool whose input has sizes that are not known at import: {ctx.type(x)}")
    both = build(
        "nn.contrib_max_pool_with_indices",
        x,
        pool_size=list(kernel),
        strides=steps,
        dilation=spread,
        padding=padding,
        layout={1: "NCW", 2: "NCHW", 3: "NCDHW"}[rank],
        ceil_mode=bool(ceil_mode),
        column_major=bool(storage_order),
    )
    results = [TupleGetItem(both, k) for k in range(2)]
    return [_without_idle_windows(ctx, x, r, steps, padding) if ceil_mode else r for r in results]


@converter("MaxUnpool", since=9)
def max_unpool(
    ctx: Context,
    x: Expr,
    indices: Expr,
    output_shape: Expr | None = None,
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Expr:
    """Write elements back to where a pool found them; a larger output_shape adds zeros behind."""
    rank = spatial_rank(ctx, x)
    steps, padding = list(strides or [1] * rank), list(pads or [0] * (2 * rank))
    shape: list[Any] = ctx.shape(x)
    if any(dims.is_any(d) for d in shape):
        ctx.fail(f"the input has sizes that are known only at run time: {ctx.type(x)}")
    for axis in range(rank):
        size = dims.add(dims.mul(dims.sub(shape[2 + axis], 1), steps[axis]), kernel_shape[axis])
        shape[2 + axis] = dims.sub(size, padding[axis] + padding[rank + axis])
    zero = ctx.constant(0, ctx.dtype(x))
    empty = relay.full(zero, [dims.product(shape)], ctx.dtype(x))
    count = [dims.product(ctx.shape(x))]
    written = relay.scatter_elements(empty, to_shape(indices, count), to_shape(x, count), 0, "update")
    result = to_shape(written, shape)
    if output_shape is None:
        return result
    wanted = ctx.dims(output_shape)
    if wanted is not None:
        return relay.nn.pad(result, [[0, dims.sub(w, d)] for w, d in zip(wanted, shape, strict=True)], zero)
    added = relay.subtract(as_vector(ctx, output_shape), sizes(shape))
    pairs = relay.stack([ctx.constant([0] * len(shape), "int64"), added], 1)
    return relay.nn.pad(result, pairs, zero)


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
    p: float = 2,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
) -> Expr:
    """The root of the sum of powers: an average that counts the padding, times the size of the window."""
    dtype = ctx.dtype(x)
    powers = relay.power(relay.abs(x), ctx.constant(p, dtype))
    if ceil_mode:
        # A last window that reaches past the end counts with all of its size: what it lacks is put behind the input.
        rank = spatial_rank(ctx, x)
        steps = list(strides or [1] * rank)
        own = window_padding(ctx, x, kernel_shape, steps, list(dilations or [1] * rank), pads, auto_pad)
        more = [[o, dims.add(e, s - 1)] for o, e, s in zip(own[:rank], own[rank:], steps, strict=True)]
        padded = relay.nn.pad(powers, [[0, 0], [0, 0], *more], ctx.constant(0, dtype))
        mean = _pool(ctx, "avg", padded, kernel_shape, steps, dilations, None, "NOTSET", count_include_pad=True)
        mean = _without_idle_windows(ctx, x, mean, steps, own)
        return _rooted(ctx, mean, kernel_shape, p)
    mean = _pool(
        ctx, "avg", powers, kernel_shape, strides, dilations, pads, auto_pad,
        ceil_mode=bool(ceil_mode), count_include_pad=True,
    )  # fmt: skip
    return _rooted(ctx, mean, kernel_shape, p)


def _rooted(ctx: Context, mean: Expr, kernel: Sequence[int], p: float) -> Expr:
    """Return the root of the sum that the mean of windows of a size is of."""
    dtype = ctx.dtype(mean)
    total = relay.multiply(mean, ctx.constant(int(np.prod(kernel)), dtype))
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
def global_lp_pool(ctx: Context, x: Expr, *, p: float = 2) -> Expr:
    dtype = ctx.dtype(x)
    powers = relay.power(relay.abs(x), ctx.constant(p, dtype))
    return relay.power(relay.sum(powers, _spatial_axes(ctx, x), True), ctx.constant(1 / p, dtype))
