"""Parts of a tensor by the shape of another, by windows, and the writing of a slice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Expr
from ..ir.expr import const as relay_const
from ..ir.types import Dim, TensorType, Type
from .attrs import Attrs, Int, Ints, attrs_node
from .axis import resolve_axes, resolve_axis
from .elementwise import require_tensor
from .kernel import as_index, const, indexed
from .registry import OpPattern, entry, operator
from .slice import clamped_position

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["SliceLike"]


@attrs_node("relay.attrs.SliceLikeAttrs")
class SliceLikeAttrs(Attrs):
    """Attributes of slice_like."""

    axes: Ints | None = None


@operator(
    "slice_like", "data", "shape_like", attrs=SliceLikeAttrs, level=10, pattern=OpPattern.INJECTIVE, layout="slice_like"
)
class SliceLike:
    """The front part of data that is as large as shape_like, along axes or all dimensions."""

    @staticmethod
    def shape(attrs: SliceLikeAttrs, shape: list[Dim], like: list[Dim]) -> list[Dim]:
        if attrs.axes is None and len(like) > len(shape):
            raise TypeCheckError(f"shape_like has {len(like)} dimensions, data {len(shape)}; name the axes")
        result = list(shape)
        axes = resolve_axes(attrs.axes or None, min(len(shape), len(like)) if not attrs.axes else len(shape), "axes")
        for axis in axes:
            if axis >= len(like):
                raise TypeCheckError(f"axis {axis} is sliced, but shape_like has {len(like)} dimensions")
            result[axis] = like[axis]
            if isinstance(like[axis], int) and isinstance(shape[axis], int) and like[axis] > shape[axis]:
                raise TypeCheckError(f"dimension {axis} of shape_like is {like[axis]}, of data only {shape[axis]}")
        return result

    @staticmethod
    def relation(attrs: SliceLikeAttrs, data: Type, shape_like: Type) -> Type:
        source, like = require_tensor(data), require_tensor(shape_like, "shape_like")
        return TensorType(SliceLike.shape(attrs, list(source.shape), list(like.shape)), source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: SliceLikeAttrs, data: relax.Expr, shape_like: relax.Expr) -> relax.Expr:
        have = context.shape(data)
        whole = SliceLike.shape(attrs, have, context.shape(shape_like))
        for axis, (size, dim) in enumerate(zip(whole, have, strict=True)):
            if not dims.equal(size, dim):
                context.require_equal(
                    size,
                    dims.minimum(size, dim),
                    f"slice_like: dimension {axis} of shape_like is {{actual}}, of data only {{expected}}",
                )
        return indexed(context, whole, lambda i, data: data(*i), data)


@operator("strided_set", "data", "v", "begin", "end", "strides", level=4, pattern=OpPattern.INJECTIVE)
class StridedSet:
    """The input with the part between begin and end, with strides, replaced by v."""

    @staticmethod
    def build(data: Expr, v: Expr, begin: Expr, end: Expr, strides: Expr | None = None) -> Expr:
        strides = relay_const([1], "int32") if strides is None else strides
        return entry("strided_set").call(data, v, begin, end, strides)

    @staticmethod
    def relation(attrs: None, data: Type, v: Type, begin: Type, end: Type, strides: Type) -> Type:
        source, values = require_tensor(data), require_tensor(v, "v")
        if source.dtype != values.dtype or len(source.shape) != len(values.shape):
            raise TypeCheckError(f"v {values} must have the data type and the number of dimensions of data {source}")
        for ty, name in ((begin, "begin"), (end, "end"), (strides, "strides")):
            vector = require_tensor(ty, name)
            if len(vector.shape) != 1 or not isinstance(vector.shape[0], int) or not vector.dtype.startswith("int"):
                raise TypeCheckError(f"{name} must be a vector of integers of known length, not {vector}")
        return source

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: relax.Expr, v: relax.Expr, *vectors: relax.Expr) -> relax.Expr:
        counts = [context.shape(w)[0] for w in vectors]

        def element(i: tuple[tirx.Expr, ...], data: te.Tensor, v: te.Tensor, *vectors: te.Tensor) -> tirx.Expr:
            index, within = [], []
            for k, dim in enumerate(data.shape):
                begin, end, step = (as_index(w(k)) if k < n else None for w, n in zip(vectors, counts, strict=True))
                step = const(1) if step is None else step
                width = tirx.max(tirx.abs(step), const(1))
                begin = (
                    tirx.Select(step > 0, const(0), dim - 1) if begin is None else clamped_position(begin, step, dim)
                )
                end = tirx.Select(step > 0, dim, const(-1)) if end is None else clamped_position(end, step, dim)
                away = tirx.Select(step > 0, i[k] - begin, begin - i[k])
                length = tirx.Select(step > 0, end - begin, begin - end)
                index.append(tirx.floordiv(away, width))
                # v may be smaller than the slice; nothing outside it is read.
                within += [away >= 0, away < length, tirx.floormod(away, width) == 0, index[-1] < v.shape[k]]
            return tirx.if_then_else(tirx.all(*within), v(*index), data(*i)) if within else v()

        return indexed(context, context.shape(data), element, data, v, *vectors)


@attrs_node("relay.attrs.SlidingWindowAttrs")
class SlidingWindowAttrs(Attrs):
    """Attributes of sliding_window."""

    axis: Int
    window_shape: Ints
    strides: Ints


@operator("sliding_window", "data", attrs=SlidingWindowAttrs, level=3, pattern=OpPattern.OPAQUE)
class SlidingWindow:
    """Every window of a shape over the dimensions from axis on, each a strided view."""

    @staticmethod
    def shape(attrs: SlidingWindowAttrs, shape: list[Dim]) -> list[Dim]:
        axis, window, strides = resolve_axis(attrs.axis, len(shape)), list(attrs.window_shape), list(attrs.strides)
        if not len(window) == len(strides) == len(shape) - axis or min([*window, *strides], default=1) < 1:
            raise TypeCheckError(
                f"window_shape {window} and strides {strides} must give a positive number "
                f"for each of the {len(shape) - axis} dimensions from axis {attrs.axis} on"
            )
        counts = []
        for dim, width, step in zip(shape[axis:], window, strides, strict=True):
            if isinstance(dim, int) and dim < width:
                raise TypeCheckError(f"the window {window} is larger than the input {[str(d) for d in shape[axis:]]}")
            counts.append(dims.add(dims.floordiv(dims.sub(dim, width), step), 1))
        return [*shape[:axis], *counts, *window]

    @staticmethod
    def relation(attrs: SlidingWindowAttrs, data: Type) -> Type:
        source = require_tensor(data)
        return TensorType(SlidingWindow.shape(attrs, list(source.shape)), source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: SlidingWindowAttrs, data: relax.Expr) -> relax.Expr:
        shape = context.shape(data)
        axis, count, strides = resolve_axis(attrs.axis, len(shape)), len(attrs.strides), list(attrs.strides)
        for position, (dim, width) in enumerate(zip(shape[axis:], attrs.window_shape, strict=True), axis):
            if not isinstance(dim, int):
                message = f"sliding_window: dimension {position} is smaller than the window, {width}"
                context.require(dim >= width, message)

        def element(i: tuple[tirx.Expr, ...], data: te.Tensor) -> tirx.Expr:
            moved = [i[axis + k] * strides[k] + i[axis + count + k] for k in range(count)]
            return data(*i[:axis], *moved)

        return indexed(context, SlidingWindow.shape(attrs, shape), element, data)
