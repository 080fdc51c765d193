"""Operators on images: resizing, cropping, sampling at points of a grid, morphology."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Constant, Expr, const
from ..ir.types import Any as AnyDim
from ..ir.types import TensorType, Type
from .attrs import Attrs, Dim, Dims, DType, Float, Floats, Int, Nested, Str, attrs_node, field
from .create import read_shape
from .elementwise import require_tensor
from .fields import REQUIRED
from .interpolate import Interpolation, interpolated, require_pixels, resized, resized_axis, wide_type
from .kernel import inside
from .nn.layout import SPATIAL, ordered, require_layout, require_rank
from .nn.pooling import pool_axes
from .nn.window_fields import in_order
from .registry import OpPattern, entry, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.Resize{rank}DAttrs", ranks=(1, 2, 3))
class ResizeAttrs(Attrs):
    """Attributes of image.resize{rank}d."""

    size: Dims | None = field(None, script=REQUIRED, doc="Size of the result.")
    roi: Nested | None = field(None, doc="The region of the data that tf_crop_and_resize resizes.")
    layout: Str = in_order("NC", "Order of the data's axes.")
    method: Str = field("linear", doc="nearest_neighbor, linear or cubic.")
    coordinate_transformation_mode: Str = field("half_pixel", doc="How places of result and data belong together.")
    rounding_method: Str = field(
        "round", script="", doc="How nearest_neighbor rounds; as the mode does where it is empty."
    )
    cubic_alpha: Float = field(-0.5, doc="The coefficient of cubic.")
    cubic_exclude: Int = field(0, doc="Whether cubic leaves out elements outside of the data.")
    extrapolation_value: Float = field(0.0, doc="The value outside of the data in tf_crop_and_resize.")
    out_dtype: DType = field("", script=None, doc="Data type of the result; that of the data where it is empty.")


# For each number of spatial axes, where in the region of interest the start and the end of each axis stand. Relay gave
# a region in the order of the axes, but one of volumes from the last axis to the first.
_REGION = {1: [(0, 1)], 2: [(0, 2), (1, 3)], 3: [(2, 5), (1, 4), (0, 3)]}


def _resized_type(attrs: ResizeAttrs, data: Type, size: Sequence[Dim]) -> TensorType:
    source = require_tensor(data, "data")
    axes = pool_axes(attrs.layout, attrs.rank, source)
    Interpolation.of(attrs)
    made = dict(zip(SPATIAL[attrs.rank], size, strict=True))
    shape = [made.get(a, d) for a, d in zip(axes, source.shape, strict=True)]
    return TensorType(shape, attrs.out_dtype or source.dtype)


def _size(attrs: ResizeAttrs) -> list[Dim]:
    size = list(attrs.size or ())
    if len(size) != attrs.rank:
        raise TypeCheckError(f"size must have {attrs.rank} values, not {len(size)}: {size}")
    if any(isinstance(s, int) and s < 0 for s in size):
        raise TypeCheckError(f"size must not be negative: {size}")
    return size


def _region(attrs: ResizeAttrs) -> list[float]:
    count = 2 * attrs.rank
    region = [float(r) for r in attrs.roi or (0.0,) * count]
    if len(region) != count:
        raise TypeCheckError(f"roi must have {count} values, not {len(region)}: {region}")
    return region


def _resize(
    context: LowerContext,
    attrs: ResizeAttrs,
    data: relax.Expr,
    target: Sequence[Dim],
    region: list[float] | relax.Expr,
) -> relax.Expr:
    """Return the resized data; `region` is a list of numbers, or a lowered tensor of them."""
    spatial = SPATIAL[attrs.rank]
    axes = pool_axes(attrs.layout, attrs.rank, TensorType(context.shape(data), str(data.ty.dtype)))
    require_pixels(context, ordered(context.shape(data), axes, spatial), target)
    how = Interpolation.of(attrs)
    wide = wide_type(str(data.ty.dtype))
    tensors = [] if isinstance(region, list) else [region]

    def compute(x: te.Tensor, sizes: list[tirx.Expr], roi: list[te.Tensor]) -> te.Tensor:
        bounds = [
            [roi[0](i).astype(wide) if roi else tirx.const(region[i], wide) for i in pair]
            for pair in _REGION[attrs.rank]
        ]
        return resized(how, x, axes, spatial, sizes, [(b[0], b[1]) for b in bounds], attrs.out_dtype)

    return context.te(compute, data, [dims.as_expr(t) for t in target], tensors)


def _make(rank: int, data: Expr, size: Dims | Expr, roi: Floats | Expr | None, **values: Any) -> Expr:
    """Return a resizing: a size or region that is an expression makes the operator that reads both at run time."""
    name = f"image.resize{rank}d"
    roi = (0.0,) * (2 * rank) if roi is None else roi
    if isinstance(size, Constant):
        size = size.data.numpy().tolist()
    if isinstance(roi, Constant):
        roi = roi.data.numpy().tolist()
    if not isinstance(size, Expr) and not isinstance(roi, Expr):
        return entry(name).call(data, size=size, roi=roi, **values)
    if rank != 2:
        raise TypeCheckError(f"{name}: size and roi cannot be read at run time; only image.resize2d can do that")
    size = size if isinstance(size, Expr) else const(size, "int64")
    roi = roi if isinstance(roi, Expr) else const(list(roi), "float32")
    return entry("dyn.image.resize2d").call(data, size, roi, size=[], roi=[], **values)


class _Resize:
    @staticmethod
    def relation(attrs: ResizeAttrs, data: Type) -> Type:
        _region(attrs)
        return _resized_type(attrs, data, _size(attrs))

    @staticmethod
    def lower(context: LowerContext, attrs: ResizeAttrs, data: relax.Expr) -> relax.Expr:
        return _resize(context, attrs, data, context.dims(_size(attrs)), _region(attrs))


def _resize_operator(rank: int, doc: str) -> None:
    register = operator(
        f"image.resize{rank}d",
        "data",
        attrs=ResizeAttrs.over(rank),
        level=5,
        pattern=OpPattern.INJECTIVE,
        mixed="follow" if rank == 2 else None,
        layout="layout",
    )
    register(type(f"Resize{rank}D", (_Resize,), {"__doc__": doc, "make": staticmethod(partial(_make, rank))}))


_resize_operator(1, "Sequences resized to size, which is (width).")
_resize_operator(
    2, "Images resized to size, which is (height, width). A size that is an expression is read at run time."
)
_resize_operator(3, "Volumes resized to size, which is (depth, height, width).")


@operator("dyn.image.resize2d", "data", "size", "roi", attrs=ResizeAttrs.over(2), level=5, pattern=OpPattern.OPAQUE)
class DynResize2D:
    """Images resized to a size and from a region of interest that are read at run time."""

    build = staticmethod(entry("image.resize2d").builder)

    @staticmethod
    def relation(attrs: ResizeAttrs, data: Type, size: Type, roi: Type) -> Type:
        wanted, region = require_tensor(size, "size"), require_tensor(roi, "roi")
        if len(wanted.shape) != 1 or wanted.shape[0] != 2:
            raise TypeCheckError(f"size must be a vector of two elements, not {wanted}")
        if len(region.shape) != 1 or not region.dtype.startswith("float"):
            raise TypeCheckError(f"roi must be a float vector, not {region}")
        return _resized_type(attrs, data, [AnyDim(), AnyDim()])

    @staticmethod
    def lower(
        context: LowerContext, attrs: ResizeAttrs, data: relax.Expr, size: relax.Expr, roi: relax.Expr
    ) -> relax.Expr:
        if attrs.coordinate_transformation_mode != "tf_crop_and_resize":
            return _resize(context, attrs, data, read_shape(context, size), [0.0] * 4)
        (length,) = context.shape(roi)
        context.require_equal(length, 4, "dyn.image.resize2d: roi must have {expected} values, not {actual}")
        return _resize(context, attrs, data, read_shape(context, size), roi)


@attrs_node("relay.attrs.CropAndResizeAttrs")
class CropAndResizeAttrs(Attrs):
    """Attributes of image.crop_and_resize."""

    crop_size: Dims | None = field(None, script=REQUIRED, doc="Height and width of the result.")
    layout: Str = field("NCHW", doc="Order of the data's axes.")
    method: Str = field("bilinear", doc="bilinear or nearest_neighbor.")
    extrapolation_value: Float = field(0.0, doc="The value outside of the image.")
    out_dtype: DType = field("", script=None, doc="Data type of the result; that of the data where it is empty.")


@operator(
    "image.crop_and_resize",
    "data",
    "boxes",
    "box_indices",
    attrs=CropAndResizeAttrs,
    level=5,
    pattern=OpPattern.INJECTIVE,
    layout="own",
)
class CropAndResize:
    """Boxes cut out of images and resized to crop_size.

    boxes holds (y1, x1, y2, x2) from 0 to 1 for each box, box_indices the image it is cut out of; an index that is no
    image means the nearest one.
    """

    @staticmethod
    def relation(attrs: CropAndResizeAttrs, data: Type, boxes: Type, box_indices: Type) -> Type:
        source, corners = require_tensor(data, "data"), require_tensor(boxes, "boxes")
        indices = require_tensor(box_indices, "box_indices")
        axes = require_layout(attrs.layout, "NCHW", "layout")
        require_rank(source, 4, "data")
        size = list(attrs.crop_size or ())
        if len(size) != 2:
            raise TypeCheckError(f"crop_size must have 2 values, not {len(size)}: {size}")
        if attrs.method not in ("bilinear", "nearest_neighbor"):
            raise TypeCheckError(f"method must be bilinear or nearest_neighbor, not {attrs.method!r}")
        if len(corners.shape) != 2 or dims.equal(corners.shape[1], 4) is False:
            raise TypeCheckError(f"boxes must have shape (number of boxes, 4), not {corners}")
        if len(indices.shape) != 1 or dims.equal(indices.shape[0], corners.shape[0]) is False:
            raise TypeCheckError(f"box_indices must be a vector with an element for each box, not {indices}")
        if not indices.dtype.startswith(("int", "uint")):
            raise TypeCheckError(f"box_indices must be integers, not {indices}")
        channels = ordered(source.shape, axes, "C")
        made = [corners.shape[0], *channels, *size]
        return TensorType(ordered(made, "NCHW", axes), attrs.out_dtype or source.dtype)

    @staticmethod
    def lower(
        context: LowerContext, attrs: CropAndResizeAttrs, data: relax.Expr, boxes: relax.Expr, box_indices: relax.Expr
    ) -> relax.Expr:
        name = context.operator
        batch, _, *sizes = ordered(context.shape(data), attrs.layout, "NCHW")
        count, width = context.shape(boxes)
        (have,) = context.shape(box_indices)
        context.require_equal(width, 4, f"{name}: a box has {{expected}} numbers, not {{actual}}")
        context.require_equal(have, count, f"{name}: there are {{actual}} box indices for {{expected}} boxes")
        target = context.dims(list(attrs.crop_size or ()))
        require_pixels(context, [batch, *sizes], [count, *target])
        size = [dims.as_expr(t) for t in target]
        return context.te(lambda *v: _crop(attrs, *v), data, boxes, box_indices, size)


def _crop(
    attrs: CropAndResizeAttrs, data: te.Tensor, boxes: te.Tensor, box_indices: te.Tensor, target: list[tirx.Expr]
) -> te.Tensor:
    method = "linear" if attrs.method == "bilinear" else attrs.method
    how = Interpolation(method, "tf_crop_and_resize", "round", extrapolation=attrs.extrapolation_value)
    batch, channels, *sizes = ordered(data.shape, attrs.layout, "NCHW")
    dtype = str(data.dtype)
    wide = wide_type(dtype)

    def region(axis: int) -> Callable[..., tuple[tirx.Expr, tirx.Expr]]:
        return lambda box: (boxes(box, axis).astype(wide), boxes(box, axis + 2).astype(wide))

    count = boxes.shape[0]
    resizings = [resized_axis(how, sizes[a], target[a], wide, region(a), [count]) for a in range(2)]

    def element(*index: tirx.Expr) -> tirx.Expr:
        box, c, y, x = ordered(index, attrs.layout, "NCHW")
        image = inside(box_indices(box).astype("int64"), batch)

        def read(positions: list[tirx.Expr]) -> tirx.Expr:
            return data(*ordered([image, c, *positions], "NCHW", attrs.layout))

        places = [(resizings[0], [box, y]), (resizings[1], [box, x])]
        return interpolated(how, read, places, wide, attrs.out_dtype or dtype)

    shape = ordered([count, channels, *target], "NCHW", attrs.layout)
    return te.compute(shape, element, name="crop_and_resize")
