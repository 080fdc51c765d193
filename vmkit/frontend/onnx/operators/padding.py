"""Padding by a value, by the border, by reflection, and around."""

from __future__ import annotations

from collections.abc import Sequence

from .... import relay
from ....relay.ir import Any as AnyDim
from ....relay.ir import Dim, Expr, dims
from ..context import Context
from ..registry import converter
from ..run_time_axes import as_vector, counted, pinned, shape_vector
from ..typing import typed
from .layout import to_shape


@converter("Pad")
def pad_by_attributes(
    ctx: Context,
    x: Expr,
    *,
    pads: Sequence[int] = (),
    paddings: Sequence[int] = (),
    mode: str = "constant",
    value: float = 0.0,
) -> Expr:
    return _padded(ctx, x, list(pads or paddings), ctx.constant(value, ctx.dtype(x)), mode)


@converter("Pad", since=11)
def pad(
    ctx: Context,
    x: Expr,
    pads: Expr,
    value: Expr | None = None,
    axes: Expr | None = None,
    *,
    mode: str = "constant",
) -> Expr:
    rank, widths = ctx.rank(x), ctx.dims(pads)
    if value is None:
        value = ctx.constant(0, ctx.dtype(x))
    elif ctx.rank(value) != 0:
        value = to_shape(value, [])
    chosen = None if axes is None else ctx.dims(axes)
    if widths is None or (axes is not None and chosen is None):
        return _padded_at_run_time(ctx, x, pads, value, axes, mode)
    if chosen is not None:
        spread: list[Dim] = [0] * (2 * rank)
        if len(widths) != 2 * len(chosen):
            ctx.fail(f"{len(widths)} pads are given for {len(chosen)} axes; two for each are needed")
        for position, axis in enumerate(ctx.axis(int(a), rank) for a in chosen):
            spread[axis], spread[rank + axis] = widths[position], widths[len(chosen) + position]
        widths = spread
    return _padded(ctx, x, widths, value, mode)


def _padded_at_run_time(ctx: Context, x: Expr, pads: Expr, value: Expr, axes: Expr | None, mode: str) -> Expr:
    """Return a tensor padded by widths, or along axes, that are read at run time."""
    rank = ctx.rank(x)
    widths = as_vector(ctx, pads)
    untouched: list[Dim] = [AnyDim()] * rank
    if axes is not None:
        known = ctx.static(axes)
        if known is not None:
            untouched = [AnyDim() if i in known % rank else d for i, d in enumerate(ctx.shape(x))]
        places = counted(ctx, axes, rank)
        ends = relay.add(places, ctx.constant(rank, "int64"))
        nothing = ctx.constant([0] * (2 * rank), "int64")
        widths = relay.scatter_elements(nothing, relay.concatenate([places, ends], 0), widths, 0, "update")
    pairs = relay.transpose(relay.reshape(widths, [2, rank]), [1, 0])
    return pinned(ctx, relay.nn.pad(x, pairs, value, mode), untouched)


def _padded(ctx: Context, x: Expr, widths: Sequence[Dim], value: Expr, mode: str) -> Expr:
    rank = ctx.rank(x)
    if len(widths) != 2 * rank:
        ctx.fail(f"{len(widths)} pads are given for {rank} dimensions; two for each are needed")
    before, after = list(widths[:rank]), list(widths[rank:])
    pairs = list(zip(before, after, strict=True))
    if all(isinstance(w, int) and w == 0 for p in pairs for w in p):
        return x
    return relay.nn.pad(x, [list(p) for p in pairs], value, mode)


@converter("CenterCropPad", since=18)
def center_crop_pad(ctx: Context, x: Expr, shape: Expr, *, axes: Sequence[int] | None = None) -> Expr:
    """An odd element more is cut off, or put, behind."""
    rank = ctx.rank(x)
    chosen = [ctx.axis(a, rank) for a in axes] if axes is not None else list(range(rank))
    wanted, have = ctx.dims(shape), [ctx.shape(x)[a] for a in chosen]
    zero = ctx.constant(0, ctx.dtype(x))
    if wanted is None or any(dims.is_any(d) for d in have):
        return _centred_at_run_time(ctx, x, shape, chosen, zero)
    begin, end = [], []
    widths: list[Dim] = [0] * (2 * rank)
    for axis, old, new in zip(chosen, have, wanted, strict=True):
        kept = dims.smaller(old, new)
        cut, added = dims.floordiv(dims.sub(old, kept), 2), dims.sub(new, kept)
        begin.append(cut)
        end.append(dims.add(cut, kept))
        widths[axis] = dims.floordiv(added, 2)
        widths[rank + axis] = dims.sub(added, widths[axis])
    if any(not (isinstance(b, int) and b == 0 and dims.equal(e, d)) for b, e, d in zip(begin, end, have, strict=True)):
        x = relay.strided_slice(x, begin, end, [1] * len(begin), axes=chosen)
    return _padded(ctx, x, widths, zero, "constant")


def _centred_at_run_time(ctx: Context, x: Expr, shape: Expr, axes: list[int], zero: Expr) -> Expr:
    rank, two, nothing = ctx.rank(x), ctx.constant(2, "int64"), ctx.constant([0] * ctx.rank(x), "int64")
    old = shape_vector(ctx, x)
    new = relay.scatter_elements(old, ctx.constant(axes, "int64"), as_vector(ctx, shape), 0, "update")
    kept = relay.minimum(old, new)
    begin = relay.floor_divide(relay.subtract(old, kept), two)
    cropped = relay.strided_slice(x, begin, relay.add(begin, kept), ctx.constant([1] * rank, "int64"))
    added = relay.maximum(relay.subtract(new, kept), nothing)
    before = relay.floor_divide(added, two)
    pairs = relay.stack([before, relay.subtract(added, before)], 1)
    rest = [AnyDim() if k in axes else d for k, d in enumerate(ctx.shape(x))]
    return pinned(ctx, typed(relay.nn.pad(cropped, pairs, zero)), rest)
