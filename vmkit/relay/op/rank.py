"""Operators that add, remove and join dimensions of size 1, or take a shape from another tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Call, Constant, Expr
from ..ir.types import Any as AnyDim
from ..ir.types import Dim, TensorType, Type
from .attrs import Attrs, DType, Int, Ints, attrs_node, field
from .axis import Axes, checked_rank, resolve_axes
from .elementwise import require_tensor
from .kernel import as_index, chosen, const, indexed
from .registry import OpPattern, Parameters, entry, operator
from .shape import ReshapeAttrs, require_one_element, reshape_value, reshaped, seen_through

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["constant_list", "reverse_reshape"]

T = TypeVar("T")

_HOW_MANY = "How many dimensions are put in."


def constant_list(value: T) -> T | list[int]:
    """Return the numbers that a Relay constant holds as a list; anything else as it is."""
    return value.data.numpy().reshape(-1).tolist() if isinstance(value, Constant) else value


@attrs_node("relay.attrs.ExpandDimsAttrs")
class ExpandDimsAttrs(Attrs):
    """Attributes of expand_dims."""

    axis: Int = field(doc="Where the dimensions are put in.")
    num_newaxis: Int = field(1, doc=_HOW_MANY)


@operator(
    "expand_dims", "data", attrs=ExpandDimsAttrs, level=1, pattern=OpPattern.INJECTIVE, mixed="follow", moves=True
)
class ExpandDims:
    """The input with num_newaxis dimensions of size 1 put in at axis.

    An axis that is an expression is read at run time.
    """

    @staticmethod
    def make(data: Expr, axis: int | Expr, num_newaxis: int) -> Expr:
        if isinstance(axis, Expr):
            return entry("dyn.expand_dims").call(data, axis, num_newaxis=num_newaxis)
        return entry("expand_dims").call(data, axis=axis, num_newaxis=num_newaxis)

    @staticmethod
    def shape(attrs: ExpandDimsAttrs, shape: list[Dim]) -> list[Dim]:
        rank = len(shape)
        if not -rank - 1 <= attrs.axis <= rank:
            raise TypeCheckError(f"axis is {attrs.axis}; for an input of {rank} dimensions it is {-rank - 1} to {rank}")
        if attrs.num_newaxis < 0:
            raise TypeCheckError(f"num_newaxis is {attrs.num_newaxis}; it cannot be negative")
        at = attrs.axis if attrs.axis >= 0 else attrs.axis + rank + 1
        checked_rank(rank + attrs.num_newaxis)
        return shape[:at] + [1] * attrs.num_newaxis + shape[at:]

    @staticmethod
    def relation(attrs: ExpandDimsAttrs, data: Type) -> Type:
        source = require_tensor(data)
        return TensorType(ExpandDims.shape(attrs, list(source.shape)), source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: ExpandDimsAttrs, data: relax.Expr) -> relax.Expr:
        return reshape_value(context, data, ExpandDims.shape(attrs, context.shape(data)))

    @staticmethod
    def on_arrays(attrs: ExpandDimsAttrs, data: np.ndarray) -> np.ndarray:
        return data.reshape(ExpandDims.shape(attrs, list(data.shape)))


@attrs_node("relay.attrs.DynExpandDimsAttrs")
class DynExpandDimsAttrs(Attrs):
    """Attributes of dyn.expand_dims."""

    num_newaxis: Int = field(1, doc=_HOW_MANY)


@operator("dyn.expand_dims", "data", "axis", attrs=DynExpandDimsAttrs, level=3, pattern=OpPattern.INJECTIVE)
class DynExpandDims:
    """The input with dimensions of size 1 put in at an axis that is read at run time."""

    build = staticmethod(entry("expand_dims").builder)

    @staticmethod
    def relation(attrs: DynExpandDimsAttrs, data: Type, axis: Type) -> Type:
        source, where = require_tensor(data), require_tensor(axis, "axis")
        if len(where.shape) > 1 or dims.equal(dims.product(where.shape), 1) is False:
            raise TypeCheckError(f"axis must be one integer, not {where}")
        return TensorType([AnyDim()] * checked_rank(len(source.shape) + attrs.num_newaxis), source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: DynExpandDimsAttrs, data: relax.Expr, axis: relax.Expr) -> relax.Expr:
        have, count = context.shape(data), attrs.num_newaxis
        rank = len(have)

        def size(i: tuple[tirx.Expr, ...], sizes: list[tirx.Expr], axis: te.Tensor) -> tirx.Expr:
            at = as_index(axis(*[0] * len(axis.shape)))
            at = tirx.max(const(0), tirx.min(tirx.Select(at < 0, at + rank + 1, at), const(rank)))
            moved = tirx.Select(i[0] < at, i[0], i[0] - count)
            one = const(1)
            kept = chosen(moved, sizes) if sizes else one
            return tirx.Select(tirx.all(i[0] >= at, i[0] < at + count), one, kept)

        sizes = indexed(context, [rank + count], size, [dims.as_expr(d) for d in have], axis)
        return reshape_value(context, data, context.read_dims(sizes))


@attrs_node("relay.attrs.SqueezeAttrs")
class SqueezeAttrs(Attrs):
    """Attributes of squeeze."""

    axis: Ints | None = field(None, doc="The dimensions to take away; all of size 1 where it is left open.")


@operator(
    "squeeze",
    "data",
    attrs=SqueezeAttrs,
    level=3,
    pattern=OpPattern.INJECTIVE,
    mixed="follow",
    layout="squeeze",
    moves=True,
)
class Squeeze:
    """The input without dimensions of size 1: those of axis, or all.

    An axis that is an expression is read at run time.
    """

    @staticmethod
    def make(data: Expr, axis: Axes | Expr) -> Expr:
        axis = constant_list(axis)
        if isinstance(axis, Expr):
            return entry("dyn.squeeze").call(data, axis, axis=[])
        return entry("squeeze").call(data, axis=axis)

    @staticmethod
    def axes(attrs: SqueezeAttrs, shape: list[Dim]) -> list[int]:
        if attrs.axis is not None:
            return resolve_axes(attrs.axis, len(shape))
        if not all(isinstance(d, int) for d in shape):
            raise TypeCheckError("without axis every dimension must be known; say which ones to remove")
        return [i for i, d in enumerate(shape) if d == 1]

    @staticmethod
    def relation(attrs: SqueezeAttrs, data: Type) -> Type:
        source = require_tensor(data)
        shape = list(source.shape)
        axes = Squeeze.axes(attrs, shape)
        for axis in axes:
            if dims.equal(shape[axis], 1) is False:
                raise TypeCheckError(f"dimension {axis} is {shape[axis]}; only a dimension of 1 can be removed")
        return TensorType([d for i, d in enumerate(shape) if i not in axes], source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: SqueezeAttrs, data: relax.Expr) -> relax.Expr:
        shape = context.shape(data)
        axes = resolve_axes(attrs.axis, len(shape)) if attrs.axis is not None else Squeeze.axes(attrs, shape)
        for axis in axes:
            context.require_equal(
                shape[axis], 1, f"squeeze: dimension {axis} is {{actual}}; only a dimension of 1 can be removed"
            )
        return reshape_value(context, data, [d for i, d in enumerate(shape) if i not in axes])

    @staticmethod
    def on_arrays(attrs: SqueezeAttrs, data: np.ndarray) -> np.ndarray:
        return data.squeeze(tuple(Squeeze.axes(attrs, list(data.shape))))


@operator("dyn.squeeze", "data", "axis", attrs=SqueezeAttrs, level=3, pattern=OpPattern.INJECTIVE)
class DynSqueeze:
    """The input without the dimensions whose axes are read at run time."""

    build = staticmethod(entry("squeeze").builder)

    @staticmethod
    def relation(attrs: SqueezeAttrs, data: Type, axis: Type) -> Type:
        source, where = require_tensor(data), require_tensor(axis, "axis")
        if len(where.shape) != 1 or not isinstance(where.shape[0], int) or where.shape[0] > len(source.shape):
            raise TypeCheckError(f"axis must be a vector of known length, at most {len(source.shape)}, not {where}")
        if where.shape[0] == len(source.shape):
            require_one_element(source)
        return TensorType([AnyDim()] * (len(source.shape) - where.shape[0]), source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: SqueezeAttrs, data: relax.Expr, axis: relax.Expr) -> relax.Expr:
        have = context.shape(data)
        rank, (removed,) = len(have), context.shape(axis)

        def size(i: tuple[tirx.Expr, ...], sizes: list[tirx.Expr], axis: te.Tensor) -> tirx.Expr:
            given = [as_index(axis(k)) for k in range(removed)]
            gone = [tirx.any(*[tirx.any(a == d, a + rank == d) for a in given]) for d in range(rank)]
            kept, before = const(1), const(0)
            for d in range(rank):
                kept = tirx.Select(tirx.all(before == i[0], tirx.Not(gone[d])), sizes[d], kept)
                before = before + tirx.Select(gone[d], const(0), const(1))
            return kept

        if removed == 0:
            return data
        sizes = indexed(context, [rank - removed], size, [dims.as_expr(d) for d in have], axis)
        return reshape_value(context, data, context.read_dims(sizes))


@operator("nn.batch_flatten", "data", level=1, pattern=OpPattern.INJECTIVE, mixed="follow")
class BatchFlatten:
    """The input with all dimensions but the first joined."""

    @staticmethod
    def relation(attrs: None, data: Type) -> Type:
        source = require_tensor(data)
        if len(source.shape) == 0:
            raise TypeCheckError("the input is a scalar; it needs a first dimension")
        return TensorType([source.shape[0], dims.product(list(source.shape)[1:])], source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: relax.Expr) -> relax.Expr:
        shape = context.shape(data)
        return reshape_value(context, data, [shape[0], dims.product(shape[1:])])


@attrs_node("relay.attrs.ReshapeLikeAttrs")
class ReshapeLikeAttrs(Attrs):
    """Attributes of reshape_like."""

    lhs_begin: Int = 0
    lhs_end: Int | None = None
    rhs_begin: Int = 0
    rhs_end: Int | None = None


@operator("reshape_like", "data", "shape_like", attrs=ReshapeLikeAttrs, level=3, pattern=OpPattern.INJECTIVE)
class ReshapeLike:
    """The elements of data under the shape of shape_like; the ranges of dimensions to replace can be given."""

    @staticmethod
    def shape(attrs: ReshapeLikeAttrs, data: list[Dim], like: list[Dim]) -> list[Dim]:
        first, last = _range("lhs", attrs.lhs_begin, attrs.lhs_end, len(data))
        begin, end = _range("rhs", attrs.rhs_begin, attrs.rhs_end, len(like))
        return data[:first] + like[begin:end] + data[last:]

    @staticmethod
    def relation(attrs: ReshapeLikeAttrs, data: Type, shape_like: Type) -> Type:
        source, like = require_tensor(data), require_tensor(shape_like, "shape_like")
        shape = ReshapeLike.shape(attrs, list(source.shape), list(like.shape))
        have, want = dims.product(source.shape), dims.product(shape)
        if dims.equal(have, want) is False:
            raise TypeCheckError(f"the new shape holds {want} elements, the input {have}")
        return TensorType(shape, source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: ReshapeLikeAttrs, data: relax.Expr, shape_like: relax.Expr) -> relax.Expr:
        return reshape_value(context, data, ReshapeLike.shape(attrs, context.shape(data), context.shape(shape_like)))


def _range(side: str, begin: int, end: int | None, rank: int) -> tuple[int, int]:
    """Return a range of dimensions counted from the front."""
    first = begin + rank if begin < 0 else begin
    last = rank if end is None else end + rank if end < 0 else end
    if not 0 <= first <= last <= rank:
        raise TypeCheckError(f"{side}_begin {begin} and {side}_end {end} are no range of {rank} dimensions")
    return first, last


def reverse_reshape(data: Expr, newshape: Sequence[int]) -> Call:
    """Return a reshape whose new shape is read from the last dimension to the first."""
    return entry("contrib_reverse_reshape").call(data, newshape=newshape)


@operator(
    "contrib_reverse_reshape",
    "data",
    attrs=ReshapeAttrs,
    level=10,
    pattern=OpPattern.INJECTIVE,
    parameters=Parameters("data newshape"),
)
class ReverseReshape:
    """A reshape whose newshape is read from the last dimension to the first."""

    @staticmethod
    def shape(attrs: ReshapeAttrs, shape: list[Dim]) -> list[Dim]:
        return reshaped(shape[::-1], list(attrs.newshape)[::-1])[::-1]

    @staticmethod
    def relation(attrs: ReshapeAttrs, data: Type) -> Type:
        source = require_tensor(data)
        shape = ReverseReshape.shape(attrs, list(source.shape))
        have, want = dims.product(source.shape), dims.product(shape)
        if dims.equal(have, want) is False:
            raise TypeCheckError(f"the new shape holds {want} elements, the input {have}")
        return TensorType(shape, source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: ReshapeAttrs, data: relax.Expr) -> relax.Expr:
        shape = ReverseReshape.shape(attrs, context.shape(data))
        return reshape_value(context, seen_through(context, data), shape)


@attrs_node("relay.attrs.NdarraySizeAttrs")
class NdarraySizeAttrs(Attrs):
    """Attributes of ndarray_size."""

    dtype: DType = "int32"


@operator("ndarray_size", "data", attrs=NdarraySizeAttrs, level=10, pattern=OpPattern.OPAQUE)
class NdarraySize:
    """The number of elements, as a scalar."""

    @staticmethod
    def relation(attrs: NdarraySizeAttrs, data: Type) -> Type:
        require_tensor(data)
        return TensorType([], attrs.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: NdarraySizeAttrs, data: relax.Expr) -> relax.Expr:
        count = dims.as_expr(dims.product(context.shape(data)))
        # The kernel takes the tensor for its shape alone; it reads no element.
        return indexed(context, [], lambda i, size, _: size[0].astype(attrs.dtype), [count], data)
