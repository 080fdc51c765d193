"""Boxes and regions of images, and images sampled at points."""

from __future__ import annotations

from collections.abc import Sequence

from .... import relay
from ....relay.ir import Any as AnyDim
from ....relay.ir import Dim, Expr
from ....relay.op import build
from ..context import Context
from ..outcome import Outcome
from ..ranks import MOST_DIMENSIONS, by_length
from ..registry import converter
from ..run_time_axes import as_vector, pinned
from ..typing import typed
from ..window import Window
from .layout import to_shape


@converter("NonMaxSuppression", since=10)
def non_max_suppression(
    ctx: Context,
    boxes: Expr,
    scores: Expr,
    limit: Expr | None = None,
    iou_threshold: Expr | None = None,
    score_threshold: Expr | None = None,
    *,
    center_point_box: int = 0,
) -> Expr:
    if center_point_box:
        x, y, width, height = (relay.strided_slice(boxes, [k], [k + 1], [1], axes=[2]) for k in range(4))
        half = ctx.constant(0.5, ctx.dtype(boxes))
        across, down = relay.multiply(width, half), relay.multiply(height, half)
        corners = [relay.subtract(y, down), relay.subtract(x, across), relay.add(y, down), relay.add(x, across)]
        boxes = relay.concatenate(corners, 2)
    numbers = [
        ctx.constant(default, dtype) if value is None else _scalar(ctx, value)
        for value, default, dtype in (
            (limit, 0, "int64"),
            (iou_threshold, 0, "float32"),
            (score_threshold, -float("inf"), "float32"),
        )
    ]
    return build("vision.contrib_class_non_max_suppression", boxes, scores, *numbers)


def _scalar(ctx: Context, value: Expr) -> Expr:
    return to_shape(value, []) if ctx.rank(value) else value


