"""Resizing of images."""

from __future__ import annotations

from collections.abc import Sequence

from ....relay.ir import Dim, Expr, dims
from ....relay.op import build
from ..context import Context
from ..registry import converter

_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
_ROUNDING = {
    "round_prefer_floor": "round_prefer_floor",
    "round_prefer_ceil": "round_prefer_ceil",
    "floor": "floor",
    "ceil": "ceil",
}
_MODES = (
    "half_pixel",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def _resized(
    ctx: Context,
    x: Expr,
    size: Sequence[Dim],
    mode: str,
    coordinates: str,
    nearest_mode: str,
    cubic_alpha: float,
    exclude_outside: int,
) -> Expr:
    rank = ctx.rank(x) - 2
    shape = ctx.shape(x)
    if rank not in _LAYOUTS or not all(dims.equal(a, b) for a, b in zip(size[:2], shape[:2], strict=True)):
        ctx.fail(f"{ctx.type(x)} is resized to ({', '.join(map(str, size))}); only 1 to 3 spatial axes can change")
    if mode not in _METHODS:
        ctx.fail(f"mode is {mode!r}; it is nearest, linear or cubic")
    if coordinates not in _MODES or coordinates == "tf_crop_and_resize":
        ctx.fail(f"coordinate_transformation_mode {coordinates!r} is not supported")
    if all(dims.equal(a, b) for a, b in zip(size, shape, strict=True)):
        return x
    return build(
        f"image.resize{rank}d",
        x,
        list(size[2:]),
        None,
        layout=_LAYOUTS[rank],
        method=_METHODS[mode],
        coordinate_transformation_mode=coordinates,
        rounding_method=_ROUNDING[nearest_mode] if mode == "nearest" else "",
        cubic_alpha=cubic_alpha,
        cubic_exclude=exclude_outside,
    )


def _scaled(ctx: Context, x: Expr, scales: Sequence[float]) -> list[Dim]:
    """Return the sizes that scales give: rounded down, in symbols where the scale is a whole number or its inverse."""
    result: list[Dim] = []
    for extent, scale in zip(ctx.shape(x), scales, strict=True):
        if isinstance(extent, int):
            size = int(extent * scale)
            if abs(size - extent * scale) > 1e-3:
                ctx.fail(f"{extent} times the scale {scale} is no whole size; positions are computed from sizes")
            result.append(size)
        elif float(scale).is_integer():
            result.append(dims.mul(extent, int(scale)))
        elif scale > 0 and float(1 / scale).is_integer():
            result.append(dims.floordiv(extent, round(1 / scale)))
        else:
            ctx.fail(f"the size {extent}, not known at import, is scaled by {scale}, neither whole nor 1 by a whole")
    return result


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
    return _upsampled(ctx, x, [float(s) for s in ctx.required(scales, "scales")], mode)


def _upsampled(ctx: Context, x: Expr, scales: Sequence[float], mode: str) -> Expr:
    mode = {"bilinear": "linear", "trilinear": "linear"}.get(mode, mode)
    return _resized(ctx, x, _scaled(ctx, x, scales), mode, "asymmetric", "floor", -0.75, 0)


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
    if antialias or keep_aspect_ratio_policy != "stretch":
        ctx.fail("antialias and keep_aspect_ratio_policy are not supported")
    rank = ctx.rank(x)
    chosen = [ctx.axis(a, rank) for a in axes] if axes is not None else list(range(rank))
    whole = ctx.shape(x)
    if target is not None and ctx.shape(target) != [0]:
        wanted = ctx.dims(target)
        if wanted is None:
            ctx.fail("the sizes are computed from data; only sizes known at import, or from shapes, are supported")
        for axis, size in zip(chosen, wanted, strict=True):
            whole[axis] = size
    elif scales is not None:
        factors = [1.0] * rank
        for axis, factor in zip(chosen, ctx.required(scales, "scales").ravel().tolist(), strict=True):
            factors[axis] = factor
        whole = _scaled(ctx, x, factors)
    else:
        ctx.fail("neither scales nor sizes are given")
    return _resized(ctx, x, whole, mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, exclude_outside)
