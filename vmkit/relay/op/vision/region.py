"""Regions of interest: parts of a map of features, pooled to one size."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Protocol, TypeAlias

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ...._dataclasses import dataclass
from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import Dim, TensorType, Type
from ..attrs import Attrs, Bool, Dims, Float, Int, Str, attrs_node
from ..interpolate import require_pixels, wide_type
from ..kernel import const, grid, inside, loops
from ..nn.layout import ordered
from ..registry import OpPattern, operator
from .boxes import require_boxes

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []

_LAYOUTS = ("NCHW", "NHWC")
# What is further away than this lies outside of every map, and has to fit an integer.
_FAR = float(1 << 30)


@attrs_node("relay.attrs.ROIAlignAttrs")
class ROIAlignAttrs(Attrs):
    """Attributes of vision.roi_align."""

    pooled_size: Dims
    spatial_scale: Float
    sample_ratio: Int = -1
    layout: Str = "NCHW"
    mode: Str = "avg"


@attrs_node("relay.attrs.ROIPoolAttrs")
class ROIPoolAttrs(Attrs):
    """Attributes of vision.roi_pool."""

    pooled_size: Dims
    spatial_scale: Float
    layout: Str = "NCHW"


class _PooledAttrs(Protocol):
    """What the attributes of every pooling of regions say."""

    pooled_size: Dims
    layout: Str


def _pooled_type(attrs: _PooledAttrs, data: Type, rois: Type) -> TensorType:
    source, regions = require_boxes(data, 4, "data"), require_boxes(rois, 2, "rois", 5)
    if attrs.layout not in _LAYOUTS:
        raise TypeCheckError(f"layout must be one of {', '.join(_LAYOUTS)}, not {attrs.layout!r}")
    size = list(attrs.pooled_size)
    if len(size) != 2 or any(isinstance(s, int) and s < 1 for s in size):
        raise TypeCheckError(f"pooled_size must hold a height and a width, each positive, not {size}")
    made = [regions.shape[0], *ordered(source.shape, attrs.layout, "C"), *size]
    return TensorType(ordered(made, "NCHW", attrs.layout), source.dtype)


def _require_regions(context: LowerContext, data: relax.Expr, rois: relax.Expr, layout: str) -> None:
    """Check at run time that a region has five numbers and that there is a pixel to read, unless none is wanted."""
    name = context.operator
    count, width = context.shape(rois)
    context.require_equal(width, 5, f"{name}: a region has {{expected}} numbers, not {{actual}}")
    batch, channels, *sizes = ordered(context.shape(data), layout, "NCHW")
    require_pixels(context, [batch, *sizes], [dims.mul(count, channels)] * 3)


def _pooled_shape(context: LowerContext, attrs: _PooledAttrs, data: relax.Expr, rois: relax.Expr) -> list[Dim]:
    (channels,) = ordered(context.shape(data), attrs.layout, "C")
    made = [context.shape(rois)[0], channels, *context.dims(list(attrs.pooled_size))]
    return ordered(made, "NCHW", attrs.layout)


def _near(value: tirx.Expr) -> tirx.Expr:
    """Return a coordinate limited to what fits an integer; NaN is 0."""
    dtype = str(value.ty.dtype)
    limited = tirx.max(tirx.min(value, tirx.const(_FAR, dtype)), tirx.const(-_FAR, dtype))
    return tirx.Select(tirx.isnan(value), tirx.const(0, dtype), limited)


@attrs_node("relay.attrs.ContribROIAlignAttrs")
class AlignedROIAlignAttrs(Attrs):
    """Attributes of vision.contrib_roi_align."""

    pooled_size: Dims
    spatial_scale: Float
    sample_ratio: Int = -1
    layout: Str = "NCHW"
    mode: Str = "avg"
    aligned: Bool = False


@operator(
    "vision.roi_align",
    "data",
    "rois",
    attrs=ROIAlignAttrs,
    level=5,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    layout="own",
)
class ROIAlign:
    """Regions of maps, each cut into pooled_size bins of which the mean or the maximum of interpolated points is taken.

    A region is (image, left, top, right, bottom); spatial_scale times a coordinate is one of the map. A bin has
    sample_ratio points on each axis, or as many as it has pixels where that is not positive. A point more than a pixel
    outside of the map counts as 0; an image that there is not means the nearest one.
    """

    @staticmethod
    def relation(attrs: ROIAlignAttrs, data: Type, rois: Type) -> Type:
        if attrs.mode not in ("avg", "max"):
            raise TypeCheckError(f"mode must be avg or max, not {attrs.mode!r}")
        return _pooled_type(attrs, data, rois)

    @staticmethod
    def lower(context: LowerContext, attrs: ROIAlignAttrs, data: relax.Expr, rois: relax.Expr) -> relax.Expr:
        return _aligned(context, attrs, data, rois, _Points())


@operator("vision.contrib_roi_align", "data", "rois", attrs=AlignedROIAlignAttrs, level=10, layout="own")
class AlignedROIAlign:
    """vision.roi_align as ONNX has it: the maximum is that of the pixels times their weights, not of the points.

    With aligned, a coordinate is that of the middle of a pixel, and a region may be smaller than one.
    """

    relation = staticmethod(ROIAlign.relation)

    @staticmethod
    def lower(context: LowerContext, attrs: AlignedROIAlignAttrs, data: relax.Expr, rois: relax.Expr) -> relax.Expr:
        return _aligned(context, attrs, data, rois, _Points(attrs.aligned, of_pixels=True))


_AlignAttrs: TypeAlias = ROIAlignAttrs | AlignedROIAlignAttrs


@dataclass(frozen=True)
class _Points:
    """Where the points of a bin lie, and what the maximum is of: interpolated points, or pixels times weights."""

    aligned: bool = False
    of_pixels: bool = False


def _aligned(context: LowerContext, attrs: _AlignAttrs, data: relax.Expr, rois: relax.Expr, way: _Points) -> relax.Expr:
    _require_regions(context, data, rois, attrs.layout)
    shape = _pooled_shape(context, attrs, data, rois)
    (channels,) = ordered(shape, attrs.layout, "C")
    dtype = str(data.ty.dtype)
    # The sums of a bin, and the numbers of the points of each axis: kept in memory, because the compiler takes
    # seconds over expressions that hold one another.
    wide = wide_type(dtype)
    results = [(shape, dtype), ([channels], wide), ([2, 3], wide), ([2, 2], "int64")]
    return loops(context, results, lambda *a: _align(attrs, way, *a), data, rois)[0]


def _align(attrs: _AlignAttrs, way: _Points, outputs: list[tirx.Buffer], data: tirx.Buffer, rois: tirx.Buffer) -> None:
    pooled, sums, reals, wholes = outputs
    wide, dtype = str(sums.dtype), str(data.dtype)
    batch, channels, *sizes = ordered(data.shape, attrs.layout, "NCHW")
    count, _, *bins = ordered(pooled.shape, attrs.layout, "NCHW")
    takes_mean = attrs.mode == "avg"
    zero = tirx.const(0, wide)
    with grid([count, *bins]) as (r, *at):
        image = T.bind(inside(_near(rois[r, 0].astype(wide)).astype("int64"), batch))
        scratch = (reals, wholes)
        axes = [_SampledAxis(attrs, way, rois, r, k, sizes[k], bins[k], at[k], scratch) for k in range(2)]
        # Points outside of the map are not visited: there may be any number of them, and they are 0.
        points = T.bind(axes[0].points * axes[1].points)
        has_points = [a.is_whole for a in axes] + ([points > zero] if way.aligned else [])
        start = zero if takes_mean else tirx.Select(tirx.all(*has_points), tirx.min_value(wide), zero)
        with grid([channels]) as (c,):
            T.buffer_store(sums, start, [c])
        with grid([a.visited for a in axes]) as steps:
            places = [a.place(s) for a, s in zip(axes, steps, strict=True)]
            within = T.bind(tirx.all(*[is_within for is_within, _ in places]))
            taps = [taps for _, taps in places]
            with grid([channels]) as (c,):
                terms = []
                for row, row_weight in taps[0]:
                    for column, column_weight in taps[1]:
                        pixel = data[tuple(ordered([image, c, row, column], "NCHW", attrs.layout))]
                        terms.append(pixel.astype(wide) * column_weight * row_weight)
                value = reduce(tirx.max if way.of_pixels and not takes_mean else add, terms)
                value = T.bind(tirx.Select(within, value, zero))
                T.buffer_store(sums, sums[c] + value / points if takes_mean else tirx.max(sums[c], value), [c])
        with grid([channels]) as (c,):
            T.buffer_store(pooled, sums[c].astype(dtype), ordered([r, c, *at], "NCHW", attrs.layout))


class _SampledAxis:
    """The points of a bin on one axis of a map, bound as values of the kernel.

    Attributes
    ----------
    points : expression
        The number of points, as a float.
    visited : expression
        The number of those that may lie on the map.
    is_whole : expression
        Whether these are all.
    """

    def __init__(
        self,
        attrs: _AlignAttrs,
        way: _Points,
        rois: tirx.Buffer,
        r: tirx.Expr,
        axis: int,
        size: tirx.Expr,
        bins: tirx.Expr,
        at: tirx.Expr,
        scratch: tuple[tirx.Buffer, ...],
    ) -> None:
        reals, wholes = scratch
        wide = str(reals.dtype)
        one, zero, half = (tirx.const(v, wide) for v in (1, 0, 0.5))
        scale = tirx.const(attrs.spatial_scale, wide)
        # A region holds x before y.
        begin, end = (T.bind(rois[r, k].astype(wide) * scale) for k in (2 - axis, 4 - axis))
        if way.aligned:
            begin, end = begin - half, end - half
        extent = T.bind(end - begin if way.aligned else tirx.max(end - begin, one))
        step = T.bind(extent / bins.astype(wide))
        points = tirx.const(attrs.sample_ratio, wide) if attrs.sample_ratio > 0 else _near(tirx.ceil(step))
        self._size, self._wide, self._half = size, wide, half
        for k, value in enumerate(
            (tirx.max(points, zero if way.aligned else one), begin + at.astype(wide) * step, step)
        ):
            T.buffer_store(reals, value, [axis, k])
        self.points, self._begin, self._step = (reals[axis, k] for k in range(3))
        # The first and the last point that may lie on the map; one more on each side makes up for rounding.
        gap = T.bind(self._step / tirx.max(self.points, one))
        first = _near(tirx.floor((-one - self._begin) / gap - half)) - one
        last = _near(tirx.ceil((size.astype(wide) - self._begin) / gap - half)) + one
        T.buffer_store(wholes, tirx.min(tirx.max(first, zero), self.points).astype("int64"), [axis, 0])
        self._first = wholes[axis, 0]
        stop = T.bind(tirx.max(tirx.min(last + one, self.points), zero).astype("int64"))
        T.buffer_store(wholes, tirx.max(stop - self._first, const(0)), [axis, 1])
        self.visited = wholes[axis, 1]
        self.is_whole = T.bind(self.visited.astype(wide) == self.points)

    def place(self, step: tirx.Expr) -> tuple[tirx.Expr, list[tuple[tirx.Expr, tirx.Expr]]]:
        """Return whether a point lies on the map, and the pixels around it as (position, weight)."""
        wide, size = self._wide, self._size
        index = (self._first + step).astype(wide)
        where = T.bind(self._begin + (index + self._half) * self._step / self.points)
        edge = tirx.const(-1, wide)
        is_within = tirx.all(where >= edge, where <= size.astype(wide))
        limited = T.bind(tirx.max(tirx.min(_near(where), (size - 1).astype(wide)), tirx.const(0, wide)))
        floor = T.bind(tirx.floor(limited))
        part = T.bind(limited - floor)
        low = T.bind(floor.astype("int64"))
        return is_within, [(low, 1 - part), (tirx.min(low + 1, size - 1), part)]


@operator(
    "vision.roi_pool", "data", "rois", attrs=ROIPoolAttrs, level=5, pattern=OpPattern.OUT_ELEMWISE_FUSABLE, layout="own"
)
class ROIPool:
    """Regions of maps, each cut into pooled_size bins of which the maximum is taken; 0 where a bin has no pixel.

    A region is (image, left, top, right, bottom); spatial_scale times a coordinate, rounded, is a pixel of the map. An
    image that there is not means the nearest one.
    """

    relation = staticmethod(_pooled_type)

    @staticmethod
    def lower(context: LowerContext, attrs: ROIPoolAttrs, data: relax.Expr, rois: relax.Expr) -> relax.Expr:
        _require_regions(context, data, rois, attrs.layout)
        shape, dtype = _pooled_shape(context, attrs, data, rois), str(data.ty.dtype)
        return loops(context, [(shape, dtype)], lambda *a: _pool(attrs, *a), data, rois)


def _pool(attrs: ROIPoolAttrs, outputs: list[tirx.Buffer], data: tirx.Buffer, rois: tirx.Buffer) -> None:
    (pooled,) = outputs
    dtype, wide = str(data.dtype), wide_type(str(rois.dtype))
    batch, channels, *sizes = ordered(data.shape, attrs.layout, "NCHW")
    count, _, *bins = ordered(pooled.shape, attrs.layout, "NCHW")
    with grid([count, *bins]) as (r, *at):
        image = T.bind(inside(_near(rois[r, 0].astype(wide)).astype("int64"), batch))
        bounds = [_bin(attrs, rois, r, k, sizes[k], bins[k], at[k], wide) for k in range(2)]
        extents = [T.bind(tirx.max(stop - first, const(0))) for first, stop in bounds]
        is_empty = T.bind(tirx.any(*[e == 0 for e in extents]))
        with grid([channels]) as (c,):
            where = ordered([r, c, *at], "NCHW", attrs.layout)
            T.buffer_store(pooled, tirx.Select(is_empty, tirx.const(0, dtype), tirx.min_value(dtype)), where)
            with grid(extents) as steps:
                places = [first + s for (first, _), s in zip(bounds, steps, strict=True)]
                pixel = data[tuple(ordered([image, c, *places], "NCHW", attrs.layout))]
                T.buffer_store(pooled, tirx.max(pooled[tuple(where)], pixel), where)


def _bin(
    attrs: ROIPoolAttrs,
    rois: tirx.Buffer,
    r: tirx.Expr,
    axis: int,
    size: tirx.Expr,
    bins: tirx.Expr,
    at: tirx.Expr,
    wide: str,
) -> Sequence[tirx.Expr]:
    """Return the first pixel of a bin on one axis, and the one after its last."""
    scale = tirx.const(attrs.spatial_scale, wide)
    begin, end = (T.bind(_rounded(rois[r, k].astype(wide) * scale)) for k in (2 - axis, 4 - axis))
    step = T.bind(tirx.max(end - begin + 1, const(1)).astype(wide) / bins.astype(wide))
    # Keeps what should be a whole number from being rounded to its neighbour.
    epsilon = tirx.const(1e-5, wide)
    first = tirx.floor(at.astype(wide) * step + epsilon).astype("int64")
    stop = tirx.ceil((at + 1).astype(wide) * step - epsilon).astype("int64")
    return [T.bind(tirx.min(tirx.max(begin + edge, const(0)), size)) for edge in (first, stop)]


def _rounded(value: tirx.Expr) -> tirx.Expr:
    """Return the nearest integer, halves away from zero."""
    half = tirx.const(0.5, str(value.ty.dtype))
    value = _near(value)
    return tirx.Select(value < 0, tirx.ceil(value - half), tirx.floor(value + half)).astype("int64")
