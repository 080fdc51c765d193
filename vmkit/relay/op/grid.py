"""Sampling of images at the points of a grid, and the grid that an affine map makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tvm import relax, te, tirx, topi

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import TensorType, Type
from .attrs import Attrs, Bool, Ints, Str, attrs_node, field
from .elementwise import require_tensor
from .interpolate import AxisTaps, Taps, cubic_weights, mixed, require_pixels, wide_type
from .nn.layout import require_rank
from .registry import OpPattern, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []

_ALPHA = -0.75  # the coefficient of the cubic spline, as in PyTorch and ONNX


@attrs_node("relay.attrs.GridSampleAttrs")
class GridSampleAttrs(Attrs):
    """Attributes of image.grid_sample."""

    method: Str = "bilinear"
    layout: Str = "NCHW"
    padding_mode: Str = "zeros"
    align_corners: Bool = True


@operator(
    "image.grid_sample", "data", "grid", attrs=GridSampleAttrs, level=5, pattern=OpPattern.INJECTIVE, layout="own"
)
class GridSample:
    """Images (or volumes) read at the points of a grid of coordinates from -1 to 1.

    The grid is (batch, 2, height, width) with x first, or (batch, 3, depth, height, width).
    """

    @staticmethod
    def relation(attrs: GridSampleAttrs, data: Type, grid: Type) -> Type:
        source, points = require_tensor(data, "data"), require_tensor(grid, "grid")
        if attrs.layout not in ("NCHW", "NCDHW"):
            raise TypeCheckError(f"layout must be NCHW or NCDHW, not {attrs.layout!r}")
        rank = len(attrs.layout) - 2
        methods = ("nearest", "bilinear", "bicubic")[: 5 - rank]
        if attrs.method not in methods:
            raise TypeCheckError(f"method must be one of {', '.join(methods)} for {attrs.layout}, not {attrs.method!r}")
        if attrs.padding_mode not in ("zeros", "border", "reflection"):
            raise TypeCheckError(f"padding_mode must be zeros, border or reflection, not {attrs.padding_mode!r}")
        require_rank(source, rank + 2, "data")
        require_rank(points, rank + 2, "grid")
        if dims.equal(points.shape[1], rank) is False:
            raise TypeCheckError(f"grid must have {rank} coordinates in dimension 1, not {points.shape[1]}")
        if dims.equal(source.shape[0], points.shape[0]) is False:
            raise TypeCheckError(f"the batches differ: {source.shape[0]} of data and {points.shape[0]} of grid")
        return TensorType([*source.shape[:2], *points.shape[2:]], source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: GridSampleAttrs, data: relax.Expr, grid: relax.Expr) -> relax.Expr:
        images, points = context.shape(data), context.shape(grid)
        name = context.operator
        context.require_equal(
            points[1], len(images) - 2, f"{name}: grid must have {{expected}} coordinates, not {{actual}}"
        )
        context.require_equal(
            points[0], images[0], f"{name}: the batches differ: {{expected}} of data and {{actual}} of grid"
        )
        require_pixels(context, images[2:], points[2:])
        return context.te(lambda x, g: _sampled(attrs, x, g), data, grid)


def _sampled(attrs: GridSampleAttrs, data: te.Tensor, grid: te.Tensor) -> te.Tensor:
    dtype = str(data.dtype)
    wide = wide_type(dtype)
    sizes, points = list(data.shape[2:]), list(grid.shape[2:])

    def taps_of(axis: int) -> AxisTaps:
        # The coordinates stand in the grid from the last axis to the first: x, y, z.
        row, size = len(sizes) - 1 - axis, sizes[axis]
        coordinate = te.compute(
            [grid.shape[0], *points],
            lambda n, *i: _coordinate(attrs, grid(n, row, *i).astype(wide), size),
            name="coordinates",
        )
        return AxisTaps.around(coordinate, _taps(attrs, size), lambda p: p)

    axes = [taps_of(axis) for axis in range(len(sizes))]

    def element(n: tirx.Expr, c: tirx.Expr, *index: tirx.Expr) -> tirx.Expr:
        def read(positions: list[tirx.Expr]) -> tirx.Expr:
            within = [t for p, s in zip(positions, sizes, strict=True) for t in (p >= 0, p < s)]
            return tirx.if_then_else(tirx.all(*within), data(n, c, *positions), tirx.const(0, dtype))

        return mixed(read, [(taps, [n, *index]) for taps in axes], wide).astype(dtype)

    return te.compute([*data.shape[:2], *points], element, name="grid_sample")


def _coordinate(attrs: GridSampleAttrs, x: tirx.Expr, size: tirx.Expr) -> tirx.Expr:
    """Return the coordinate on a source axis that a coordinate from -1 to 1 means."""
    wide = str(x.ty.dtype)
    size_f, half = size.astype(wide), tirx.const(0.5, wide)
    x = (x + 1) * half * (size_f - 1) if attrs.align_corners else (x + 1) * half * size_f - half
    if attrs.method != "bicubic":
        x = _placed(attrs, x, size)
    # What lies further outside is no different, and has to fit an integer.
    return tirx.max(tirx.min(x, size_f + 2), tirx.const(-3, wide))


def _taps(attrs: GridSampleAttrs, size: tirx.Expr) -> Callable[[tirx.Expr], Taps]:
    """Return what gives the pixels around a coordinate, as (position, weight)."""

    def around(x: tirx.Expr) -> Taps:
        if attrs.method == "nearest":
            return [(tirx.nearbyint(x).astype("int64"), None)]
        floor = tirx.floor(x)
        part = x - floor
        if attrs.method == "bilinear":
            return [(floor.astype("int64"), 1 - part), (floor.astype("int64") + 1, part)]
        places = [_placed(attrs, floor + (i - 1), size).astype("int64") for i in range(4)]
        return list(zip(places, cubic_weights(part, _ALPHA), strict=True))

    return around


def _placed(attrs: GridSampleAttrs, x: tirx.Expr, size: tirx.Expr) -> tirx.Expr:
    """Return the coordinate that is read for one that may lie outside."""
    if attrs.padding_mode == "zeros":
        return x
    wide = str(x.ty.dtype)
    last = size.astype(wide) - 1
    if attrs.padding_mode == "reflection":
        low, span = (0.0, last) if attrs.align_corners else (-0.5, last + 1)
        distance = tirx.abs(x - tirx.const(low, wide))
        times = tirx.floor(distance / tirx.max(span, tirx.const(0.5, wide)))
        extra = distance - times * span
        is_even = times - 2 * tirx.floor(times / 2) == 0
        x = tirx.Select(is_even, extra, span - extra) + tirx.const(low, wide)
    return tirx.max(tirx.min(x, last), tirx.const(0, wide))


@attrs_node("relay.attrs.AffineGridAttrs")
class AffineGridAttrs(Attrs):
    """Attributes of image.affine_grid."""

    target_shape: Ints = field(script=None, doc="Height and width of the image.")


@operator("image.affine_grid", "data", attrs=AffineGridAttrs, level=5, pattern=OpPattern.INJECTIVE)
class AffineGrid:
    """The grid that affine matrices (batch, 2, 3) make of the points of an image of target_shape, for grid_sample."""

    @staticmethod
    def relation(attrs: AffineGridAttrs, data: Type) -> Type:
        source, shape = require_tensor(data, "data"), list(attrs.target_shape)
        require_rank(source, 3, "data")
        if len(shape) != 2 or any(s < 2 for s in shape):
            raise TypeCheckError(f"target_shape must hold a height and a width, each 2 or more, not {shape}")
        if dims.equal(source.shape[1], 2) is False or dims.equal(source.shape[2], 3) is False:
            raise TypeCheckError(f"data must hold matrices of 2 by 3, not {source}")
        return TensorType([source.shape[0], 2, *shape], source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: AffineGridAttrs, data: relax.Expr) -> relax.Expr:
        for actual, expected in zip(context.shape(data)[1:], (2, 3), strict=True):
            context.require_equal(actual, expected, "image.affine_grid: data must hold matrices of 2 by 3")
        return context.te(lambda x: topi.image.affine_grid(x, [int(s) for s in attrs.target_shape]), data)
