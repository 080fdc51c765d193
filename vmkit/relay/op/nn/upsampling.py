"""Upsampling: images and volumes resized by factors."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Constant, Expr, const
from ...ir.types import Any as AnyDim
from ...ir.types import TensorType, Type
from ..attrs import Attrs, Bool, Dim, Float, Str, attrs_node, attrs_row, field
from ..elementwise import require_tensor
from ..interpolate import Interpolation, require_pixels, resized
from ..kernel import chosen
from ..registry import OpPattern, entry, operator
from .layout import SPATIAL, ordered
from .pooling import pool_axes

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []

_METHODS = {
    2: {"nearest_neighbor": "nearest_neighbor", "bilinear": "linear", "bicubic": "cubic"},
    3: {"nearest_neighbor": "nearest_neighbor", "trilinear": "linear"},
}


@attrs_row
class ScaleAttrs(Attrs):
    """What the upsamplings have in common."""

    scale_h: Float = field(script=1, doc="Factor of the height.")
    scale_w: Float = field(script=1, doc="Factor of the width.")
    layout: Str = field("NCHW", doc="Order of the data's axes.")
    method: Str = field("nearest_neighbor", doc="nearest_neighbor, bilinear or bicubic.")


@attrs_node("relay.attrs.UpSamplingAttrs")
class UpSamplingAttrs(ScaleAttrs):
    """Attributes of nn.upsampling and dyn.nn.upsampling."""

    align_corners: Bool = field(False, doc="Whether the corners of data and result lie on each other.")


@attrs_node("relay.attrs.UpSampling3DAttrs")
class UpSampling3DAttrs(ScaleAttrs):
    """Attributes of nn.upsampling3d and dyn.nn.upsampling3d."""

    scale_d: Float = field(script=1, doc="Factor of the depth.", first=True)
    layout: Str = field("NCDHW", doc="Order of the data's axes.")
    method: Str = field("nearest_neighbor", doc="nearest_neighbor or trilinear.")
    coordinate_transformation_mode: Str = field("half_pixel", doc="half_pixel, align_corners or asymmetric.")


def _way(attrs: ScaleAttrs, rank: int) -> Interpolation:
    """Return how the attributes say that pixels are interpolated."""
    method = _METHODS[rank].get(attrs.method)
    if method is None:
        raise TypeCheckError(f"method must be one of {', '.join(_METHODS[rank])}, not {attrs.method!r}")
    if isinstance(attrs, UpSamplingAttrs):
        return Interpolation(method, "align_corners" if attrs.align_corners else "asymmetric")
    modes = ("half_pixel", "align_corners", "asymmetric")
    if attrs.coordinate_transformation_mode not in modes:
        raise TypeCheckError(
            f"coordinate_transformation_mode must be one of {', '.join(modes)}, not "
            f"{attrs.coordinate_transformation_mode!r}"
        )
    return Interpolation(method, attrs.coordinate_transformation_mode)


def _scales(attrs: ScaleAttrs, rank: int) -> list[float]:
    scales = [getattr(attrs, f"scale_{letter.lower()}") for letter in SPATIAL[rank]]
    if any(not s > 0 for s in scales):
        raise TypeCheckError(f"the scales must be positive, not {scales}")
    return scales


def _scaled(size: Dim, scale: float) -> Dim:
    """Return a size times a factor, rounded to the nearest, in whole numbers."""
    ratio = Fraction(scale).limit_denominator(1 << 16)
    p, q = ratio.numerator, ratio.denominator
    return dims.mul(size, p) if q == 1 else dims.floordiv(dims.add(dims.mul(size, 2 * p), q), 2 * q)


def _type(attrs: ScaleAttrs, rank: int, data: Type, sizes: Sequence[Dim] | None) -> Type:
    source = require_tensor(data, "data")
    axes = pool_axes(attrs.layout, rank, source)
    _way(attrs, rank)
    if sizes is None:
        have = ordered(source.shape, axes, SPATIAL[rank])
        sizes = [_scaled(d, s) for d, s in zip(have, _scales(attrs, rank), strict=True)]
    made = dict(zip(SPATIAL[rank], sizes, strict=True))
    return TensorType([made.get(a, d) for a, d in zip(axes, source.shape, strict=True)], source.dtype)


def _resize(
    context: LowerContext,
    attrs: ScaleAttrs,
    rank: int,
    data: relax.Expr,
    axes: str,
    target: Sequence[Dim],
) -> relax.Expr:
    require_pixels(context, ordered(context.shape(data), axes, SPATIAL[rank]), target)
    how = _way(attrs, rank)
    nowhere = [(tirx.const(0.0, "float32"),) * 2] * rank

    def compute(x: te.Tensor, sizes: list[Any]) -> te.Tensor:
        return resized(how, x, axes, SPATIAL[rank], sizes, nowhere, "")

    return context.te(compute, data, [dims.as_expr(t) for t in target], pattern=OpPattern.INJECTIVE)


def _make(name: str, rank: int, data: Expr, **values: Any) -> Expr:
    """Return an upsampling: scales that are expressions make the dynamic operator."""
    names = [f"scale_{letter.lower()}" for letter in SPATIAL[rank]]
    scales = [values.pop(n) for n in names]
    scales = [s.data.numpy().item() if isinstance(s, Constant) else s for s in scales]
    if not any(isinstance(s, Expr) for s in scales):
        return entry(f"nn.{name}").call(data, **dict(zip(names, scales, strict=True)), **values)
    operands = [s if isinstance(s, Expr) else const(s, "float32") for s in scales]
    return entry(f"dyn.nn.{name}").call(data, *operands, **dict.fromkeys(names, 0.0), **values)


def _upsampling(name: str, rank: int, attrs: type[Attrs], doc: str) -> None:
    """Register an upsampling and the form of it that reads its scales at run time."""

    def lower(context: LowerContext, attrs: ScaleAttrs, data: relax.Expr) -> relax.Expr:
        axes = pool_axes(attrs.layout, rank, TensorType(context.shape(data), str(data.ty.dtype)))
        have = ordered(context.shape(data), axes, SPATIAL[rank])
        target = [_scaled(d, s) for d, s in zip(have, _scales(attrs, rank), strict=True)]
        return _resize(context, attrs, rank, data, axes, target)

    def relation_at_run_time(attrs: ScaleAttrs, data: Type, *scales: Type) -> Type:
        for scale in scales:
            value = require_tensor(scale, "a scale")
            if len(value.shape) or not value.dtype.startswith("float"):
                raise TypeCheckError(f"a scale must be a float scalar, not {value}")
        return _type(attrs, rank, data, [AnyDim()] * rank)

    def lower_at_run_time(
        context: LowerContext, attrs: ScaleAttrs, data: relax.Expr, *scales: relax.Expr
    ) -> relax.Expr:
        axes = pool_axes(attrs.layout, rank, TensorType(context.shape(data), str(data.ty.dtype)))
        have = ordered(context.shape(data), axes, SPATIAL[rank])
        target = context.read_dims(
            context.te(_scaled_sizes, [dims.as_expr(d) for d in have], list(scales), name="upsampled_sizes")
        )
        return _resize(context, attrs, rank, data, axes, target)

    body = {
        "__doc__": doc,
        "make": staticmethod(partial(_make, name, rank)),
        "relation": staticmethod(lambda attrs, data: _type(attrs, rank, data, None)),
        "lower": staticmethod(lower),
    }
    operator(f"nn.{name}", "data", attrs=attrs, level=2, pattern=OpPattern.INJECTIVE, layout="layout")(
        type(name, (), body)
    )
    body = {
        "__doc__": doc + " The scales are read at run time.",
        "build": staticmethod(entry(f"nn.{name}").builder),
        "relation": staticmethod(relation_at_run_time),
        "lower": staticmethod(lower_at_run_time),
    }
    inputs = [f"scale_{letter.lower()}" for letter in SPATIAL[rank]]
    operator(f"dyn.nn.{name}", "data", *inputs, attrs=attrs, level=2)(type(name, (), body))


def _scaled_sizes(sizes: list[Any], scales: list[te.Tensor]) -> te.Tensor:
    """Return sizes times scales, rounded to the nearest; a scale below 0 makes 0."""
    wide = "float64"
    made = [
        tirx.max(tirx.floor(s.astype(wide) * scale().astype(wide) + tirx.const(0.5, wide)), tirx.const(0.0, wide))
        for s, scale in zip(sizes, scales, strict=True)
    ]
    return te.compute((len(sizes),), lambda i: chosen(i, made).astype("int64"), name="sizes")


_upsampling("upsampling", 2, UpSamplingAttrs, "Images resized by a factor for each spatial axis.")
_upsampling("upsampling3d", 3, UpSampling3DAttrs, "Volumes resized by a factor for each spatial axis.")
