"""Tensors put together, taken apart, and repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import relay
from ....relay.ir import Dim, Expr, dims
from ..context import Context
from ..registry import converter


@converter("Concat")
def concat_with_default(ctx: Context, *inputs: Expr, axis: int = 1) -> Expr:
    return concat(ctx, *inputs, axis=axis)


@converter("Concat", since=4)
def concat(ctx: Context, *inputs: Expr, axis: int) -> Expr:
    # An empty vector among the inputs, as exporters write, adds nothing.
    parts = [i for i in inputs if not (ctx.rank(i) == 1 and ctx.shape(i) == [0])] or list(inputs[:1])
    if len(parts) == 1:
        return parts[0]
    return relay.concatenate(parts, ctx.axis(axis, ctx.rank(parts[0])))


@converter("Split")
def split_by_attribute(
    ctx: Context, x: Expr, split: Expr | None = None, *, axis: int = 0, **attributes: Any
) -> list[Expr]:
    return _split(ctx, x, axis, None if split is None else ctx.ints(split, "split"))


@converter("Split", since=2)
def split_of_sizes(ctx: Context, x: Expr, *, axis: int = 0, split: Sequence[int] | None = None) -> list[Expr]:
    return _split(ctx, x, axis, split)


@converter("Split", since=13)
def split_of_input(
    ctx: Context, x: Expr, split: Expr | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> list[Expr]:
    return _split(ctx, x, axis, ctx.dims(split) if split is not None else None)


def _split(ctx: Context, x: Expr, axis: int, parts: Sequence[Dim] | None) -> list[Expr]:
    at, count = ctx.axis(axis, ctx.rank(x)), len(ctx.node.output)
    extent = ctx.shape(x)[at]
    if parts is None:
        size = dims.ceildiv(extent, count)
        if not isinstance(extent, int) or extent % count == 0:
            return list(relay.split(x, count, axis=at))
        parts = [size] * (count - 1)
    points: list[Dim] = []
    total: Dim = 0
    for part in list(parts)[: count - 1]:
        total = dims.add(total, part)
        points.append(total)
    if not points:
        return [x]
    if not all(isinstance(p, int) for p in points):
        ctx.fail("the sizes of the parts depend on sizes of the inputs")
    return list(relay.split(x, tuple(points), axis=at))


@converter("Tile", since=6)
def tile(ctx: Context, x: Expr, repeats: Expr) -> Expr:
    counts = ctx.dims(repeats)
    if counts is None:
        return relay.tile(x, repeats)
    if not counts or all(isinstance(c, int) and c == 1 for c in counts):
        return x
    return relay.tile(x, counts if all(isinstance(c, int) for c in counts) else repeats)
