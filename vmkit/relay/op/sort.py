"""Sorting, the positions that sort, the k largest, and searching what is sorted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx, topi

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Constant, Expr
from ..ir.tuple_wrapper import TupleWrapper
from ..ir.types import Any as AnyDim
from ..ir.types import Dim, TensorType, TupleType, Type
from .agreement import may_agree
from .attrs import Attrs, Bool, DType, Int, Str, attrs_node, field
from .axis import resolve_axis
from .create import require_scalar
from .elementwise import require_tensor
from .kernel import as_index, const, indexed
from .ordering import floats_of_keys, has_nan, keys_of_floats
from .registry import OpPattern, Parameters, entry, operator
from .selection import best_along

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["sorted_positions"]

# TVM's sorting routine knows int32, int64, float16, float32 and float64.
_WIDER = {
    "bool": "int32",
    "int8": "int32",
    "uint8": "int32",
    "int16": "int32",
    "uint16": "int32",
    "uint32": "int64",
    "bfloat16": "float32",
    "float16": "float32",
}


@attrs_node("relay.attrs.ArgsortAttrs")
class ArgsortAttrs(Attrs):
    """Attributes of sort and argsort."""

    axis: Int = field(-1, doc="The axis that is sorted.")
    is_ascend: Bool = field(True, doc="Whether the smallest element comes first.")
    dtype: DType = field("", script="int32", doc="Data type of the positions; int32 where it is empty.")


def sorted_positions(context: LowerContext, data: relax.Expr, axis: int, is_ascend: bool, dtype: str) -> relax.Expr:
    """Return the positions that sort a lowered tensor along an axis; equal elements keep their order."""
    order = context.emit(relax.op.argsort(_sortable(context, data), axis, not is_ascend, "int32"))
    return order if dtype == "int32" else context.emit(relax.op.astype(order, dtype))


def _sortable(context: LowerContext, data: relax.Expr) -> relax.Expr:
    """Return a tensor in a data type of the same order that the sorting routine knows."""
    if str(data.ty.dtype) == "uint64":
        # With the highest bit turned, the order is that of the signed numbers.
        return context.te(_with_sign, data, name="with_sign")
    wider = _WIDER.get(str(data.ty.dtype))
    data = data if wider is None else context.emit(relax.op.astype(data, wider))
    return context.te(keys_of_floats, data, name="in_order") if has_nan(str(data.ty.dtype)) else data


def _with_sign(data: te.Tensor) -> te.Tensor:
    return te.compute(data.shape, lambda *i: data(*i).astype("int64") ^ tirx.const(-(1 << 63), "int64"), name="signed")


@operator(
    "sort",
    "data",
    attrs=ArgsortAttrs,
    level=6,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters("data axis is_ascend"),
    layout="axis",
)
class Sort:
    """The input sorted along axis."""

    @staticmethod
    def relation(attrs: ArgsortAttrs, data: Type) -> Type:
        resolve_axis(attrs.axis, len(require_tensor(data).shape))
        return data

    @staticmethod
    def lower(context: LowerContext, attrs: ArgsortAttrs, data: relax.Expr) -> relax.Expr:
        axis = resolve_axis(attrs.axis, len(context.shape(data)))
        made = context.emit(relax.op.sort(_sortable(context, data), axis, not attrs.is_ascend))
        dtype = str(data.ty.dtype)
        wide = _WIDER.get(dtype, dtype)
        if has_nan(wide):
            made = context.te(lambda keys: floats_of_keys(keys, wide), made, name="out_of_order")
        if dtype == "uint64":
            made = context.te(_with_sign, made, name="without_sign")
        return made if str(made.ty.dtype) == dtype else context.emit(relax.op.astype(made, dtype))


@operator("argsort", "data", attrs=ArgsortAttrs, level=6, pattern=OpPattern.OPAQUE, layout="axis")
class Argsort:
    """The positions that sort the input along axis; equal elements keep their order."""

    @staticmethod
    def relation(attrs: ArgsortAttrs, data: Type) -> Type:
        source = require_tensor(data)
        resolve_axis(attrs.axis, len(source.shape))
        return TensorType(list(source.shape), attrs.dtype or "int32")

    @staticmethod
    def lower(context: LowerContext, attrs: ArgsortAttrs, data: relax.Expr) -> relax.Expr:
        axis = resolve_axis(attrs.axis, len(context.shape(data)))
        return sorted_positions(context, data, axis, attrs.is_ascend, attrs.dtype or "int32")


@attrs_node("relay.attrs.TopkAttrs")
class TopKAttrs(Attrs):
    """Attributes of topk."""

    k: Int | None = field(None, script=1, doc="How many elements are taken; all where it is below 1.")
    axis: Int = field(-1, doc="The axis that is searched.")
    ret_type: Str = field("both", doc="What is given: values, indices or both.")
    is_ascend: Bool = field(False, doc="Whether the smallest elements are taken.")
    dtype: DType = field("", script="int32", doc="Data type of the positions; int32 where it is empty.")


@operator("topk", "data", attrs=TopKAttrs, level=6, pattern=OpPattern.OPAQUE, layout="fields")
class TopK:
    """The k largest (or smallest) elements along axis in order, their positions, or both; all for a k below 1.

    A k that is an expression is read at run time. No more elements are given than there are.
    """

    @staticmethod
    def make(data: Expr, k: int | Expr, **values: Any) -> Expr | TupleWrapper:
        k = k.data.numpy().reshape(-1)[0].item() if isinstance(k, Constant) else k
        if isinstance(k, Expr):
            made = entry("dyn.topk").call(data, k, k=None, **values)
        else:
            made = entry("topk").call(data, k=k, **values)
        return TupleWrapper(made, 2) if values["ret_type"] == "both" else made

    @staticmethod
    def type(attrs: TopKAttrs, data: Type, k: Dim | None) -> Type:
        source = require_tensor(data)
        axis = resolve_axis(attrs.axis, len(source.shape))
        if attrs.ret_type not in ("both", "values", "indices"):
            raise TypeCheckError(f"ret_type is {attrs.ret_type!r}; it is 'both', 'values' or 'indices'")
        shape = list(source.shape)
        if k is not None:
            shape[axis] = k
        values, indices = TensorType(shape, source.dtype), TensorType(shape, attrs.dtype or "int32")
        return {"values": values, "indices": indices}.get(attrs.ret_type) or TupleType([values, indices])

    @staticmethod
    def relation(attrs: TopKAttrs, data: Type) -> Type:
        k = attrs.k if attrs.k is not None and attrs.k >= 1 else None
        shape = require_tensor(data).shape
        axis = resolve_axis(attrs.axis, len(shape))
        if k is not None and isinstance(shape[axis], int) and k > shape[axis]:
            raise TypeCheckError(f"k is {k}, but axis {attrs.axis} has {shape[axis]} elements")
        return TopK.type(attrs, data, k)

    @staticmethod
    def lower(context: LowerContext, attrs: TopKAttrs, data: relax.Expr) -> relax.Expr | tuple[relax.Expr, ...]:
        shape = context.shape(data)
        axis = resolve_axis(attrs.axis, len(shape))
        if attrs.k is None or attrs.k < 1:
            return _top(context, attrs, data, axis, shape[axis])
        if not isinstance(shape[axis], int):
            context.require(shape[axis] >= attrs.k, f"topk: k is {attrs.k}, but axis {attrs.axis} has fewer elements")
        return _top(context, attrs, data, axis, attrs.k)


def _top(
    context: LowerContext, attrs: TopKAttrs, data: relax.Expr, axis: int, k: Dim
) -> relax.Expr | tuple[relax.Expr, ...]:
    """Return the k best elements of a tensor along an axis, their positions, or both."""
    values, positions = best_along(context, data, axis, k, attrs.is_ascend)
    if attrs.ret_type == "values":
        return values
    dtype = attrs.dtype or "int32"
    positions = positions if dtype == "int32" else context.emit(relax.op.astype(positions, dtype))
    return positions if attrs.ret_type == "indices" else (values, positions)


@operator("dyn.topk", "data", "k", attrs=TopKAttrs, level=6, pattern=OpPattern.OPAQUE)
class DynTopK:
    """topk with a k that is read at run time."""

    build = staticmethod(entry("topk").builder)

    @staticmethod
    def relation(attrs: TopKAttrs, data: Type, k: Type) -> Type:
        require_scalar(k, "k")
        return TopK.type(attrs, data, AnyDim())

    @staticmethod
    def lower(
        context: LowerContext, attrs: TopKAttrs, data: relax.Expr, k: relax.Expr
    ) -> relax.Expr | tuple[relax.Expr, ...]:
        shape = context.shape(data)
        axis = resolve_axis(attrs.axis, len(shape))

        def count(i: tuple[tirx.Expr, ...], k: te.Tensor, extent: list[tirx.Expr]) -> tirx.Expr:
            asked = as_index(k(*[const(0)] * len(k.shape)))
            return tirx.Select(asked < 1, dims.as_expr(extent[0]), asked)

        (asked,) = context.read_dims(indexed(context, [1], count, k, [shape[axis]]))
        message = "dyn.topk: k is {actual}, but the axis has {expected} elements"
        context.require_equal(asked, dims.minimum(asked, shape[axis]), message)
        return _top(context, attrs, data, axis, asked)


@attrs_node("relay.attrs.SearchSortedAttrs")
class SearchSortedAttrs(Attrs):
    """Attributes of searchsorted."""

    right: Bool = field(False, doc="Whether a value belongs behind the elements equal to it.")
    dtype: DType = field("int32", doc="Data type of the positions.")


@operator("searchsorted", "sorted_sequence", "values", attrs=SearchSortedAttrs, level=6, pattern=OpPattern.OPAQUE)
class SearchSorted:
    """The positions where values belong in a sequence that ascends along its last axis, as numpy.searchsorted."""

    @staticmethod
    def relation(attrs: SearchSortedAttrs, sorted_sequence: Type, values: Type) -> Type:
        sequence, wanted = require_tensor(sorted_sequence, "sorted_sequence"), require_tensor(values, "values")
        if len(sequence.shape) == 0 or sequence.dtype != wanted.dtype:
            raise TypeCheckError(
                f"sorted_sequence {sequence} must be a tensor of the values' data type, {wanted.dtype}"
            )
        if len(sequence.shape) > 1 and not may_agree(list(sequence.shape)[:-1], list(wanted.shape)[:-1]):
            raise TypeCheckError(f"sorted_sequence {sequence} and values {wanted} differ before the last dimension")
        return TensorType(list(wanted.shape), attrs.dtype or "int32")

    @staticmethod
    def lower(
        context: LowerContext, attrs: SearchSortedAttrs, sorted_sequence: relax.Expr, values: relax.Expr
    ) -> relax.Expr:
        have, want = context.shape(sorted_sequence), context.shape(values)
        for k in range(len(have) - 1):
            message = f"searchsorted: dimension {k} is {{actual}} in values and {{expected}} in sorted_sequence"
            context.require_equal(want[k], have[k], message)
        return context.te(
            lambda sequence, wanted: topi.searchsorted(sequence, wanted, attrs.right, attrs.dtype or "int32"),
            sorted_sequence,
            values,
        )
