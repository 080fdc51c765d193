"""Resizing of images: by sizes or scales, which may be read at run time, along any axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from .... import relay
from ....relay.ir import Any as AnyDim
from ....relay.ir import Dim, Expr, dims
from ....relay.op import build
from ..context import Context
from ..known import sizes
from ..registry import converter
from ..run_time_axes import as_vector, shape_vector
from .layout import to_shape

_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
# Those that the resizing of whole images knows as well; where a region is cropped, it may be read at run time.
_PLAIN_MODES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn")
_MODES = (*_PLAIN_MODES, "half_pixel_symmetric", "tf_crop_and_resize")
_EXACT = 1 << 10  # scales that are a whole number of this part are exact over symbolic sizes


@dataclass(frozen=True)
class Way:
    """How pixels are interpolated: the attributes of Resize."""

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    alpha: float = -0.75
    exclude_outside: int = 0
    extrapolation: float = 0.0
    antialias: bool = False

    def problem(self) -> str | None:
        """Return what is wrong with the attributes, if anything is."""
        for value, allowed, name in (
            (self.mode, tuple(_METHODS), "mode"),
            (self.coordinates, _MODES, "coordinate_transformation_mode"),
            (self.nearest_mode, _ROUNDINGS, "nearest_mode"),
        ):
            if value not in allowed:
                return f"{name} is {value!r}; it is one of {', '.join(allowed)}"
        return None


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


def _resized(ctx: Context, x: Expr, axes: Sequence[Axis], way: Way) -> Expr:
    """Return a tensor with axes resized."""
    problem = way.problem()
    if problem:
        ctx.fail(problem)
    is_cropped = way.coordinates == "tf_crop_and_resize"
    changed = [a for a in axes if is_cropped or not dims.equal(a.size, a.extent) or not a.is_exact]
    if not changed:
        return x
    whole = _whole_images(ctx, x, changed, way)
    if whole is not None:
        return whole
    own = ctx.dtype(x)
    wide = own if way.mode == "nearest" or own == "float64" else "float32"
    values = relay.cast(x, wide) if wide != own else x
    for axis in changed:
        values = build(
            "image.contrib_resize_axis",
            values,
            to_shape(axis.new_size, [1]),
            relay.stack([_wide(ctx, v) for v in (axis.scale, axis.length, *axis.region)], 0),
            axis=axis.axis,
            size=axis.size,
            method=_METHODS[way.mode],
            coordinate_transformation_mode=way.coordinates,
            rounding_method=way.nearest_mode,
            cubic_alpha=way.alpha,
            cubic_exclude=way.exclude_outside,
            extrapolation_value=way.extrapolation,
            antialias=way.antialias,
        )
    if wide == own:
        return values
    if not own.startswith(("float", "bfloat")):
        # A cubic curve may go past the largest number that there is.
        info = np.iinfo(own)
        values = relay.clip(values, float(info.min), float(np.nextafter(np.float32(info.max + 1), np.float32(0))))
    return relay.cast(values, own)


def _wide(ctx: Context, value: Expr | float) -> Expr:
    return value if isinstance(value, Expr) else ctx.constant(value, "float64")


def _whole_images(ctx: Context, x: Expr, axes: Sequence[Axis], way: Way) -> Expr | None:
    """Return images resized by one kernel; None where sizes or the way are not what that takes."""
    rank = ctx.rank(x) - 2
    if rank not in _LAYOUTS or any(a.axis < 2 or not a.is_exact or dims.is_any(a.size) for a in axes):
        return None
    if way.coordinates not in _PLAIN_MODES or (way.antialias and way.mode != "nearest"):
        return None
    if way.mode == "cubic" and not ctx.dtype(x).startswith(("float", "bfloat")):
        return None  # the curve may pass the largest number, at which the other way stops
    size = ctx.shape(x)[2:]
    for axis in axes:
        size[axis.axis - 2] = axis.size
    return build(
        f"image.resize{rank}d",
        x,
        size,
        None,
        layout=_LAYOUTS[rank],
        method=_METHODS[way.mode],
        coordinate_transformation_mode=way.coordinates,
        rounding_method=way.nearest_mode if way.mode == "nearest" else "",
        cubic_alpha=way.alpha,
        cubic_exclude=way.exclude_outside,
    )


def _by_scales(ctx: Context, x: Expr, axes: Sequence[int], scales: Expr | Sequence[float]) -> list[Axis]:
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
        length: Expr | float = float(size) if is_exact else extent * float(scale)
        return Axis(axis, extent, size, sizes(size), length / extent if extent else 1.0, length, is_exact)
    inverse = round(1 / float(scale))
    if not dims.is_any(extent) and (part.denominator <= _EXACT or np.float32(1 / inverse) == scale):
        up, down = (part.numerator, part.denominator) if part.denominator <= _EXACT else (1, inverse)
        size = dims.floordiv(dims.mul(extent, up), down)
        length = relay.divide(_float(ctx, sizes(dims.mul(extent, up))), ctx.constant(down, "float64"))
        return Axis(axis, extent, size, sizes(size), up / down, length, is_exact=down == 1)
    have = relay.take(shape_vector(ctx, x), ctx.constant(axis, "int64"), axis=0)
    return _at_run_time(ctx, x, axis, have, ctx.constant(scale, "float32"))


def _at_run_time(ctx: Context, x: Expr, axis: int, have: Expr, scale: Expr) -> Axis:
    new = relay.cast(relay.floor(relay.multiply(relay.cast(have, "float32"), scale)), "int64")
    wide = _float(ctx, scale)
    return Axis(axis, ctx.shape(x)[axis], AnyDim(), new, wide, relay.multiply(_float(ctx, have), wide), is_exact=False)


def _float(ctx: Context, value: Expr) -> Expr:
    return relay.cast(value, "float64")


def _by_sizes(ctx: Context, x: Expr, axes: Sequence[int], target: Expr, policy: str) -> list[Axis]:
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
    if wanted is not None and all(isinstance(shape[a], int) and shape[a] for a in axes):
        ratios = [Fraction(int(w), shape[a]) for w, a in zip(wanted.ravel(), axes, strict=True)]
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        made = []
        for axis in axes:
            exact = ratio * shape[axis]
            size = int(exact + Fraction(1, 2))
            made.append(Axis(axis, shape[axis], size, sizes(size), float(ratio), float(exact), is_exact=exact == size))
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


def _with_regions(ctx: Context, axes: Sequence[Axis], roi: Expr) -> None:
    """Write the region to crop into each axis: all starts come before all ends."""
    vector = relay.cast(roi, "float64")
    if dims.equal(ctx.shape(roi)[0], 2 * len(axes)) is False:
        ctx.fail(f"roi has {ctx.shape(roi)[0]} values for {len(axes)} axes; two for each are needed")
    for position, axis in enumerate(axes):
        axis.region = [relay.take(vector, ctx.constant(at, "int64"), axis=0) for at in (position, position + len(axes))]


@converter("Upsample")
def upsample_by_attribute(
    ctx: Context,
    x: Expr,
    *,
    scales: Sequence[float] | None = None,
    height_scale: float = 1.0,
    width_scale: float = 1.0,
    mode: str = "nearest",
) -> Expr:
    return _upsampled(ctx, x, scales if scales is not None else [1.0, 1.0, height_scale, width_scale], mode)


@converter("Upsample", since=9)
def upsample(ctx: Context, x: Expr, scales: Expr, *, mode: str = "nearest") -> Expr:
    return _upsampled(ctx, x, scales, mode)


def _upsampled(ctx: Context, x: Expr, scales: Expr | Sequence[float], mode: str) -> Expr:
    mode = {"bilinear": "linear", "trilinear": "linear"}.get(mode, mode)
    axes = _by_scales(ctx, x, range(ctx.rank(x)), scales)
    return _resized(ctx, x, axes, Way(mode, "asymmetric", "floor"))


@converter("Resize", since=10)
def resize_of_scales(ctx: Context, x: Expr, scales: Expr, *, mode: str = "nearest") -> Expr:
    return upsample(ctx, x, scales, mode=mode)


@converter("Resize", since=11)
def resize(
    ctx: Context,
    x: Expr,
    roi: Expr | None = None,
    scales: Expr | None = None,
    target: Expr | None = None,
    *,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
) -> Expr:
    rank = ctx.rank(x)
    chosen = [ctx.axis(a, rank) for a in axes] if axes is not None else list(range(rank))
    if target is not None and ctx.shape(target) != [0]:
        resized = _by_sizes(ctx, x, chosen, target, keep_aspect_ratio_policy)
    elif scales is not None and ctx.shape(scales) != [0]:
        resized = _by_scales(ctx, x, chosen, scales)
    else:
        ctx.fail("neither scales nor sizes are given")
    if coordinate_transformation_mode == "tf_crop_and_resize":
        if roi is None:
            ctx.fail("tf_crop_and_resize needs the input roi")
        _with_regions(ctx, resized, roi)
    return _resized(
        ctx,
        x,
        resized,
        Way(
            mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, exclude_outside, extrapolation_value,
            bool(antialias),
        ),
    )  # fmt: skip
