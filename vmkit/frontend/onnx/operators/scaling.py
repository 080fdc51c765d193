"""Axes with new sizes: given as sizes or as scales, known now, over symbols, or at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from fractions import Fraction

import numpy as np

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Any as AnyDim
from ....relay.ir import Dim, Expr, dims
from ..context import Context
from ..known import sizes
from ..run_time_axes import as_vector, shape_vector

__all__ = ["Axis", "by_scales", "by_sizes"]

_EXACT = 1 << 10  # scales that are a whole number of this part are exact over symbolic sizes


@dataclass
class Axis:
    """An axis to be resized.

    Attributes
    ----------
    axis : int
        Which one.
    extent : dimension
        Its size.
    size : dimension
        Its new size; Any if that is read at run time.
    new_size : Expr
        The new size as a scalar of int64.
    scale, length : Expr or float
        The factor, and the factor times the size before it is rounded.
    is_exact : bool
        Whether the factor is the new size over the old one.
    region : sequence of Expr or float
        Where the region to crop starts and ends.
    """

    axis: int
    extent: Dim
    size: Dim
    new_size: Expr
    scale: Expr | float
    length: Expr | float
    is_exact: bool
    region: Sequence[Expr | float] = field(default=(0.0, 1.0))


def by_scales(ctx: Context, x: Expr, axes: Sequence[int], scales: Expr | Sequence[float]) -> list[Axis]:
    """Return axes scaled by factors; the new sizes are rounded down."""
    known = ctx.static(scales) if isinstance(scales, Expr) else np.asarray(scales, "float32")
    if known is not None:
        if len(known.ravel()) != len(axes):
            ctx.fail(f"{len(known.ravel())} scales are given for {len(axes)} axes")
        return [_by_scale(ctx, x, a, np.float32(s)) for a, s in zip(axes, known.ravel(), strict=True)]
    assert isinstance(scales, Expr)
    shape, vector = shape_vector(ctx, x), relay.cast(scales, "float32")
    made = []
    for position, axis in enumerate(axes):
        scale = relay.take(vector, ctx.constant(position, "int64"), axis=0)
        have = relay.take(shape, ctx.constant(axis, "int64"), axis=0)
        made.append(_at_run_time(ctx, x, axis, have, scale))
    return made


def _by_scale(ctx: Context, x: Expr, axis: int, scale: np.float32) -> Axis:
    if not scale > 0:
        ctx.fail(f"the scale of axis {axis} is {scale}; it must be positive")
    extent, part = ctx.shape(x)[axis], Fraction(float(scale))
    if isinstance(extent, int):
        size: Dim = int(np.float32(extent) * scale)
        # A scale that was rounded to float32 is the ratio of the sizes all the same.
        is_exact = abs(size - extent * float(scale)) <= 1e-6 * max(size, 1)
        length = float(size) if is_exact else extent * float(scale)
        return Axis(axis, extent, size, sizes(size), length / extent if extent else 1.0, length, is_exact)
    inverse = round(1 / float(scale))
    if not dims.is_any(extent) and (part.denominator <= _EXACT or np.float32(1 / inverse) == scale):
        up, down = (part.numerator, part.denominator) if part.denominator <= _EXACT else (1, inverse)
        size = dims.floordiv(dims.mul(extent, up), down)
        wide = relay.divide(_float(ctx, sizes(dims.mul(extent, up))), ctx.constant(down, "float64"))
        return Axis(axis, extent, size, sizes(size), up / down, wide, is_exact=down == 1)
    have = relay.take(shape_vector(ctx, x), ctx.constant(axis, "int64"), axis=0)
    return _at_run_time(ctx, x, axis, have, ctx.constant(scale, "float32"))


def _at_run_time(ctx: Context, x: Expr, axis: int, have: Expr, scale: Expr) -> Axis:
    new = relay.cast(relay.floor(relay.multiply(relay.cast(have, "float32"), scale)), "int64")
    wide = _float(ctx, scale)
    return Axis(axis, ctx.shape(x)[axis], AnyDim(), new, wide, relay.multiply(_float(ctx, have), wide), is_exact=False)


def _float(ctx: Context, value: Expr) -> Expr:
    return relay.cast(value, "float64")


def by_sizes(ctx: Context, x: Expr, axes: Sequence[int], target: Expr, policy: str) -> list[Axis]:
    """Return axes of new sizes; with a policy other than "stretch" all of them by one scale."""
    shape, wanted = ctx.shape(x), ctx.dims(target)
    if wanted is not None and len(wanted) != len(axes):
        ctx.fail(f"{len(wanted)} sizes are given for {len(axes)} axes")
    if policy != "stretch":
        return _in_proportion(ctx, x, axes, target, policy)
    vector, have = as_vector(ctx, target), shape_vector(ctx, x)
    made = []
    for position, axis in enumerate(axes):
        size = AnyDim() if wanted is None else wanted[position]
        if isinstance(size, int) and size < 0:
            ctx.fail(f"the new size of axis {axis} is {size}")
        new = relay.take(vector, ctx.constant(position, "int64"), axis=0) if wanted is None else sizes(size)
        old = relay.take(have, ctx.constant(axis, "int64"), axis=0)
        length, scale = _float(ctx, new), relay.divide(_float(ctx, new), _float(ctx, old))
        made.append(Axis(axis, shape[axis], size, new, scale, length, is_exact=True))
    return made


def _in_proportion(ctx: Context, x: Expr, axes: Sequence[int], target: Expr, policy: str) -> list[Axis]:
    if policy not in ("not_larger", "not_smaller"):
        ctx.fail(f"keep_aspect_ratio_policy is {policy!r}; it is stretch, not_larger or not_smaller")
    shape, wanted = ctx.shape(x), ctx.static(target)
    extents = [d for d in (shape[a] for a in axes) if isinstance(d, int) and d]
    if wanted is not None and len(extents) == len(axes):
        ratios = [Fraction(int(w), d) for w, d in zip(wanted.ravel(), extents, strict=True)]
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        made = []
        for axis, extent in zip(axes, extents, strict=True):
            exact = ratio * extent
            size = int(exact + Fraction(1, 2))
            made.append(Axis(axis, extent, size, sizes(size), float(ratio), float(exact), is_exact=exact == size))
        return made
    have = relay.take(shape_vector(ctx, x), ctx.constant(list(axes), "int64"), axis=0)
    every = relay.divide(_float(ctx, as_vector(ctx, target)), _float(ctx, have))
    scale = relay.min(every) if policy == "not_larger" else relay.max(every)
    made = []
    for position, axis in enumerate(axes):
        length = relay.multiply(scale, _float(ctx, relay.take(have, ctx.constant(position, "int64"), axis=0)))
        new = relay.cast(relay.floor(relay.add(length, ctx.constant(0.5, "float64"))), "int64")
        made.append(Axis(axis, shape[axis], AnyDim(), new, scale, length, is_exact=False))
    return made
