"""One axis of a tensor resized by a scale that is read at run time.

Interpolation is separable: to resize several axes, resize one after the other. Where pixels lie follows the operator
Resize of ONNX, version 19, in which the scale and the size of the result are two things: the size is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import Any as AnyDim
from ..ir.types import TensorType, Type
from .attrs import Attrs, Bool, Dim, Float, Int, Str, attrs_node
from .axis import resolve_axis
from .create import read_shape
from .elementwise import require_tensor
from .index import require_integers
from .interpolate import AxisTaps, Interpolation, require_pixels
from .kernel import const, grid, loops
from .registry import OpPattern, operator
from .shape import reshape_value

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []

_WIDE = "float64"  # of coordinates and weights
_TOGETHER = 16  # elements of a line that are filtered together
_MODES = (
    "half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)  # fmt: skip


@attrs_node("relay.attrs.ContribResizeAxisAttrs")
class ResizeAxisAttrs(Attrs):
    """Attributes of image.contrib_resize_axis; size is Any where it is to be read from the input."""

    axis: Int
    size: Dim
    method: Str = "linear"
    coordinate_transformation_mode: Str = "half_pixel"
    rounding_method: Str = ""
    cubic_alpha: Float = -0.75
    cubic_exclude: Int = 0
    extrapolation_value: Float = 0.0
    antialias: Bool = False


@operator(
    "image.contrib_resize_axis", "data", "new_size", "placement",
    attrs=ResizeAxisAttrs, level=5, pattern=OpPattern.OPAQUE, layout="axis",
)  # fmt: skip
class ResizeAxis:
    """The input with one axis resized.

    new_size holds one number; placement is float64 (scale, exact length, start, end): the factor, the factor times the
    old size before it is rounded, and the region for tf_crop_and_resize. With antialias, what is made smaller is
    filtered by a kernel that is as much wider.
    """

    @staticmethod
    def relation(attrs: ResizeAxisAttrs, data: Type, size: Type, placement: Type) -> Type:
        source, wanted, places = require_tensor(data), require_integers(size, "size"), require_tensor(placement)
        axis = resolve_axis(attrs.axis, len(source.shape))
        _way(attrs)
        if list(wanted.shape) != [1]:
            raise TypeCheckError(f"size must be a vector of one element, not {wanted}")
        if list(places.shape) != [4] or places.dtype != _WIDE:
            raise TypeCheckError(f"placement must be a vector of four {_WIDE}, not {places}")
        if attrs.method != "nearest_neighbor" and source.dtype not in ("float32", "float64"):
            raise TypeCheckError(f"only float32 and float64 are interpolated, not {source.dtype}; cast the input")
        shape = list(source.shape)
        shape[axis] = AnyDim() if dims.is_any(attrs.size) else attrs.size
        return TensorType(shape, source.dtype)

    @staticmethod
    def lower(
        context: LowerContext, attrs: ResizeAxisAttrs, data: relax.Expr, size: relax.Expr, placement: relax.Expr
    ) -> relax.Expr:
        shape = context.shape(data)
        axis = resolve_axis(attrs.axis, len(shape))
        (target,) = read_shape(context, size) if dims.is_any(attrs.size) else context.dims([attrs.size])
        require_pixels(context, [shape[axis]], [target])
        result = [*shape[:axis], target, *shape[axis + 1 :]]
        if len(shape) - axis <= 2:
            return _along(context, attrs, data, placement, axis, result)
        # All behind the axis is one line, however short its own lines are.
        line = dims.product(shape[axis + 1 :])
        flat = reshape_value(context, data, [*shape[: axis + 1], line])
        made = _along(context, attrs, flat, placement, axis, [*shape[:axis], target, line])
        return reshape_value(context, made, result)


def _along(
    context: LowerContext,
    attrs: ResizeAxisAttrs,
    data: relax.Expr,
    placement: relax.Expr,
    axis: int,
    whole: Sequence[Dim],
) -> relax.Expr:
    """Return a tensor of a shape that differs along an axis."""
    if attrs.antialias and attrs.method != "nearest_neighbor":
        return _filtered(context, attrs, data, placement, axis, whole)
    how = _way(attrs)

    def compute(x: te.Tensor, places: te.Tensor, result: list[tirx.Expr]) -> te.Tensor:
        extent = x.shape[axis]
        coordinate = te.compute(
            [result[axis]], lambda i: _coordinate(attrs, i, extent, result[axis], places), "coordinates"
        )
        taps = AxisTaps.around(
            coordinate, lambda at: how.taps(at, extent), lambda p: tirx.max(tirx.min(p, extent - 1), 0)
        )

        def element(*i: tirx.Var) -> tirx.Expr:
            at = [i[axis]]
            read = [x(*i[:axis], taps.position(at, k), *i[axis + 1 :]) for k in range(taps.count)]
            if taps.weight is None:
                value = read[0]
            else:
                terms = [r * taps.weight(at, k).astype(str(x.dtype)) for k, r in enumerate(read)]
                value = sum(terms[1:], terms[0])
            return _bounded(attrs, coordinate(i[axis]), extent, value)

        return te.compute(result, element, name="resize_axis")

    return context.te(compute, data, placement, [dims.as_expr(d) for d in whole])


def _way(attrs: ResizeAxisAttrs) -> Interpolation:
    if attrs.coordinate_transformation_mode not in _MODES:
        raise TypeCheckError(
            f"coordinate_transformation_mode must be one of {', '.join(_MODES)}, not "
            f"{attrs.coordinate_transformation_mode!r}"
        )
    if attrs.method not in ("nearest_neighbor", "linear", "cubic"):
        raise TypeCheckError(f"method must be nearest_neighbor, linear or cubic, not {attrs.method!r}")
    mode = attrs.coordinate_transformation_mode
    rounding = attrs.rounding_method or "round_prefer_floor"
    return Interpolation(attrs.method, mode, rounding, attrs.cubic_alpha, bool(attrs.cubic_exclude))


def _number(value: float) -> tirx.Expr:
    return tirx.const(value, _WIDE)


def _coordinate(
    attrs: ResizeAxisAttrs,
    index: tirx.Expr,
    extent: tirx.Expr,
    target: tirx.Expr,
    placement: te.Tensor | tirx.Buffer,
) -> tirx.Expr:
    """Return where in the source an index of the result lies."""
    x, size, half = index.astype(_WIDE), extent.astype(_WIDE), _number(0.5)
    scale, length, start, end = (placement[const(k)] for k in range(4))
    is_one = length == _number(1)
    steps = tirx.Select(is_one, _number(1), length - _number(1))
    match attrs.coordinate_transformation_mode:
        case "half_pixel":
            return (x + half) / scale - half
        case "half_pixel_symmetric":
            # The result is rounded to whole pixels: its middle stays on that of the source.
            rounded = target.astype(_WIDE)
            return size * half * (_number(1) - rounded / length) + (x + half) / scale - half
        case "align_corners":
            return tirx.Select(is_one, _number(0), x * (size - 1) / steps)
        case "asymmetric":
            return x / scale
        case "pytorch_half_pixel":
            return tirx.Select(length > _number(1), (x + half) / scale - half, _number(0))
        case "tf_half_pixel_for_nn":
            return (x + half) / scale
    spread = tirx.Select(is_one, (end - start) * (size - 1) * half, x * (end - start) * (size - 1) / steps)
    return spread + start * (size - 1)


def _bounded(attrs: ResizeAxisAttrs, coordinate: tirx.Expr, extent: tirx.Expr, value: tirx.Expr) -> tirx.Expr:
    """Return a pixel, or the value that stands for what lies outside where a region is cropped."""
    if attrs.coordinate_transformation_mode != "tf_crop_and_resize":
        return value
    outside = tirx.any(coordinate < 0, coordinate > (extent - 1).astype(_WIDE))
    return tirx.Select(outside, tirx.const(attrs.extrapolation_value, str(value.ty.dtype)), value)


def _filtered(
    context: LowerContext,
    attrs: ResizeAxisAttrs,
    data: relax.Expr,
    placement: relax.Expr,
    axis: int,
    whole: Sequence[Dim],
) -> relax.Expr:
    """Return the result through a kernel whose width is that of a pixel of the result, if this is the larger one."""
    dtype, radius = str(data.ty.dtype), 1 if attrs.method == "linear" else 2
    alpha, one = _number(attrs.cubic_alpha), _number(1)

    def weight(distance: tirx.Expr) -> tirx.Expr:
        d = tirx.abs(distance)
        if attrs.method == "linear":
            return tirx.max(one - d, _number(0))
        near = ((alpha + 2) * d - (alpha + 3)) * d * d + one
        far = ((alpha * d - 5 * alpha) * d + 8 * alpha) * d - 4 * alpha
        return tirx.Select(d <= one, near, tirx.Select(d < _number(2), far, _number(0)))

    def body(outputs: list[tirx.Buffer], x: tirx.Buffer, places: tirx.Buffer, sizes: list[tirx.Expr]) -> None:
        out, shares, sums = outputs
        extent = x.shape[axis]
        last = extent - 1
        # What a position weighs is the same in all lines, so lines go within the positions.
        with grid([sizes[axis]]) as (i,):
            at = T.bind(_coordinate(attrs, i, extent, sizes[axis], places))
            scale = T.bind(tirx.min(places[const(0)], one))
            reach = T.bind(_number(radius) / scale)
            # Where the kernel is not 0, which it is at its ends.
            first = T.bind(tirx.floor(at - reach).astype("int64") + 1)
            end = T.bind(tirx.ceil(at + reach).astype("int64"))
            begin = T.bind(tirx.max(tirx.min(first, last), const(0)))
            count = T.bind(tirx.max(tirx.min(end - 1, last), const(0)) - begin + 1)
            with grid([count]) as (k,):
                T.buffer_store(shares, _number(0), [k])
            T.buffer_store(sums, _number(0), [0])
            with grid([end - first]) as (k,):
                position = T.bind(first + k)
                share = T.bind(weight((position.astype(_WIDE) - at) * scale))
                inside = tirx.all(position >= 0, position < extent)
                with T.If(inside if attrs.cubic_exclude else tirx.const(True)), T.Then():
                    place = T.bind(tirx.max(tirx.min(position, last), const(0)) - begin)
                    T.buffer_store(shares, shares[place] + share, [place])
                    T.buffer_store(sums, sums[0] + share, [0])
            total = T.bind(sums[0])
            with grid([count]) as (k,):
                T.buffer_store(shares, shares[k] / total, [k])

            def line(before: Sequence[tirx.Expr], after: Sequence[tirx.Expr], width: int) -> None:
                """Write so many elements beside each other: the sums of what is read, weighted."""
                with T.vectorized(const(width)) as lane:
                    T.buffer_store(sums, _number(0), [lane])
                with grid([count]) as (k,):
                    share = T.bind(shares[k])
                    with T.vectorized(const(width)) as lane:
                        read = (*before, begin + k, *_moved(after, lane))
                        value = x[read].astype(_WIDE)
                        T.buffer_store(sums, sums[lane] + share * value, [lane])
                with T.vectorized(const(width)) as lane:
                    mean = _bounded(attrs, at, extent, sums[lane].astype(dtype))
                    T.buffer_store(out, mean, (*before, i, *_moved(after, lane)))

            *inner, along = sizes[axis + 1 :] or [const(1)]
            with grid([*sizes[:axis], *inner]) as others:
                before, after = others[:axis], others[axis:]
                if axis == len(sizes) - 1:
                    line(before, (), 1)
                    return
                with grid([along // _TOGETHER]) as (block,):
                    line(before, (*after, block * _TOGETHER), _TOGETHER)
                with grid([along % _TOGETHER]) as (rest,):
                    line(before, (*after, along // _TOGETHER * _TOGETHER + rest), 1)

    sizes = [dims.as_expr(d) for d in whole]
    results = [(whole, dtype), ([context.shape(data)[axis]], _WIDE), ([_TOGETHER], _WIDE)]
    return loops(context, results, body, data, placement, sizes, name="resize_filtered")[0]


def _moved(index: Sequence[tirx.Expr], by: tirx.Expr) -> tuple[tirx.Expr, ...]:
    """Return an index so much further along its last axis; that of an axis without others stays."""
    return (*index[:-1], index[-1] + by) if index else ()