@converter("RoiAlign", since=10)
def roi_align_of_corners(
    ctx: Context,
    x: Expr,
    rois: Expr,
    images: Expr,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Expr:
    return roi_align(
        ctx, x, rois, images, mode=mode, output_height=output_height, output_width=output_width,
        sampling_ratio=sampling_ratio, spatial_scale=spatial_scale, coordinate_transformation_mode="output_half_pixel",
    )  # fmt: skip


@converter("RoiAlign", since=16)
def roi_align(
    ctx: Context,
    x: Expr,
    rois: Expr,
    images: Expr,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    coordinate_transformation_mode: str = "half_pixel",
) -> Expr:
    if coordinate_transformation_mode not in ("half_pixel", "output_half_pixel"):
        ctx.fail(f"coordinate_transformation_mode is {coordinate_transformation_mode!r}; it is half_pixel or "
                 "output_half_pixel")  # fmt: skip
    # The number of the image stands before the corners of its region; float32 holds those up to 16 million exactly.
    wide = "float64" if ctx.dtype(rois) == "float64" else "float32"
    column = relay.expand_dims(relay.cast(images, wide), 1)
    regions = relay.concatenate([column, relay.cast(rois, wide)], 1)
    return build(
        "vision.contrib_roi_align",
        x,
        regions,
        pooled_size=[output_height, output_width],
        spatial_scale=spatial_scale,
        sample_ratio=sampling_ratio,
        mode=mode,
        aligned=coordinate_transformation_mode == "half_pixel",
    )


@converter("MaxRoiPool")
def max_roi_pool(ctx: Context, x: Expr, rois: Expr, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0) -> Expr:
    return build("vision.roi_pool", x, rois, pooled_size=list(pooled_shape), spatial_scale=spatial_scale)


_SAMPLING = {
    "bilinear": "bilinear", "linear": "bilinear", "nearest": "nearest", "bicubic": "bicubic", "cubic": "bicubic",
}  # fmt: skip


@converter("GridSample", since=16)
def grid_sample(
    ctx: Context, x: Expr, grid: Expr, *, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0
) -> Expr:
    rank = ctx.rank(x) - 2
    if mode not in _SAMPLING:
        ctx.fail(f"mode is {mode!r}; it is linear, nearest or cubic")
    if rank == 1:
        # A sequence is an image of one row: its points lie in the middle of it.
        points = relay.concatenate([grid, relay.zeros_like(grid)], 2)
        image = grid_sample(
            ctx, relay.expand_dims(x, 2), relay.expand_dims(points, 1),
            mode=mode, padding_mode=padding_mode, align_corners=align_corners,
        )  # fmt: skip
        return relay.squeeze(image, [2])
    if rank not in (2, 3):
        ctx.fail(f"images of {rank} spatial dimensions are not sampled; 1 to 3 are")
    wide = "float64" if "float64" in (ctx.dtype(grid), ctx.dtype(x)) else "float32"
    points = relay.transpose(relay.cast(grid, wide), [0, rank + 1, *range(1, rank + 1)])
    layout = {2: "NCHW", 3: "NCDHW"}[rank]
    return relay.image.grid_sample(x, points, _SAMPLING[mode], layout, padding_mode, bool(align_corners))


@converter("AffineGrid", since=20)
def affine_grid(ctx: Context, theta: Expr, size: Expr, *, align_corners: int = 0) -> Outcome:
    """Each coordinate is a row of the matrix times (x, y, z, 1): a sum of terms that are broadcast."""

    def grid(size: Expr) -> Expr:
        return _affine_grid(ctx, theta, size, bool(align_corners))

    return by_length(ctx, size, (4, 5), "the length of the size", grid)


def _affine_grid(ctx: Context, theta: Expr, size: Expr, align_corners: bool) -> Expr:
    known = ctx.dims(size)
    (count,) = ctx.shape(size)
    if count not in (4, 5):
        ctx.fail(f"the size has {count} elements; it is (N, C, H, W) or (N, C, D, H, W)")
    rank, dtype = count - 2, ctx.dtype(theta)
    theta = typed(pinned(ctx, theta, [AnyDim(), rank, rank + 1]))
    vector = as_vector(ctx, size)
    result = None
    for axis in range(rank):
        # Matrices count the axes from the last.
        column = rank - 1 - axis
        along = _grid_line(ctx, known, vector, 2 + axis, dtype, align_corners)
        place = _along(along, rank, axis)
        term = relay.multiply(_column(theta, column, rank), place)
        result = term if result is None else relay.add(result, term)
    assert result is not None
    moved = relay.add(result, _column(theta, rank, rank))
    return relay.transpose(moved, [0, *range(2, rank + 2), 1])


def _grid_line(ctx: Context, known: list[Dim] | None, size: Expr, at: int, dtype: str, align_corners: bool) -> Expr:
    """Return the coordinates from -1 to 1 of the pixels along an axis."""
    extent = relay.take(size, ctx.constant(at, "int64"), axis=0)
    if known is not None:
        positions = relay.cast(ctx.positions(known[at], "int64"), dtype)
    else:
        zero, one = ctx.constant(0, "int64"), ctx.constant(1, "int64")
        positions = relay.cast(relay.arange(zero, extent, one, "int64"), dtype)
    one, two = ctx.constant(1, dtype), ctx.constant(2, dtype)
    length = relay.cast(extent, dtype)
    if align_corners:
        steps = relay.maximum(relay.subtract(length, one), one)
        return relay.subtract(relay.divide(relay.multiply(positions, two), steps), one)
    doubled = relay.add(relay.multiply(positions, two), one)
    return relay.subtract(relay.divide(doubled, length), one)


def _along(line: Expr, rank: int, axis: int) -> Expr:
    """Return a vector as a tensor (1, 1, ...) that goes along one of `rank` axes behind two others."""
    behind = relay.expand_dims(line, 1, rank - 1 - axis) if rank - 1 - axis else line
    return relay.expand_dims(behind, 0, 2 + axis)


def _column(theta: Expr, column: int, rank: int) -> Expr:
    """Return a column of the matrices as a tensor (batch, rows, 1, ...)."""
    rows = relay.squeeze(relay.strided_slice(theta, [column], [column + 1], [1], axes=[2]), [2])
    return relay.expand_dims(rows, 2, rank)


@converter("Col2Im", since=18, without=("auto_pad", "kernel_shape"))
def col2im(ctx: Context, x: Expr, image_shape: Expr, block_shape: Expr, *, window: Window) -> Outcome:
    def image(image_shape: Expr) -> Expr:
        return _image_of_columns(ctx, x, image_shape, block_shape, window)

    # What each attribute has for an axis says how many there are, and so do the other shape's elements.
    told = [len(v) // n for v, n in ((window.strides, 1), (window.dilations, 1), (window.pads, 2)) if v is not None]
    told += [d for d in ctx.shape(block_shape) if isinstance(d, int)]
    ranks = [told[0]] if told else range(1, MOST_DIMENSIONS - 1)
    return by_length(ctx, image_shape, ranks, "the length of image_shape", image)


def _image_of_columns(ctx: Context, x: Expr, image_shape: Expr, block_shape: Expr, window: Window) -> Expr:
    rank = int(ctx.shape(image_shape)[0])
    block_shape = typed(pinned(ctx, block_shape, [rank]))
    sizes = [ctx.dims(v) or [AnyDim()] * rank for v in (image_shape, block_shape)]
    return build(
        "image.contrib_col2im",
        x,
        image_shape,
        block_shape,
        image=sizes[0],
        block=sizes[1],
        strides=window.steps(rank),
        dilations=window.spread(rank),
        padding=window.margins(rank),
    )
