"""Padding by a value, by the border, by reflection, and around."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .... import relay
from ....relay.ir import Dim, Expr
from ..context import Context
from ..registry import converter
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
    if axes is not None:
        chosen = [ctx.axis(a, rank) for a in ctx.ints(axes, "axes")]
        if widths is None:
            ctx.fail("pads of chosen axes must be known at import")
        spread: list[Dim] = [0] * (2 * rank)
        for position, axis in enumerate(chosen):
            spread[axis], spread[rank + axis] = widths[position], widths[len(chosen) + position]
        widths = spread
    if widths is not None:
        return _padded(ctx, x, widths, value, mode)
    if mode == "wrap":
        ctx.fail("wrap padding by widths that are not known at import")
    pairs = relay.transpose(relay.reshape(pads, [2, rank]), [1, 0])
    return relay.nn.pad(x, pairs, value, mode)


def _padded(ctx: Context, x: Expr, widths: Sequence[Dim], value: Expr, mode: str) -> Expr:
    rank = ctx.rank(x)
    if len(widths) != 2 * rank:
        ctx.fail(f"{len(widths)} pads are given for {rank} dimensions; two for each are needed")
    before, after = list(widths[:rank]), list(widths[rank:])
    pairs = list(zip(before, after, strict=True))
    if all(isinstance(w, int) and w == 0 for p in pairs for w in p):
        return x
    if mode == "wrap":
        return _wrapped(ctx, x, pairs)
    return relay.nn.pad(x, [list(p) for p in pairs], value, mode)


def _wrapped(ctx: Context, x: Expr, pairs: Sequence[tuple[Dim, Dim]]) -> Expr:
    """Return a tensor continued by its own elements from the other side."""
    for axis, (before, after) in enumerate(pairs):
        if isinstance(before, int) and isinstance(after, int) and before == after == 0:
            continue
        extent = ctx.shape(x)[axis]
        if not all(isinstance(d, int) for d in (before, after, extent)):
            ctx.fail("wrap padding of sizes that are not known at import")
        indices = np.arange(-before, extent + after) % extent
        x = relay.take(x, ctx.constant(indices, "int64"), axis=axis)
    return x
