"""Pooling over windows and over all of the spatial axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from .... import relay
from ....relay.ir import Any as AnyDim
from ....relay.ir import Dim, Expr, TupleGetItem, dims
from ....relay.op import build
from ..context import Context
from ..known import sizes
from ..registry import converter
from ..run_time_axes import as_vector, pinned, shape_vector, size_along
from ..spans import at_node
from ..typing import typed
from ..window import LAYOUTS, Sliding, Window
from .indexing import scatter_elements
from .layout import to_shape


def _pool(
    ctx: Context,
    kind: str,
    x: Expr,
    sliding: Sliding,
    *,
    ceil_mode: bool = False,
    count_include_pad: bool | None = None,
) -> Expr:
    """Return the pool of a kind, "max" or "avg"; only an average has a `count_include_pad`."""
    if sliding.known_padding is None:
        return _pool_of_padded(ctx, kind, x, sliding, ceil_mode, count_include_pad)
    counted = {} if count_include_pad is None else {"count_include_pad": count_include_pad}
    pooled = build(
        f"nn.{kind}_pool{len(sliding.kernel)}d",
        x,
        pool_size=sliding.kernel,
        strides=sliding.strides,
        dilation=sliding.dilations,
        padding=sliding.padding,
        ceil_mode=ceil_mode,
        **counted,
    )
    pooled = at_node(ctx, pooled)
    return _without_idle_windows(ctx, x, pooled, sliding) if ceil_mode else pooled


def _pool_of_padded(
    ctx: Context, kind: str, x: Expr, sliding: Sliding, ceil_mode: bool, count_include_pad: bool | None
) -> Expr:
    """Return a pool whose padding depends on sizes that are not known now: the input is padded first."""
    dtype = ctx.dtype(x)
    unpadded = sliding.unpadded()

    def pooled(values: Expr, outside: float, count_include_pad: bool | None) -> Expr:
        around = relay.nn.pad(values, sliding.pairs(), ctx.constant(outside, dtype))
        return _pool(ctx, kind, around, unpadded, ceil_mode=ceil_mode, count_include_pad=count_include_pad)

    if kind == "max":
        return pooled(x, _least(dtype), None)
    mean = pooled(x, 0, True)
    if count_include_pad:
        return mean
    # The mean over all of a window by the share of it that lies on the input.
    return relay.divide(mean, pooled(relay.ones_like(x), 0, True))


def _least(dtype: str) -> float:
    """Return what is no larger than anything of a type."""
    return -np.inf if dtype.startswith(("float", "bfloat")) else np.iinfo(dtype).min


def _without_idle_windows(ctx: Context, x: Expr, pooled: Expr, sliding: Sliding) -> Expr:
    """Return the pool without windows that start behind the input and its padding in front: ONNX leaves them out."""
    rank, shape = len(sliding.kernel), ctx.shape(pooled)
    begin, end, axes = [], [], []
    for axis, (extent, stride, reach) in enumerate(
        zip(ctx.shape(x)[2:], sliding.strides, sliding.reaches, strict=True)
    ):
        # One that begins behind the input is only there where the one before it left some of the padding behind.
        if dims.at_least(reach, dims.add(stride, sliding.padding[rank + axis])):
            continue
        starts = dims.ceildiv(dims.add(extent, sliding.padding[axis]), stride)
        if not dims.at_least(starts, shape[2 + axis]):
            begin.append(0)
            end.append(starts)
            axes.append(2 + axis)
    if any(dims.is_any(e) for e in end):
        left = [AnyDim() if k in axes else d for k, d in enumerate(shape)]
        return pinned(ctx, typed(_begun_within(ctx, x, pooled, sliding)), left)
    return relay.strided_slice(pooled, begin, end, [1] * len(axes), axes=axes) if axes else pooled


def _begun_within(ctx: Context, x: Expr, pooled: Expr, sliding: Sliding) -> Expr:
    """Return the windows that start on the input or its padding in front, where only the run knows how many."""
    rank = len(sliding.kernel)
    strides = [1, 1, *sliding.strides]
    reached = sizes([0, 0, *(dims.add(p, s - 1) for p, s in zip(sliding.padding[:rank], sliding.strides, strict=True))])
    starts = relay.floor_divide(relay.add(shape_vector(ctx, x), reached), ctx.constant(strides, "int64"))
    return relay.strided_slice(
        pooled, ctx.constant([0] * (2 + rank), "int64"), starts, ctx.constant([1] * (2 + rank), "int64")
    )


def _counts(ctx: Context, x: Expr, sliding: Sliding, ceil_mode: bool) -> list[int] | None:
    """Return how many windows lie along each spatial axis if one is too large for an axis; None if all of them fit.

    Sizes are divided as in C, towards zero: a window that lacks less than its stride is there once, with what there
    is of it, one that lacks less than two strides not at all, and more is an error.
    """
    padding, extents = sliding.known_padding, ctx.shape(x)[2:]
    rank = len(sliding.kernel)
    if padding is None:
        return None
    counts = []
    reaches = sliding.reaches
    # How far the last window that fits could move; less than 0 is what the first one lacks.
    rooms = [
        e + padding[k] + padding[rank + k] - reaches[k] if isinstance(e, int) else None for k, e in enumerate(extents)
    ]
    if all(room is None or room >= 0 for room in rooms):
        return None
    for axis, (room, stride) in enumerate(zip(rooms, sliding.strides, strict=True)):
        if room is None:
            ctx.fail(
                f"a window is too large for one axis of {ctx.type(x)}, and the size of spatial axis {axis} is not known"
            )
        if room <= -2 * stride:
            ctx.fail(
                f"a window that reaches over {reaches[axis]} lacks {-room} on spatial axis {axis} of {ctx.type(x)}; "
                f"less than two strides, {2 * stride}, may be missing"
            )
        counts.append((-(-room // stride) if room < 0 or ceil_mode else room // stride) + 1)
    return counts


def _pooled(
    ctx: Context, x: Expr, sliding: Sliding, ceil_mode: bool, dtypes: Sequence[str], pool: Callable[[bool], list[Expr]]
) -> list[Expr]:
    """Return the results, of data types, of a function of `ceil_mode` that pools, where a window may be too large."""
    counts = _counts(ctx, x, sliding, ceil_mode)
    if counts is None:
        return pool(ceil_mode)
    if 0 in counts:
        shape = [*ctx.shape(x)[:2], *counts]
        return [relay.full(ctx.constant(0, dtype), shape, dtype) for dtype in dtypes]
    # Rounding up is rounding towards zero for what is missing, and may give one window more along the other axes.
    axes = list(range(2, 2 + len(counts)))
    begin: list[Dim] = [0] * len(axes)
    end: list[Dim] = [*counts]
    return [relay.strided_slice(r, begin, end, [1] * len(axes), axes=axes) for r in pool(True)]


@converter("MaxPool")
def max_pool(ctx: Context, x: Expr, *, window: Window, ceil_mode: int = 0, storage_order: int = 0) -> list[Expr | None]:
    sliding, ceil = window.over(ctx, x, window.of_pool(ctx, x)), window.rounds_up(ceil_mode)
    if not ctx.wants(1):
        pool = partial(_pool, ctx, "max", x, sliding)
        return [*_pooled(ctx, x, sliding, ceil, [ctx.dtype(x)], lambda up: [pool(ceil_mode=up)]), None]
    pools = partial(_with_indices, ctx, x, sliding, bool(storage_order))
    return [*_pooled(ctx, x, sliding, ceil, [ctx.dtype(x), "int64"], pools)]


def _with_indices(ctx: Context, x: Expr, sliding: Sliding, column_major: bool, ceil_mode: bool) -> list[Expr]:
    """Return the maxima and where in the whole input they are."""
    if sliding.known_padding is None:
        around = typed(relay.nn.pad(x, sliding.pairs(), ctx.constant(_least(ctx.dtype(x)), ctx.dtype(x))))
        maxima, places = _with_indices(ctx, around, sliding.unpadded(), False, ceil_mode)
        return [maxima, _places_within(ctx, x, around, sliding, typed(places), column_major)]
    both = build(
        "nn.contrib_max_pool_with_indices",
        x,
        pool_size=sliding.kernel,
        strides=sliding.strides,
        dilation=sliding.dilations,
        padding=sliding.padding,
        layout=LAYOUTS[len(sliding.kernel)],
        ceil_mode=ceil_mode,
        column_major=column_major,
    )
    both = at_node(ctx, both)
    results: list[Expr] = [TupleGetItem(both, k) for k in range(2)]
    return [_without_idle_windows(ctx, x, r, sliding) if ceil_mode else r for r in results]


def _places_within(ctx: Context, x: Expr, around: Expr, sliding: Sliding, places: Expr, column_major: bool) -> Expr:
    """Return the places in a tensor of elements that are at `places` of it and its padding, counted row by row.

    A window of nothing larger than its padding has its maximum there first: that stands for what is nearest within.
    """
    rank, steps, pairs = ctx.rank(x), list[Expr](), sliding.pairs()
    for axis in reversed(range(rank)):
        size = size_along(ctx, around, axis)
        steps.insert(0, relay.floor_mod(places, size))
        places = relay.floor_divide(places, size)
    for axis in range(2, rank):
        if isinstance(pairs, Expr):
            before = relay.squeeze(relay.strided_slice(pairs, [axis, 0], [axis + 1, 1], [1, 1]), [0, 1])
        else:
            before = sizes(np.array(pairs[axis][0], dtype=object))
        last = relay.subtract(size_along(ctx, x, axis), ctx.constant(1, "int64"))
        first = relay.maximum(relay.subtract(steps[axis], before), ctx.constant(0, "int64"))
        steps[axis] = relay.minimum(first, last)
    spatial = list(range(2, rank))
    found = steps[0]
    for axis in [1, *(reversed(spatial) if column_major else spatial)]:
        found = relay.add(relay.multiply(found, size_along(ctx, x, axis)), steps[axis])
    return found


@converter("MaxUnpool", since=9, without=("auto_pad", "dilations"), named_sizes=True)
def max_unpool(ctx: Context, x: Expr, indices: Expr, output_shape: Expr | None = None, *, window: Window) -> Expr:
    """Write elements back to where a pool found them; a larger output_shape adds zeros behind."""
    kernel = window.of_pool(ctx, x)
    rank = len(kernel)
    steps, padding = window.steps(rank), window.margins(rank)
    shape = ctx.shape(x)
    for axis in range(rank):
        size = dims.add(dims.mul(dims.sub(shape[2 + axis], 1), steps[axis]), kernel[axis])
        shape[2 + axis] = dims.sub(size, padding[axis] + padding[rank + axis])
    zero = ctx.constant(0, ctx.dtype(x))
    empty = relay.full(zero, [dims.product(shape)], ctx.dtype(x))
    count = [dims.product(ctx.shape(x))]
    at = to_shape(typed(pinned(ctx, indices, ctx.shape(x))), count)
    written = scatter_elements(ctx, typed(empty), typed(at), to_shape(x, count))
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
def average_pool(ctx: Context, x: Expr, *, window: Window, ceil_mode: int = 0, count_include_pad: int = 0) -> Expr:
    sliding = window.over(ctx, x, window.of_pool(ctx, x))
    pool = partial(_pool, ctx, "avg", x, sliding, count_include_pad=bool(count_include_pad))
    return _pooled(ctx, x, sliding, window.rounds_up(ceil_mode), [ctx.dtype(x)], lambda up: [pool(ceil_mode=up)])[0]


@converter("LpPool")
def lp_pool(ctx: Context, x: Expr, *, window: Window, p: float = 2, ceil_mode: int = 0) -> Expr:
    """The root of the sum of powers: an average that counts the padding, times the size of the window."""
    powers = relay.power(relay.abs(x), ctx.constant(p, ctx.dtype(x)))
    sliding = window.over(ctx, x, window.of_pool(ctx, x))
    norm = partial(_lp_norm, ctx, x, powers, sliding, p)
    return _pooled(ctx, x, sliding, window.rounds_up(ceil_mode), [ctx.dtype(x)], lambda up: [norm(up)])[0]


def _lp_norm(ctx: Context, x: Expr, powers: Expr, sliding: Sliding, p: float, ceil_mode: bool) -> Expr:
    if not ceil_mode:
        return _rooted(ctx, _pool(ctx, "avg", powers, sliding, count_include_pad=True), sliding.kernel, p)
    # A last window that reaches past the end counts with all of its size: what it lacks is put behind the input.
    rank = len(sliding.kernel)
    before, after = sliding.padding[:rank], sliding.padding[rank:]
    behind = [dims.add(end, stride - 1) for end, stride in zip(after, sliding.strides, strict=True)]
    padded = relay.nn.pad(powers, replace(sliding, padding=[*before, *behind]).pairs(), ctx.constant(0, ctx.dtype(x)))
    mean = _pool(ctx, "avg", padded, sliding.unpadded(), count_include_pad=True)
    return _rooted(ctx, _without_idle_windows(ctx, x, mean, sliding), sliding.kernel, p)


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
