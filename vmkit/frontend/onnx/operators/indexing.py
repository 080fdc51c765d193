"""Reading and writing elements by index: gather, scatter, pick."""

from __future__ import annotations

import numpy as np
from tvm import tirx

from .... import relay
from ....relay.ir import Any as AnyDim
from ....relay.ir import Dim, Expr, TupleGetItem, dims
from ....relay.op import build
from ..context import Context
from ..known import sizes
from ..outcome import Outcome
from ..ranks import by_length
from ..registry import converter
from ..run_time_axes import as_vector, pinned, shape_vector, size_along
from ..typing import typed

_DEPTH = "the length of an index"


def _from_front(ctx: Context, indices: Expr, source: Expr, axis: int) -> Expr:
    """Return indices of which negative ones, which count from the end, are counted from the front.

    The run fails on an index that lies outside of the axis, and the import if it is known.
    """
    dtype, extent, value = ctx.dtype(indices), ctx.shape(source)[axis], ctx.static(indices)
    if _is_inside(ctx, indices, source, axis):
        return indices
    checked = _looked_at(ctx, indices, source, axis)
    if value is not None and (value >= 0).all():
        return checked
    if value is not None and isinstance(extent, int):
        return ctx.constant(np.where(value < 0, value + extent, value), dtype)
    below = relay.less(checked, ctx.constant(0, dtype))
    return relay.where(below, relay.add(checked, _extent(ctx, source, axis, dtype)), checked)


def _is_inside(ctx: Context, indices: Expr, source: Expr, axis: int) -> bool:
    """Say whether indices are certainly from 0 to the size of an axis less 1: see :mod:`..index_ends`."""
    extent = ctx.shape(source)[axis]
    return any(dims.at_least(extent, end) for end in ctx.index_ends(indices))


def _on_axis(ctx: Context, indices: Expr, source: Expr, axis: int) -> Expr:
    """Return indices that lie on an axis, counted from its front or its end; fails as :func:`_from_front` does."""
    return indices if _is_inside(ctx, indices, source, axis) else _looked_at(ctx, indices, source, axis)


def _looked_at(ctx: Context, indices: Expr, source: Expr, axis: int) -> Expr:
    extent, value = ctx.shape(source)[axis], ctx.static(indices)
    if value is None or not isinstance(extent, int):
        message = f"{ctx.node.op_type}: an index lies outside of axis {axis}"
        return _within(ctx, indices, _extent(ctx, source, axis, ctx.dtype(indices)), message)
    if value.size and not -extent <= int(value.min()) <= int(value.max()) < extent:
        wrong = value[(value < -extent) | (value >= extent)].ravel()[0]
        ctx.fail(f"the index {wrong} lies outside of axis {axis}, which has {extent} elements")
    return indices


def _extent(ctx: Context, source: Expr, axis: int, dtype: str) -> Expr:
    """Return the size of an axis as a number of the program."""
    size = relay.take(shape_vector(ctx, source), ctx.constant(axis, "int64"), axis=0)
    return size if dtype == "int64" else relay.cast(size, dtype)


def _within(ctx: Context, indices: Expr, extents: Expr, message: str) -> Expr:
    """Return indices after it has been checked that each lies from -extent to extent - 1."""
    reaches = relay.greater_equal(indices, relay.negative(extents))
    fits = relay.all(relay.logical_and(reaches, relay.less(indices, extents)))
    return build("dyn.require", indices, fits, message=message)


@converter("Gather")
def gather(ctx: Context, x: Expr, indices: Expr, *, axis: int = 0) -> Expr:
    at = ctx.axis(axis, ctx.rank(x))
    mode = "fast" if _is_inside(ctx, indices, x, at) else "clip"
    return relay.take(x, _from_front(ctx, indices, x, at), axis=at, mode=mode)


@converter("GatherElements", since=11)
def gather_elements(ctx: Context, x: Expr, indices: Expr, *, axis: int = 0) -> Expr:
    at = ctx.axis(axis, ctx.rank(x))
    return relay.gather(x, at, _on_axis(ctx, indices, x, at))  # which counts negative indices from the end itself


