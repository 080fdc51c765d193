"""Tensors put together, taken apart, and repeated."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from .... import relay
from ....relay.ir import Any as AnyDim
from ....relay.ir import Dim, Expr, dims
from ....relay.op import build
from ..context import Context
from ..known import sizes
from ..registry import converter
from ..run_time_axes import as_vector, counted, pinned, shape_vector
from ..typing import typed
from .layout import to_shape


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
def split_of_first_version(
    ctx: Context, x: Expr, parts: Expr | None = None, *, axis: int = 0, split: Sequence[int] | None = None
) -> list[Expr]:
    if parts is None:
        return _split(ctx, x, axis, split)
    return split_of_input(ctx, x, parts, axis=axis)


@converter("Split", since=2)
def split_of_sizes(ctx: Context, x: Expr, *, axis: int = 0, split: Sequence[int] | None = None) -> list[Expr]:
    return _split(ctx, x, axis, split)


@converter("Split", since=13)
def split_of_input(
    ctx: Context, x: Expr, split: Expr | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> list[Expr]:
    count = len(ctx.node.output)
    if num_outputs is not None and num_outputs != count:
        ctx.fail(f"num_outputs is {num_outputs}, the node has {count} outputs")
    parts = ctx.dims(split)
    if split is not None and parts is None:
        return _split_at_run_time(ctx, x, ctx.axis(axis, ctx.rank(x)), split)
    return _split(ctx, x, axis, parts)


def _split(ctx: Context, x: Expr, axis: int, parts: Sequence[Dim] | None) -> list[Expr]:
    at, count = ctx.axis(axis, ctx.rank(x)), len(ctx.node.output)
    extent = ctx.shape(x)[at]
    if parts is None:
        if dims.is_any(extent):
            return list(relay.split(x, count, axis=at))
        points = _equal_parts(extent, count)
    else:
        points = _ends(ctx, parts)
    if not dims.is_any(extent) and dims.equal(points[-1], extent) is False:
        ctx.fail(f"the parts have {points[-1]} elements together, axis {at} has {extent}")
    if count == 1:
        return [x]
    if all(isinstance(p, int) for p in (*points, extent)):
        return list(relay.split(x, tuple(points[1:-1]), axis=at))
    if dims.is_any(extent) or not dims.equal(points[-1], extent):
        x = pinned(ctx, x, [points[-1] if k == at else d for k, d in enumerate(ctx.shape(x))])
    return [relay.strided_slice(x, [b], [e], [1], axes=[at]) for b, e in pairwise(points)]


def _ends(ctx: Context, parts: Sequence[Dim]) -> list[Dim]:
    """Return where parts of given sizes end, after where the first begins."""
    count = len(ctx.node.output)
    if len(parts) != count:
        ctx.fail(f"{len(parts)} sizes are given for {count} parts")
    if (wrong := next((p for p in parts if isinstance(p, int) and p < 0), None)) is not None:
        ctx.fail(f"the size of a part is {wrong}")
    sizes: list[Dim] = [0, *parts]
    return list(accumulate(sizes, dims.add))


def _equal_parts(extent: Dim, count: int) -> list[Dim]:
    """Return where parts end that are equal but for the last ones, which may be smaller.

    Each end is a formula of its own: one made of the end before it would grow with the number of parts.
    """
    size = dims.ceildiv(extent, count)
    ends = (dims.mul(size, k) for k in range(1, count))
    return [0, *(end if dims.at_least(extent, end) else dims.smaller(end, extent) for end in ends), extent]


def _split_at_run_time(ctx: Context, x: Expr, axis: int, split: Expr) -> list[Expr]:
    """Return parts whose sizes are read at run time."""
    count = len(ctx.node.output)
    parts = pinned(ctx, as_vector(ctx, split), [count])
    zero = ctx.constant(0, "int64")
    extent = relay.take(shape_vector(ctx, x), ctx.constant(axis, "int64"), axis=0)
    fits = relay.logical_and(relay.equal(relay.sum(parts), extent), relay.all(relay.greater_equal(parts, zero)))
    message = f"Split: the sizes of the parts are negative, or their sum is not the size of axis {axis}"
    ends = relay.cumsum(build("dyn.require", parts, fits, message=message), axis=0)
    starts = relay.subtract(ends, parts)
    rest = [AnyDim() if k == axis else d for k, d in enumerate(ctx.shape(x))]
    results = []
    for part in range(count):
        begin, end = (
            relay.concatenate([ctx.constant([edge] * axis, "int64"), relay.strided_slice(at, [part], [part + 1])], 0)
            for at, edge in ((starts, 0), (ends, np.iinfo("int64").max))
        )
        piece = relay.strided_slice(x, begin, end, ctx.constant([1] * (axis + 1), "int64"))
        results.append(pinned(ctx, typed(piece), rest))
    return results


@converter("Tile")
def tile_along_one_axis(ctx: Context, x: Expr, tiles: Expr, axis: Expr) -> Expr:
    """Before opset 6 one axis is repeated, both it and how often being inputs."""
    rank = ctx.rank(x)
    place = counted(ctx, axis, rank)
    ones = ctx.constant([1] * rank, "int64")
    known, times = ctx.scalar(axis), ctx.dims(tiles)
    if known is not None and times is not None:
        at = ctx.axis(int(known), rank)
        return _tiled(ctx, x, [times[0] if k == at else 1 for k in range(rank)])
    return relay.tile(x, relay.scatter_elements(ones, place, as_vector(ctx, tiles), 0, "update"))


@converter("Tile", since=6)
def tile(ctx: Context, x: Expr, repeats: Expr) -> Expr:
    counts = ctx.dims(repeats)
    if counts is None:
        shape = [0 if isinstance(d, int) and d == 0 else AnyDim() for d in ctx.shape(x)]
        return pinned(ctx, typed(relay.tile(x, pinned(ctx, repeats, [ctx.rank(x)]))), shape)
    return _tiled(ctx, x, counts)


def _tiled(ctx: Context, x: Expr, counts: Sequence[Dim]) -> Expr:
    shape = ctx.shape(x)
    if len(counts) != len(shape):
        ctx.fail(f"{len(counts)} repeats are given for {len(shape)} dimensions")
    if all(isinstance(c, int) and c == 1 for c in counts):
        return x
    if all(isinstance(c, int) for c in counts):
        return relay.tile(x, counts)
    if any(dims.is_any(d) for d in shape):
        return relay.tile(x, sizes(list(counts)))
    # Repeated as a dimension of its own, so that the sizes keep their names.
    apart = [part for d in shape for part in (1, d)]
    whole = [part for c, d in zip(counts, shape, strict=True) for part in (c, d)]
    joined = [dims.mul(c, d) for c, d in zip(counts, shape, strict=True)]
    return to_shape(relay.broadcast_to(to_shape(x, apart), whole), joined)
