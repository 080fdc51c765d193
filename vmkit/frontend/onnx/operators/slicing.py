"""Parts of tensors between positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .... import relay
from ....relay.ir import Any as AnyDim
from ....relay.ir import Dim, Expr, dims
from ..context import Context
from ..registry import converter
from ..run_time_axes import as_vector, counted, pinned, shape_vector
from ..typing import typed

_END = 10**9  # a position from here on means the end: exporters write 10**9, the largest int32 and the largest int64
_FAR = np.iinfo(np.int32).max


@converter("Slice")
def slice_by_attributes(
    ctx: Context, x: Expr, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None
) -> Expr:
    return _sliced(ctx, x, list(starts), list(ends), axes, None)


@converter("Slice", since=10)
def slice_by_inputs(
    ctx: Context, x: Expr, starts: Expr, ends: Expr, axes: Expr | None = None, steps: Expr | None = None
) -> Expr:
    first, last = ctx.dims(starts), ctx.dims(ends)
    chosen = None if axes is None else ctx.static(axes)
    strides = None if steps is None else ctx.static(steps)
    is_fixed = (axes is None or chosen is not None) and (steps is None or strides is not None)
    if first is None or last is None or not is_fixed:
        return _sliced_at_run_time(ctx, x, starts, ends, axes, steps)
    return _sliced(
        ctx, x, first, last, *(None if v is None else [int(i) for i in v.ravel()] for v in (chosen, strides))
    )


def _sliced(
    ctx: Context,
    x: Expr,
    starts: list[Dim],
    ends: list[Dim],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> Expr:
    rank = ctx.rank(x)
    chosen = [ctx.axis(a, rank) for a in (axes if axes is not None else range(len(starts)))]
    strides = list(steps) if steps is not None else [1] * len(chosen)
    if not len(starts) == len(ends) == len(chosen) == len(strides):
        ctx.fail(f"{len(starts)} starts, {len(ends)} ends, {len(chosen)} axes and {len(strides)} steps are given")
    if 0 in strides:
        ctx.fail("a step is 0")
    begin, end, kept, by = [], [], [], []
    for axis, start, stop, step in zip(chosen, starts, ends, strides, strict=True):
        if step == 1 and isinstance(start, int) and start == 0 and _reaches_end(stop, ctx.shape(x)[axis]):
            continue
        begin.append(_position(start))
        end.append(_position(stop))
        kept.append(axis)
        by.append(step)
    if not kept:
        return x
    return relay.strided_slice(x, begin, end, by, axes=kept)


def _position(value: Dim) -> Dim:
    if not isinstance(value, int):
        return value
    return _FAR if value >= _END else max(value, -_FAR)


def _reaches_end(stop: Dim, extent: Dim) -> bool:
    if isinstance(stop, int):
        return stop >= (extent if isinstance(extent, int) else _END)
    return bool(dims.equal(stop, extent))


def _sliced_at_run_time(ctx: Context, x: Expr, starts: Expr, ends: Expr, axes: Expr | None, steps: Expr | None) -> Expr:
    """Return a slice whose limits are read at run time: vectors for all axes are put together first."""
    rank, (count,) = ctx.rank(x), ctx.shape(starts)
    known = ctx.static(axes)
    if axes is None and isinstance(count, int):
        known = np.arange(count)
    chosen = None if known is None else [ctx.axis(int(a), rank) for a in known.ravel()]
    if chosen is not None:
        places = ctx.constant(chosen, "int64")
    elif axes is None:
        size = relay.reshape(shape_vector(ctx, starts), [])
        places = relay.arange(ctx.constant(0, "int64"), size, ctx.constant(1, "int64"), "int64")
    else:
        places = counted(ctx, axes, rank)
    if chosen == []:
        return x
    # The dimensions behind the last one that is sliced stay as they are.
    touched = rank if chosen is None else max(chosen) + 1

    def on_all(default: Expr, values: Expr | None) -> Expr:
        if values is None:
            return default
        given = as_vector(ctx, values)
        is_whole = chosen == list(range(touched))  # which loops of a program ask for, over and over
        return given if is_whole else relay.scatter_elements(default, places, given, 0, "update")

    begin, end, by = (
        on_all(default, values)
        for values, default in (
            (starts, ctx.constant([0] * touched, "int64")),
            (ends, ctx.constant([np.iinfo("int64").max] * touched, "int64")),
            (steps, ctx.constant([1] * touched, "int64")),
        )
    )
    shape = [AnyDim() if chosen is None or i in chosen else d for i, d in enumerate(ctx.shape(x))]
    return pinned(ctx, typed(relay.strided_slice(x, begin, end, by)), shape)
