"""Resizing of images: by sizes or scales, which may be read at run time, along any axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Expr, dims
from ....relay.op import build
from ..context import Context
from ..registry import converter
from .layout import to_shape
from .scaling import Axis, by_scales, by_sizes

_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
# Those that the resizing of whole images knows as well; where a region is cropped, it may be read at run time.
_PLAIN_MODES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn")
_MODES = (*_PLAIN_MODES, "half_pixel_symmetric", "tf_crop_and_resize")


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


def _resized(ctx: Context, x: Expr, axes: Sequence[Axis], way: Way) -> Expr:
    """Return a tensor with axes resized."""
    problem = way.problem()
    if problem:
        ctx.fail(problem)
    is_cropped = way.coordinates == "tf_crop_and_resize"
    changed = [a for a in axes if is_cropped or not dims.equal(a.size, a.extent) or not a.is_exact]
    if not changed:
        return x
    images, others = ([a for a in changed if (a.axis >= 2) is is_image] for is_image in (True, False))
    if not _are_whole_images(ctx, x, images, way) or (others and not _keeps_values(ctx, x, way)):
        return _one_by_one(ctx, x, changed, way)
    return _whole_images(ctx, _one_by_one(ctx, x, others, way), images, way)


def _keeps_values(ctx: Context, x: Expr, way: Way) -> bool:
    """Say whether what one kernel gives the next one is not rounded."""
    return way.mode == "nearest" or ctx.dtype(x) in ("float32", "float64")


def _one_by_one(ctx: Context, x: Expr, changed: Sequence[Axis], way: Way) -> Expr:
    """Return a tensor with axes resized one after the other."""
    if not changed:
        return x
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


def _are_whole_images(ctx: Context, x: Expr, axes: Sequence[Axis], way: Way) -> bool:
    """Say whether one kernel can resize images along these axes: sizes and the way are what it takes."""
    if ctx.rank(x) - 2 not in _LAYOUTS or not axes or any(not a.is_exact or dims.is_any(a.size) for a in axes):
        return False
    if way.coordinates not in _PLAIN_MODES or (way.antialias and way.mode != "nearest"):
        return False
    # A curve may pass the largest number, at which the other way stops.
    return way.mode != "cubic" or ctx.dtype(x).startswith(("float", "bfloat"))


def _whole_images(ctx: Context, x: Expr, axes: Sequence[Axis], way: Way) -> Expr:
    """Return images resized by one kernel."""
    rank = ctx.rank(x) - 2
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
    axes = by_scales(ctx, x, range(ctx.rank(x)), scales)
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
        resized = by_sizes(ctx, x, chosen, target, keep_aspect_ratio_policy)
    elif scales is not None and ctx.shape(scales) != [0]:
        resized = by_scales(ctx, x, chosen, scales)
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
