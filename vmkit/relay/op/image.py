"""Operators on images: resizing, cropping, sampling at points of a grid, morphology."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Constant, Expr, const
from ..ir.types import Any as AnyDim
from ..ir.types import TensorType, Type
from .attrs import Attrs, Dim, Dims, DType, Float, Floats, Int, Nested, Str, attrs_node
from .create import read_shape
from .elementwise import require_tensor
from .interpolate import Interpolation, interpolated, require_pixels, resized, resized_axis, wide_type
from .kernel import inside
from .nn.layout import SPATIAL, ordered, require_layout, require_rank
from .nn.pooling import pool_axes
from .registry import OpPattern, entry, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.Resize1DAttrs")
class Resize1DAttrs(Attrs):
    """Attributes of image.resize1d."""

    size: Dims | None = None
    roi: Nested | None = None
    layout: Str = "NCW"
    method: Str = "linear"
    coordinate_transformation_mode: Str = "half_pixel"
    rounding_method: Str = "round"
    cubic_alpha: Float = -0.5
    cubic_exclude: Int = 0
    extrapolation_value: Float = 0.0
    out_dtype: DType = ""


@attrs_node("relay.attrs.Resize2DAttrs")
class Resize2DAttrs(Attrs):
    """Attributes of image.resize2d and dyn.image.resize2d."""

    size: Dims | None = None
    roi: Nested | None = None
    layout: Str = "NCHW"
    method: Str = "linear"
    coordinate_transformation_mode: Str = "half_pixel"
    rounding_method: Str = "round"
    cubic_alpha: Float = -0.5
    cubic_exclude: Int = 0
    extrapolation_value: Float = 0.0
    out_dtype: DType = ""


@attrs_node("relay.attrs.Resize3DAttrs")
class Resize3DAttrs(Attrs):
    """Attributes of image.resize3d."""

    size: Dims | None = None
    roi: Nested | None = None
    layout: Str = "NCDHW"
    method: Str = "linear"
    coordinate_transformation_mode: Str = "half_pixel"
    rounding_method: Str = "round"
    cubic_alpha: Float = -0.5
    cubic_exclude: Int = 0
    extrapolation_value: Float = 0.0
    out_dtype: DType = ""


ResizeAttrs: TypeAlias = Resize1DAttrs | Resize2DAttrs | Resize3DAttrs

# For each number of spatial axes, where in the region of interest the start and the end of each axis stand. Relay gave
# a region in the order of the axes, but one of volumes from the last axis to the first.
_REGION = {1: [(0, 1)], 2: [(0, 2), (1, 3)], 3: [(2, 5), (1, 4), (0, 3)]}


def _resized_type(attrs: ResizeAttrs, rank: int, data: Type, size: Sequence[Dim]) -> TensorType:
    source = require_tensor(data, "data")
    axes = pool_axes(attrs.layout, rank, source)
    Interpolation.of(attrs)
    made = dict(zip(SPATIAL[rank], size, strict=True))
    shape = [made.get(a, d) for a, d in zip(axes, source.shape, strict=True)]
    return TensorType(shape, attrs.out_dtype or source.dtype)


def _size(attrs: ResizeAttrs, rank: int) -> list[Dim]:
    size = list(attrs.size or ())
    if len(size) != rank:
        raise TypeCheckError(f"size must have {rank} values, not {len(size)}: {size}")
    if any(isinstance(s, int) and s < 0 for s in size):
        raise TypeCheckError(f"size must not be negative: {size}")
    return size


def _region(attrs: ResizeAttrs, rank: int) -> list[float]:
    region = [float(r) for r in attrs.roi or (0.0,) * (2 * rank)]
    if len(region) != 2 * rank:
        raise TypeCheckError(f"roi must have {2 * rank} values, not {len(region)}: {region}")
    return region


def _resize(
    context: LowerContext,
    attrs: ResizeAttrs,
    rank: int,
    data: relax.Expr,
    target: Sequence[Dim],
    region: list[float] | relax.Expr,
) -> relax.Expr:
    """Return the resized data; `region` is a list of numbers, or a lowered tensor of them."""
    axes = pool_axes(attrs.layout, rank, TensorType(context.shape(data), str(data.ty.dtype)))
    require_pixels(context, ordered(context.shape(data), axes, SPATIAL[rank]), target)
    how = Interpolation.of(attrs)
    wide = wide_type(str(data.ty.dtype))
    tensors = [] if isinstance(region, list) else [region]

    def compute(x: te.Tensor, sizes: list[tirx.Expr], roi: list[te.Tensor]) -> te.Tensor:
        bounds = [
            [roi[0](i).astype(wide) if roi else tirx.const(region[i], wide) for i in pair] for pair in _REGION[rank]
        ]
        return resized(how, x, axes, SPATIAL[rank], sizes, [(b[0], b[1]) for b in bounds], attrs.out_dtype)

    return context.te(compute, data, [dims.as_expr(t) for t in target], tensors)


def _resize_builder(rank: int) -> Callable[..., Expr]:
    name = f"image.resize{rank}d"

    def build(
        data: Expr,
        size: Dims | Expr,
        roi: Floats | Expr | None = None,
        layout: str = "NC" + SPATIAL[rank],
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "",
        cubic_alpha: float = -0.5,
        cubic_exclude: int = 0,
        extrapolation_value: float = 0.0,
        out_dtype: str | None = None,
    ) -> Expr:
        values = {
            "layout": layout,
            "method": method,
            "coordinate_transformation_mode": coordinate_transformation_mode,
            "rounding_method": rounding_method,
            "cubic_alpha": cubic_alpha,
            "cubic_exclude": cubic_exclude,
            "extrapolation_value": extrapolation_value,
            "out_dtype": out_dtype,
        }
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

    return build


def _resize_operator(rank: int, attrs: type[Attrs], doc: str) -> None:
    def relation(attrs: ResizeAttrs, data: Type) -> Type:
        _region(attrs, rank)
        return _resized_type(attrs, rank, data, _size(attrs, rank))

    def lower(context: LowerContext, attrs: ResizeAttrs, data: relax.Expr) -> relax.Expr:
        return _resize(context, attrs, rank, data, context.dims(_size(attrs, rank)), _region(attrs, rank))

    body = {
        "__doc__": doc,
        "build": staticmethod(_resize_builder(rank)),
        "relation": staticmethod(relation),
        "lower": staticmethod(lower),
    }
    register = operator(
        f"image.resize{rank}d",
        "data",
        attrs=attrs,
        level=5,
        pattern=OpPattern.INJECTIVE,
        mixed="follow" if rank == 2 else None,
        layout="layout",
    )
    register(type(f"Resize{rank}D", (), body))


_resize_operator(1, Resize1DAttrs, "Sequences resized to size, which is (width).")
_resize_operator(
    2,
    Resize2DAttrs,
    "Images resized to size, which is (height, width). A size that is an expression is read at run time.",
)
_resize_operator(3, Resize3DAttrs, "Volumes resized to size, which is (depth, height, width).")


@operator("dyn.image.resize2d", "data", "size", "roi", attrs=Resize2DAttrs, level=5, pattern=OpPattern.OPAQUE)
class DynResize2D:
    """Images resized to a size and from a region of interest that are read at run time."""

    build = staticmethod(_resize_builder(2))

    @staticmethod
    def relation(attrs: Resize2DAttrs, data: Type, size: Type, roi: Type) -> Type:
        wanted, region = require_tensor(size, "size"), require_tensor(roi, "roi")
        if len(wanted.shape) != 1 or wanted.shape[0] != 2:
            raise TypeCheckError(f"size must be a vector of two elements, not {wanted}")
        if len(region.shape) != 1 or not region.dtype.startswith("float"):
            raise TypeCheckError(f"roi must be a float vector, not {region}")
        return _resized_type(attrs, 2, data, [AnyDim(), AnyDim()])

    @staticmethod
    def lower(
        context: LowerContext, attrs: Resize2DAttrs, data: relax.Expr, size: relax.Expr, roi: relax.Expr
    ) -> relax.Expr:
        if attrs.coordinate_transformation_mode != "tf_crop_and_resize":
            return _resize(context, attrs, 2, data, read_shape(context, size), [0.0] * 4)
        (length,) = context.shape(roi)
        context.require_equal(length, 4, "dyn.image.resize2d: roi must have {expected} values, not {actual}")
        return _resize(context, attrs, 2, data, read_shape(context, size), roi)


@attrs_node("relay.attrs.CropAndResizeAttrs")
class CropAndResizeAttrs(Attrs):
    """Attributes of image.crop_and_resize."""

    crop_size: Dims | None = None
    layout: Str = "NCHW"
    method: Str = "bilinear"
    extrapolation_value: Float = 0.0
    out_dtype: DType = ""


@operator(
    "image.crop_and_resize",
    "data",
    "boxes",
    "box_indices",
    attrs=CropAndResizeAttrs,
    level=5,
    pattern=OpPattern.INJECTIVE,
)
class CropAndResize:
    """Boxes cut out of images and resized to crop_size.

    boxes holds (y1, x1, y2, x2) from 0 to 1 for each box, box_indices the image it is cut out of; an index that is no
    image means the nearest one.
    """

    @staticmethod
    def build(
        data: Expr,
        boxes: Expr,
        box_indices: Expr,
        crop_size: Dims,
        layout: str = "NCHW",
        method: str = "bilinear",
        extrapolation_value: float = 0.0,
        out_dtype: str | None = None,
    ) -> Expr:
        values = {
            "crop_size": crop_size,
            "layout": layout,
            "method": method,
            "extrapolation_value": extrapolation_value,
            "out_dtype": out_dtype,
        }
        return entry("image.crop_and_resize").call(data, boxes, box_indices, **values)

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
