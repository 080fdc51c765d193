"""Axes that are read at run time, brought to places that are known.

The dimensions that the axes name are moved to the end by a permutation; what is computed along them needs no other
kernel than for axes that the model fixes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ... import relay
from ...relay.ir import Any as AnyDim
from ...relay.ir import Dim, Expr, dims
from ...relay.op import build
from .context import Context
from .known import sizes
from .typing import typed

__all__ = [
    "along_last", "as_vector", "counted", "marked", "of_partly_known", "over_last", "pinned", "positions_along",
    "shape_vector", "size_along",
]  # fmt: skip


def as_vector(ctx: Context, values: Expr) -> Expr:
    """Return the elements of a tensor of integers as a vector of int64."""
    vector = values if ctx.dtype(values) == "int64" else relay.cast(values, "int64")
    return vector if ctx.rank(values) == 1 else relay.reshape(vector, [-1] if ctx.rank(values) else [1])


def shape_vector(ctx: Context, x: Expr) -> Expr:
    """Return the shape of a tensor as a vector of int64, as a value over sizes where they have names."""
    shape = ctx.shape(x)
    if any(dims.is_any(d) for d in shape):
        return relay.shape_of(x, dtype="int64")
    return sizes(shape)


def size_along(ctx: Context, x: Expr, axis: int) -> Expr:
    """Return the size of an axis of a tensor as an int64 scalar, as a value over sizes where it has a name."""
    size = ctx.shape(x)[axis]
    if dims.is_any(size):
        return relay.take(relay.shape_of(x, dtype="int64"), ctx.constant(axis % ctx.rank(x), "int64"), axis=0)
    return sizes(np.array(size, dtype=object))


def positions_along(ctx: Context, x: Expr, axis: int, dtype: str = "int64") -> Expr:
    """Return the positions along an axis of a tensor: a vector from 0 on."""
    size = ctx.shape(x)[axis]
    if not dims.is_any(size):
        return ctx.positions(size, dtype)
    end = size_along(ctx, x, axis)
    end = end if dtype == "int64" else relay.cast(end, dtype)
    return relay.arange(ctx.constant(0, dtype), end, ctx.constant(1, dtype), dtype)


def pinned(ctx: Context, x: Expr, shape: Sequence[Dim]) -> Expr:
    """Return a tensor whose shape is known better than its type says; `shape` has ``Any`` where it is not."""
    wanted = [own if dims.is_any(d) else d for d, own in zip(shape, ctx.shape(x), strict=True)]
    if all(dims.equal(a, b) for a, b in zip(wanted, ctx.shape(x), strict=True)):
        return x
    return build("contrib.pin_shape", x, shape=list(shape))


def of_partly_known(ctx: Context, x: Expr, shape: Expr) -> Expr:
    """Return a tensor whose shape is the value of a vector, with the dimensions that are known of that."""
    known = ctx.partly_known(shape)
    # What -1 and 0 stand for depends on the operator, so these are left to it.
    return x if known is None else pinned(ctx, typed(x), [d if _is_size(d) else AnyDim() for d in known])


def _is_size(dim: Dim) -> bool:
    return dim > 0 if isinstance(dim, int) else not dims.is_any(dim)


def counted(ctx: Context, axes: Expr, rank: int) -> Expr:
    """Return a vector of axes counted from the front; the run fails when there is no such axis."""
    vector = as_vector(ctx, axes)
    least, most = ctx.constant(-rank, "int64"), ctx.constant(rank - 1, "int64")
    fits = relay.all(relay.logical_and(relay.greater_equal(vector, least), relay.less_equal(vector, most)))
    op_type = ctx.node.op_type
    checked = build("dyn.require", vector, fits, message=f"{op_type}: an axis of a tensor of {rank} dimensions is not "
                    f"between {-rank} and {rank - 1}")  # fmt: skip
    zero = ctx.constant(0, "int64")
    return relay.where(relay.less(checked, zero), relay.add(checked, ctx.constant(rank, "int64")), checked)


def marked(ctx: Context, axes: Expr, rank: int) -> Expr:
    """Return for each dimension whether axes, counted from the front, name it."""
    every = ctx.constant([[i] for i in range(rank)], "int64")
    return relay.any(relay.equal(every, relay.expand_dims(axes, 0)), axis=[1])


def _last(ctx: Context, chosen: Expr) -> Expr:
    """Return the permutation that moves the dimensions which are marked to the end and keeps the order otherwise."""
    return relay.argsort(relay.cast(chosen, "int32"), dtype="int64")


def over_last(
    ctx: Context, x: Expr, axes: Expr, keepdims: bool, noop_with_empty_axes: bool, function: Callable[[Expr], Expr]
) -> Expr:
    """Return a reduction over axes that are read at run time.

    Parameters
    ----------
    x, axes : Expr
        The tensor, and a vector of integers; an empty one means all axes, or none with `noop_with_empty_axes`.
    keepdims : bool
        Whether the reduced dimensions stay as 1; otherwise the length of `axes` has to be known.
    function : callable
        Reduces the rows of a matrix, to a vector.
    """
    rank, (count,) = ctx.rank(x), ctx.shape(axes)
    chosen = marked(ctx, counted(ctx, axes, rank), rank)
    if count == 0 and not noop_with_empty_axes:
        chosen = ctx.constant([True] * rank, "bool")
    elif not isinstance(count, int) and not noop_with_empty_axes:
        is_empty = relay.equal(relay.ndarray_size(axes, "int64"), ctx.constant(0, "int64"))
        chosen = relay.logical_or(chosen, is_empty)
    shape, one = shape_vector(ctx, x), ctx.constant(1, "int64")
    kept, order = relay.where(chosen, one, shape), _last(ctx, chosen)
    matrix = relay.stack([relay.prod(kept), relay.prod(relay.where(chosen, shape, one))], 0)
    rows = function(relay.reshape(build("dyn.transpose", x, order), matrix, allowzero=True))
    if keepdims:
        return relay.reshape(rows, kept, allowzero=True)
    reduced = rank if count == 0 and not noop_with_empty_axes else int(count)
    first = relay.strided_slice(order, [0], [rank - reduced], [1])
    return relay.reshape(rows, relay.take(shape, first, axis=0), allowzero=True)


def along_last(ctx: Context, x: Expr, axis: Expr, function: Callable[[Expr], Expr]) -> Expr:
    """Return what a function that keeps the shape gives along an axis read at run time.

    The function works along the last axis of a tensor.
    """
    rank = ctx.rank(x)
    order = _last(ctx, marked(ctx, counted(ctx, axis, rank), rank))
    moved = function(build("dyn.transpose", x, order))
    back = build("dyn.transpose", moved, relay.argsort(order, dtype="int64"))
    return pinned(ctx, typed(back), ctx.shape(x))
