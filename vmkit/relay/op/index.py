"""Operators that read elements at positions held by another tensor. No position reads outside the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Expr
from ..ir.types import Dim, TensorType, Type
from .attrs import Attrs, Int, Str, attrs_node, field
from .axis import resolve_axis
from .broadcast import broadcast_index, broadcast_result, broadcast_shapes, pad_shapes
from .elementwise import require_tensor
from .fields import REQUIRED
from .join import TupleLike, as_tuple
from .kernel import as_index, const, indexed, inside
from .registry import OpPattern, Parameters, entry, operator
from .shape import reshape_value

if TYPE_CHECKING:
    from ..lower.context import LowerContext, Value

__all__ = ["require_integers"]


def require_integers(ty: Type, name: str = "indices") -> TensorType:
    """Return `ty` if it is a tensor of integers; TypeCheckError otherwise."""
    tensor = require_tensor(ty, name)
    if not tensor.dtype.startswith(("int", "uint")):
        raise TypeCheckError(f"{name} must be integers, not {tensor.dtype}; cast them")
    return tensor


def _require_elements(context: LowerContext, extents: Sequence[Dim], result: Sequence[Dim]) -> None:
    """Check that there is something to read: limiting a position to an empty dimension gives no position in it."""
    count = dims.product(result)
    for extent in extents:
        if isinstance(extent, int) and extent > 0:
            continue
        empty = tirx.any(dims.as_expr(extent) > 0, dims.as_expr(count) == 0)
        context.require(empty, f"{context.operator}: elements are read from a dimension of 0")


@attrs_node("relay.attrs.TakeAttrs")
class TakeAttrs(Attrs):
    """Attributes of take."""

    batch_dims: Int = field(0, doc="How many first dimensions data and indices have in common.")
    axis: Int | None = field(None, doc="The axis that is indexed; the input is a vector where it is left open.")
    mode: Str = field("clip", doc="What indices outside mean: clip, wrap or fast.")


@operator(
    "take",
    "data",
    "indices",
    attrs=TakeAttrs,
    level=3,
    pattern=OpPattern.INJECTIVE,
    parameters=Parameters("data indices axis batch_dims mode"),
    mixed="follow",
)
class Take:
    """The elements (or slices along axis) of the input at indices.

    Without axis the input is read as a vector. Indices outside are moved to the nearest edge in mode "clip", so that a
    negative one is 0, and counted around in mode "wrap". Mode "fast" is for indices that are inside: others are moved
    to the edge, too, but whether there are elements at all is not checked, and zeros are read where there are none.
    """

    @staticmethod
    def places(attrs: TakeAttrs, shape: list[Dim], indices: list[Dim]) -> tuple[int, int]:
        """Return the axis and the number of batch dimensions, checked."""
        axis = resolve_axis(attrs.axis or 0, len(shape))
        batch = attrs.batch_dims + len(indices) if attrs.batch_dims < 0 else attrs.batch_dims
        if not 0 <= batch <= min(axis, len(indices)):
            raise TypeCheckError(
                f"batch_dims is {attrs.batch_dims}; "
                f"it can be at most axis, {axis}, and the rank of indices, {len(indices)}"
            )
        for k in range(batch):
            if dims.equal(shape[k], indices[k]) is False:
                raise TypeCheckError(f"batch dimension {k} is {shape[k]} in data and {indices[k]} in indices")
        return axis, batch

    @staticmethod
    def relation(attrs: TakeAttrs, data: Type, indices: Type) -> Type:
        source, where = require_tensor(data), require_integers(indices)
        if attrs.mode not in ("clip", "wrap", "fast"):
            raise TypeCheckError(f"mode is {attrs.mode!r}; it is 'clip', 'wrap' or 'fast'")
        if attrs.axis is None:
            return TensorType(list(where.shape), source.dtype)
        shape, index_shape = list(source.shape), list(where.shape)
        axis, batch = Take.places(attrs, shape, index_shape)
        return TensorType([*shape[:axis], *index_shape[batch:], *shape[axis + 1 :]], source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: TakeAttrs, data: relax.Expr, indices: relax.Expr) -> relax.Expr:
        if attrs.axis is None:
            data = reshape_value(context, data, [dims.product(context.shape(data))])
        shape, index_shape = context.shape(data), context.shape(indices)
        axis, batch = Take.places(attrs, shape, index_shape) if attrs.axis is not None else (0, 0)
        for k in range(batch):
            message = f"take: batch dimension {k} is {{actual}} in indices and {{expected}} in data"
            context.require_equal(index_shape[k], shape[k], message)
        whole = [*shape[:axis], *index_shape[batch:], *shape[axis + 1 :]]
        if attrs.mode != "fast":
            _require_elements(context, [shape[axis]], whole)
        count = len(index_shape) - batch

        def element(i: tuple[tirx.Expr, ...], data: te.Tensor, indices: te.Tensor) -> tirx.Expr:
            position, extent = as_index(indices(*i[:batch], *i[axis : axis + count])), data.shape[axis]
            position = tirx.floormod(position, extent) if attrs.mode == "wrap" else inside(position, extent)
            value = data(*i[:axis], position, *i[axis + count :])
            if attrs.mode != "fast" or isinstance(extent, tirx.IntImm):
                return value
            return tirx.if_then_else(extent > 0, value, tirx.const(0, data.dtype))

        return indexed(context, whole, element, data, indices)

    @staticmethod
    def on_arrays(attrs: TakeAttrs, data: np.ndarray, indices: np.ndarray) -> np.ndarray | None:
        if attrs.batch_dims or not data.size:
            return None
        return np.take(data, indices, attrs.axis, mode="wrap" if attrs.mode == "wrap" else "clip")


@attrs_node("relay.attrs.GatherAttrs")
class GatherAttrs(Attrs):
    """Attributes of gather."""

    axis: Int = field(0, script=REQUIRED, doc="The axis that is indexed.")


@operator(
    "gather",
    "data",
    "indices",
    attrs=GatherAttrs,
    level=3,
    pattern=OpPattern.INJECTIVE,
    parameters=Parameters("data axis indices"),
)
class Gather:
    """``out[i][j] = data[indices[i][j]][j]`` for axis 0, and so on; negative indices count from the end."""

    @staticmethod
    def relation(attrs: GatherAttrs, data: Type, indices: Type) -> Type:
        source, where = require_tensor(data), require_integers(indices)
        axis = resolve_axis(attrs.axis, len(source.shape))
        if len(where.shape) != len(source.shape):
            raise TypeCheckError(f"indices has {len(where.shape)} dimensions, data {len(source.shape)}")
        for k, (have, asked) in enumerate(zip(source.shape, where.shape, strict=True)):
            if k != axis and isinstance(have, int) and isinstance(asked, int) and asked > have:
                raise TypeCheckError(f"dimension {k} of indices is {asked}, of data only {have}")
        return TensorType(list(where.shape), source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: GatherAttrs, data: relax.Expr, indices: relax.Expr) -> relax.Expr:
        shape, whole = context.shape(data), context.shape(indices)
        axis = resolve_axis(attrs.axis, len(shape))
        _require_elements(context, [shape[axis]], whole)
        for k, (have, asked) in enumerate(zip(shape, whole, strict=True)):
            if k != axis and not dims.equal(have, asked):
                message = f"gather: dimension {k} of indices is {{actual}}, of data only {{expected}}"
                context.require_equal(asked, dims.minimum(asked, have), message)

        def element(i: tuple[tirx.Expr, ...], data: te.Tensor, indices: te.Tensor) -> tirx.Expr:
            position = inside(as_index(indices(*i)), data.shape[axis], wrap=True)
            return data(*i[:axis], position, *i[axis + 1 :])

        return indexed(context, whole, element, data, indices)


@attrs_node("relay.attrs.GatherNDAttrs")
class GatherNDAttrs(Attrs):
    """Attributes of gather_nd."""

    batch_dims: Int = 0
    index_rank: Int | None = None


@operator("gather_nd", "data", "indices", attrs=GatherNDAttrs, level=3, pattern=OpPattern.INJECTIVE)
class GatherND:
    """The elements or slices of the input at positions; ``indices[k]`` holds the positions along dimension k.

    index_rank says how many dimensions the positions have where the shape of indices does not.
    """

    @staticmethod
    def shape(attrs: GatherNDAttrs, shape: list[Dim], indices: list[Dim]) -> tuple[int, list[Dim]]:
        """Return the number of dimensions that are indexed, and the shape of the result."""
        if not indices:
            raise TypeCheckError("indices is a scalar; its first dimension goes over the dimensions of data")
        count = indices[0] if isinstance(indices[0], int) else attrs.index_rank
        if count is None:
            raise TypeCheckError("the first dimension of indices is not known: give index_rank")
        batch = attrs.batch_dims
        if not 0 <= batch < len(indices) or batch + count > len(shape):
            raise TypeCheckError(
                f"{count} dimensions after {batch} batch dimensions are indexed; data has {len(shape)}, "
                f"indices {len(indices) - 1} beside its first"
            )
        for k in range(batch):
            if dims.equal(shape[k], indices[k + 1]) is False:
                raise TypeCheckError(f"batch dimension {k} is {shape[k]} in data and {indices[k + 1]} in indices")
        return int(count), [*indices[1:], *shape[batch + count :]]

    @staticmethod
    def relation(attrs: GatherNDAttrs, data: Type, indices: Type) -> Type:
        source, where = require_tensor(data), require_integers(indices)
        return TensorType(GatherND.shape(attrs, list(source.shape), list(where.shape))[1], source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: GatherNDAttrs, data: relax.Expr, indices: relax.Expr) -> relax.Expr:
        shape, index_shape = context.shape(data), context.shape(indices)
        count, whole = GatherND.shape(attrs, shape, index_shape)
        batch, outer = attrs.batch_dims, len(index_shape) - 1
        context.require_equal(
            index_shape[0], count, "gather_nd: the first dimension of indices is {actual}, index_rank {expected}"
        )
        for k in range(batch):
            message = f"gather_nd: batch dimension {k} is {{actual}} in indices and {{expected}} in data"
            context.require_equal(index_shape[k + 1], shape[k], message)
        _require_elements(context, shape[batch : batch + count], whole)

        def element(i: tuple[tirx.Expr, ...], data: te.Tensor, indices: te.Tensor) -> tirx.Expr:
            positions = [as_index(indices(const(k), *i[:outer])) for k in range(count)]
            limited = [inside(p, data.shape[batch + k], wrap=True) for k, p in enumerate(positions)]
            return data(*i[:batch], *limited, *i[outer:])

        return indexed(context, whole, element, data, indices)


@operator("adv_index", "inputs", level=3, pattern=OpPattern.INJECTIVE)
class AdvIndex:
    """numpy's ``data[indices]`` of a tuple (data, index, ...).

    The indices are broadcast; negative ones count from the end.
    """

    @staticmethod
    def make(inputs: TupleLike) -> Expr:
        return entry("adv_index").call(as_tuple(inputs))

    @staticmethod
    def relation(attrs: None, inputs: Type) -> Type:
        fields = list(getattr(inputs, "fields", []))
        if len(fields) < 2:
            raise TypeCheckError("the input must be a tuple of data and at least one index")
        source, where = require_tensor(fields[0], "data"), [require_integers(f) for f in fields[1:]]
        if len(where) > len(source.shape):
            raise TypeCheckError(f"{len(where)} indices are given for {len(source.shape)} dimensions")
        return TensorType(
            [*broadcast_shapes(*[list(w.shape) for w in where]), *list(source.shape)[len(where) :]], source.dtype
        )

    @staticmethod
    def lower(context: LowerContext, attrs: None, inputs: Value) -> relax.Expr:
        data, *indices = context.fields(inputs)
        shape, count = context.shape(data), len(indices)
        padded = pad_shapes([context.shape(v) for v in indices])
        common = broadcast_result(context, padded)
        whole = [*common, *shape[count:]]
        _require_elements(context, shape[:count], whole)

        def element(
            i: tuple[tirx.Expr, ...],
            data: te.Tensor,
            indices: list[te.Tensor],
            padded: list[list[tirx.Expr]],
            common: list[tirx.Expr],
        ) -> tirx.Expr:
            positions = []
            for k, tensor in enumerate(indices):
                skip = len(common) - len(tensor.shape)
                own = broadcast_index(padded[k][skip:], common[skip:], i[skip : len(common)])
                positions.append(inside(as_index(tensor(*own)), data.shape[k], wrap=True))
            return data(*positions, *i[len(common) :])

        return indexed(context, whole, element, data, indices, padded, common)


_MOST_DIMENSIONS = 64  # as numpy's arrays have


@operator("unravel_index", "indices", "shape", level=3, pattern=OpPattern.INJECTIVE)
class UnravelIndex:
    """The positions, one row a dimension, that flat indices stand for in a tensor of a shape."""

    @staticmethod
    def relation(attrs: None, indices: Type, shape: Type) -> Type:
        where, sizes = require_integers(indices), require_integers(shape, "shape")
        if len(sizes.shape) != 1 or not isinstance(sizes.shape[0], int):
            raise TypeCheckError(f"shape must be a vector of known length, not {sizes}")
        if sizes.shape[0] > _MOST_DIMENSIONS:
            raise TypeCheckError(f"shape has {sizes.shape[0]} dimensions, expected at most {_MOST_DIMENSIONS}")
        return TensorType([sizes.shape[0], *where.shape], where.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: None, indices: relax.Expr, shape: relax.Expr) -> relax.Expr:
        (rank,) = context.shape(shape)

        def element(i: tuple[tirx.Expr, ...], indices: te.Tensor, shape: te.Tensor) -> tirx.Expr:
            left, result = as_index(indices(*i[1:])), const(0)
            for k in reversed(range(rank)):
                extent = tirx.max(as_index(shape(k)), const(1))
                result = tirx.Select(i[0] == k, tirx.floormod(left, extent), result)
                left = tirx.floordiv(left, extent)
            return result.astype(indices.dtype)

        return indexed(context, [rank, *context.shape(indices)], element, indices, shape)