@converter("GatherND", since=11)
def gather_nd(ctx: Context, x: Expr, indices: Expr, *, batch_dims: int = 0) -> Expr | Outcome:
    depths = range(1, ctx.rank(x) - batch_dims + 1)
    return by_length(
        ctx, indices, depths, _DEPTH, lambda i: relay.gather_nd(x, _columns(ctx, x, i, batch_dims), batch_dims)
    )


def _columns(ctx: Context, x: Expr, indices: Expr, batch_dims: int = 0) -> Expr:
    """Return index tuples as Relay has them: along the first axis instead of the last, counted from the front."""
    rank = ctx.rank(indices)
    length = int(ctx.shape(indices)[-1])
    shape = ctx.shape(x)[batch_dims : batch_dims + length]
    extents = (
        relay.strided_slice(relay.shape_of(x, dtype="int64"), [batch_dims], [batch_dims + length], [1])
        if any(dims.is_any(d) for d in shape)
        else sizes(np.array(shape, dtype=object))
    )
    known = ctx.static(indices)
    indices = relay.cast(indices, "int64") if ctx.dtype(indices) != "int64" else indices
    if known is not None and all(isinstance(d, int) for d in shape):
        if ((known < -np.array(shape)) | (known >= np.array(shape))).any():
            ctx.fail(f"an index lies outside of {ctx.type(x)}")
    else:
        indices = _within(ctx, indices, extents, f"{ctx.node.op_type}: an index lies outside of the tensor")
    counted = relay.where(relay.less(indices, ctx.constant(0, "int64")), relay.add(indices, extents), indices)
    return relay.transpose(counted, [rank - 1, *range(rank - 1)])


@converter("ScatterElements", since=11)
def scatter_elements(
    ctx: Context, x: Expr, indices: Expr, updates: Expr, *, axis: int = 0, reduction: str = "none"
) -> Expr:
    at = ctx.axis(axis, ctx.rank(x))
    found = _on_axis(ctx, indices, x, at)  # as in `gather_elements`
    return relay.scatter_elements(x, found, updates, at, _REDUCTIONS[reduction])


@converter("Scatter", since=9)
def scatter(ctx: Context, x: Expr, indices: Expr, updates: Expr, *, axis: int = 0) -> Expr:
    return scatter_elements(ctx, x, indices, updates, axis=axis)


@converter("ScatterND", since=11)
def scatter_nd(ctx: Context, x: Expr, indices: Expr, updates: Expr, *, reduction: str = "none") -> Expr | Outcome:
    # The updates have the dimensions of the indices but the last, and those of the tensor that no index names.
    known = ctx.rank(x) + ctx.rank(indices) - 1 - ctx.rank(updates)
    depths = [known] if 1 <= known <= ctx.rank(x) else []

    def scattered(given: Expr) -> Expr:
        return relay.scatter_nd(x, _columns(ctx, x, given), updates, _REDUCTIONS[reduction])

    return by_length(ctx, indices, depths, _DEPTH, scattered)


_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


@converter("OneHot", since=9)
def one_hot(ctx: Context, indices: Expr, depth: Expr, values: Expr, *, axis: int = -1) -> Expr:
    """Computed by comparison: the classes along an axis of their own against the indices."""
    rank = ctx.rank(indices) + 1
    at = ctx.axis(axis, rank)
    known = ctx.dims(depth)
    count = known[0] if known is not None else None
    if isinstance(count, float):
        count = int(count)
    if count is not None and not (isinstance(count, int) and count < 0):
        classes = ctx.positions(count, "int64")
        size = sizes(np.array(count, dtype=object))
    else:
        size = relay.cast(relay.reshape(depth, []), "int64")
        classes = relay.arange(ctx.constant(0, "int64"), size, ctx.constant(1, "int64"), "int64")
    shape = [1] * rank
    shape[at] = -1
    found = relay.expand_dims(relay.cast(indices, "int64"), at)
    found = relay.where(relay.less(found, ctx.constant(0, "int64")), relay.add(found, size), found)
    off, on = (relay.take(values, ctx.constant(i, "int64"), axis=0) for i in (0, 1))
    return relay.where(relay.equal(found, relay.reshape(classes, shape)), on, off)


