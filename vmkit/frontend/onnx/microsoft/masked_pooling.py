"""A pool over what a mask leaves of each window."""

from __future__ import annotations

from functools import reduce

import numpy as np

from .... import relay
from ....relay.ir import Dim, Expr, dims
from ..context import Context
from ..known import sizes
from ..operators.layout import to_shape
from ..registry import converter
from ..run_time_axes import size_along
from ..window import Window


@converter("MaxpoolWithMask", domain="com.microsoft", without=("dilations",))
def masked_max_pool(ctx: Context, x: Expr, mask: Expr, *, window: Window, storage_order: int = 0) -> Expr:
    """Along the last axis a window ends before the first element that is masked; the very first one never is.

    Masks are read as onnxruntime reads them, whose place depends on their channels: those of several channels are not
    read channel by channel.
    """
    sliding = window.over(ctx, x, window.of_pool(ctx, x))
    rank, spatial = len(sliding.kernel), ctx.shape(x)[2:]
    if any(dims.is_any(d) for d in spatial):
        ctx.fail(f"the sizes of the input must be known at import: {ctx.type(x)}")
    index, inside, counts = _elements(ctx, sliding.kernel, sliding.strides, sliding.padding, spatial)
    volume = dims.product(spatial)
    outer, zero = ctx.shape(x)[:2], ctx.constant(0, "int64")
    channels = ctx.positions(dims.product(outer), "int64")
    number = relay.multiply(size_along(ctx, mask, 0), size_along(ctx, mask, 1))
    starts = relay.mod(relay.multiply(channels, sizes(np.array(volume, dtype=object))), number)
    bits = relay.take(relay.reshape(mask, [-1]), _behind(starts, index, 2 * rank), axis=0, mode="clip")
    open_ = relay.not_equal(bits, ctx.constant(0, ctx.dtype(mask)))
    open_ = relay.logical_or(open_, relay.logical_not(inside))
    if rank > 1:
        open_ = relay.logical_or(open_, relay.equal(index, zero))
    goes_on = relay.cumprod(relay.cast(open_, "int32"), 2 * rank)
    counted = relay.logical_and(relay.greater(goes_on, ctx.constant(0, "int32")), inside)
    values = relay.take(to_shape(x, [dims.product(outer), volume]), index, axis=1, mode="clip")
    lowest = ctx.constant(np.finfo("float32").min, "float32")
    pooled = relay.max(relay.where(counted, values, lowest), [2 * k + 2 for k in range(rank)])
    return to_shape(pooled, [*outer, *counts])


def _behind(starts: Expr, index: Expr, rank: int) -> Expr:
    return relay.add(relay.expand_dims(starts, 1, rank), index)


def _elements(
    ctx: Context, kernel: list[int], strides: list[int], padding: list[Dim], spatial: list[Dim]
) -> tuple[Expr, Expr, list[Dim]]:
    """Return which element each place of each window is, whether it is one, and how many windows each axis has.

    Both have two dimensions for each axis: the windows, and the places in one.
    """
    rank = len(kernel)
    parts, flags, counts = [], [], list[Dim]()
    for axis, (size, stride, extent) in enumerate(zip(kernel, strides, spatial, strict=True)):
        before, after = padding[axis], padding[rank + axis]
        room = dims.sub(dims.add(dims.add(extent, before), after), size)
        counts.append(dims.add(dims.floordiv(room, stride), 1))
        first = relay.multiply(ctx.positions(counts[-1], "int64"), ctx.constant(stride, "int64"))
        first = relay.subtract(first, sizes(np.array(before, dtype=object)))
        at = relay.add(relay.expand_dims(first, 1), ctx.constant(np.arange(size), "int64"))
        limit = sizes(np.array(extent, dtype=object))
        inside = relay.logical_and(relay.greater_equal(at, ctx.constant(0, "int64")), relay.less(at, limit))
        step = sizes(np.array(dims.product(spatial[axis + 1 :]), dtype=object))
        spread = 2 * (rank - 1 - axis)
        parts.append(relay.expand_dims(relay.multiply(at, step), 2, spread))
        flags.append(relay.expand_dims(inside, 2, spread))
    return reduce(relay.add, parts), reduce(relay.logical_and, flags), counts