@converter("NonZero", since=9)
def non_zero(ctx: Context, x: Expr) -> Expr:
    if ctx.rank(x) == 0:
        x = relay.expand_dims(x, 0)
    return relay.cast(relay.transpose(relay.argwhere(x), [1, 0]), "int64")


@converter("Compress", since=9)
def compress(ctx: Context, x: Expr, condition: Expr, *, axis: int | None = None) -> Expr:
    """Elements of the condition for which there is none of the tensor choose nothing, as in onnxruntime."""
    x = x if axis is not None else typed(relay.reshape(x, [-1]))
    at = ctx.axis(axis or 0, ctx.rank(x))
    if not dims.at_least(ctx.shape(x)[at], ctx.shape(condition)[0]):
        there = relay.reshape(size_along(ctx, x, at), [1])
        condition = relay.strided_slice(condition, ctx.constant([0], "int64"), there, ctx.constant([1], "int64"))
    chosen = relay.reshape(relay.argwhere(condition), [-1])
    return relay.take(x, chosen, axis=at)


@converter("TopK")
def top_k_of_attribute(ctx: Context, x: Expr, *, k: int, axis: int = -1) -> list[Expr]:
    return _top_k(ctx, x, k, ctx.axis(axis, ctx.rank(x)), True)


@converter("TopK", since=10)
def top_k(ctx: Context, x: Expr, k: Expr, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> list[Expr]:
    known, at = ctx.dims(k), ctx.axis(axis, ctx.rank(x))
    if known is not None:
        return _top_k(ctx, x, known[0], at, bool(largest))
    count, zero = as_vector(ctx, k), ctx.constant(0, "int64")
    extent = relay.take(shape_vector(ctx, x), ctx.constant(at, "int64"), axis=0)
    fits = relay.all(relay.logical_and(relay.greater_equal(count, zero), relay.less_equal(count, extent)))
    message = f"TopK: k is negative, or axis {axis} has fewer elements"
    ends = ctx.constant([np.iinfo("int64").max] * at, "int64")
    end = relay.concatenate([ends, build("dyn.require", count, fits, message=message)], 0)
    first = ctx.constant([0] * (at + 1), "int64")
    found = relay.strided_slice(_order(ctx, x, at, bool(largest)), first, end, ctx.constant([1] * (at + 1), "int64"))
    found = pinned(ctx, typed(found), [AnyDim() if i == at else d for i, d in enumerate(ctx.shape(x))])
    return [relay.gather(x, at, found), found]


def _order(ctx: Context, x: Expr, axis: int, largest: bool) -> Expr:
    return relay.argsort(x, axis=axis, is_ascend=not largest, dtype="int64")


def _top_k(ctx: Context, x: Expr, k: Dim, axis: int, largest: bool) -> list[Expr]:
    extent = ctx.shape(x)[axis]
    if dims.at_least(k, 0) is False or dims.at_least(extent, k) is False:
        ctx.fail(f"k is {k}, axis {axis} has {extent} elements")
    if not isinstance(k, int) or k < 1:
        fits = dims.select(tirx.all(dims.as_expr(k) >= 0, dims.as_expr(extent) >= dims.as_expr(k)), 1, 0)
        if not dims.equal(fits, 1):
            message = f"TopK: k is negative, or axis {axis} has fewer elements"
            x = build("require", x, condition=fits, message=message)
        found = relay.strided_slice(_order(ctx, x, axis, largest), [0], [k], [1], axes=[axis])
        return [relay.gather(x, axis, found), found]
    pair = relay.topk(x, k, axis, "both", not largest, "int64").astuple()
    return [TupleGetItem(pair, 0), TupleGetItem(pair, 1)]


@converter("ReverseSequence", since=10)
def reverse_sequence(ctx: Context, x: Expr, lengths: Expr, *, batch_axis: int = 1, time_axis: int = 0) -> Expr:
    return relay.reverse_sequence(x, lengths, time_axis, batch_axis)
