"""Operators that make tensors: filled ones, ranges, one-hot codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ...values.element_types import is_stored_type, stored_type
from ..ir import dims
from ..ir.expr import Constant, Expr
from ..ir.expr import const as relay_const
from ..ir.types import Any as AnyDim
from ..ir.types import Dim, TensorType, Type
from .attrs import Attrs, ConstantValue, Dims, DType, Int, attrs_node, field
from .axis import checked_rank
from .elementwise import require_tensor
from .fields import REQUIRED
from .index import require_integers
from .kernel import as_index, const, indexed
from .rank import constant_list
from .registry import Mixed, OpPattern, Parameters, entry, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["InitOpAttrs", "fill", "read_shape", "require_scalar", "shape_vector"]


@attrs_node("relay.attrs.InitOpAttrs")
class InitOpAttrs(Attrs):
    """Attributes of the operators that make a tensor of a shape."""

    shape: Dims | None = field(None, script=REQUIRED, doc="Shape of the result.")
    dtype: DType = field("", doc="Data type of the result.")


def fill(context: LowerContext, shape: list[Dim], value: float | relax.Expr, dtype: str) -> relax.Expr:
    """Return a tensor of a shape whose elements are all `value`: a number, or a lowered tensor of one element."""
    if isinstance(value, int | float):
        # The kernel has no tensor to take its device and order from, so Relax makes it.
        return context.emit(relax.op.full(relax.ShapeExpr([dims.as_expr(d) for d in shape]), relax.const(value, dtype)))
    return indexed(context, shape, lambda i, t: t(*[const(0)] * len(t.shape)).astype(dtype), value)


def require_scalar(ty: Type, name: str) -> TensorType:
    """Return `ty` if it is a tensor that may have one element; TypeCheckError otherwise."""
    tensor = require_tensor(ty, name)
    if dims.equal(dims.product(tensor.shape), 1) is not True:
        raise TypeCheckError(f"{name} must be one number, not {tensor}")
    return tensor


def shape_vector(ty: Type, name: str = "shape") -> int:
    """Return the rank that a vector read at run time gives; TypeCheckError when its length is not known."""
    vector = require_integers(ty, name)
    if len(vector.shape) != 1 or not isinstance(vector.shape[0], int):
        raise TypeCheckError(f"{name} must be a vector of known length, not {vector}: it gives the rank")
    return checked_rank(vector.shape[0])


def read_shape(context: LowerContext, vector: relax.Expr) -> list[Dim]:
    """Return the elements of a lowered vector as sizes; one below 0 is an error when run."""
    if context.shape(vector)[0] == 0:
        return []
    length = context.shape(vector)[0]

    def size(i: tuple[tirx.Expr, ...], vector: te.Tensor) -> tirx.Expr:
        negative = tirx.any(tirx.const(False), *[vector(k) < 0 for k in range(length)])
        valid = tirx.Select(negative, const(0), const(1))
        return tirx.if_then_else(i[0] < length, tirx.max(as_index(vector(tirx.min(i[0], length - 1))), const(0)), valid)

    *sizes, valid = context.read_dims(indexed(context, [length + 1], size, vector, name="sizes"))
    context.require_equal(valid, 1, f"{context.operator}: the shape holds a negative size")
    return sizes


@operator(
    "full",
    "fill_value",
    attrs=InitOpAttrs,
    level=3,
    pattern=OpPattern.ELEMWISE,
    parameters=Parameters(given={"shape": ()}),
    mixed="follow",
)
class Full:
    """A tensor of a shape filled with a scalar. A shape that is an expression is read at run time."""

    @staticmethod
    def make(fill_value: Expr, shape: Dims | Expr, dtype: str) -> Expr:
        shape = constant_list(shape)
        if isinstance(shape, Expr):
            return entry("dyn.full").call(fill_value, shape, shape=None, dtype=dtype)
        return entry("full").call(fill_value, shape=shape, dtype=dtype)

    @staticmethod
    def relation(attrs: InitOpAttrs, fill_value: Type) -> Type:
        return TensorType(_given(attrs), _full_dtype(attrs, fill_value))

    @staticmethod
    def lower(context: LowerContext, attrs: InitOpAttrs, fill_value: relax.Expr) -> relax.Expr:
        return fill(context, context.dims(_given(attrs)), fill_value, _filled_dtype(attrs, fill_value))


def _full_dtype(attrs: InitOpAttrs, fill_value: Type) -> str:
    """Return the element type of a tensor filled with a value."""
    own = require_scalar(fill_value, "fill_value").dtype
    dtype = attrs.dtype or own
    if dtype != own and (is_stored_type(dtype) or is_stored_type(own)):
        raise TypeCheckError(f"a tensor of {dtype} cannot be filled with a value of {own}; cast it first")
    return dtype


def _filled_dtype(attrs: InitOpAttrs, fill_value: relax.Expr) -> str:
    return stored_type(attrs.dtype) or str(fill_value.ty.dtype)


def _given(attrs: InitOpAttrs) -> list[Dim]:
    shape = attrs.shape
    if shape is None or any(dims.is_any(d) or (isinstance(d, int) and d < 0) for d in shape):
        raise TypeCheckError("shape must be given, and hold no unknown and no negative size")
    return list(shape)


@operator("dyn.full", "fill_value", "shape", attrs=InitOpAttrs, level=3, pattern=OpPattern.ELEMWISE, mixed="follow")
class DynFull:
    """A tensor of a shape that is read at run time, filled with a scalar."""

    build = staticmethod(entry("full").builder)

    @staticmethod
    def relation(attrs: InitOpAttrs, fill_value: Type, shape: Type) -> Type:
        return TensorType([AnyDim()] * shape_vector(shape), _full_dtype(attrs, fill_value))

    @staticmethod
    def lower(context: LowerContext, attrs: InitOpAttrs, fill_value: relax.Expr, shape: relax.Expr) -> relax.Expr:
        return fill(context, read_shape(context, shape), fill_value, _filled_dtype(attrs, fill_value))


def _filled(name: str, value: int, mixed: Mixed | None = None) -> None:
    """Register zeros or ones in their static, run-time and like forms."""

    def make(shape: Dims | Expr, dtype: str) -> Expr:
        shape = constant_list(shape)
        if isinstance(shape, Expr):
            return entry(f"dyn.{name}").call(shape, shape=None, dtype=dtype)
        return entry(name).call(shape=shape, dtype=dtype)

    def body(doc: str, relation: Callable[..., Type], lower: Callable[..., relax.Expr], **more: Any) -> type:
        made = {"__doc__": doc, "relation": staticmethod(relation), "lower": staticmethod(lower)}
        return type(name, (), made | {k: staticmethod(v) for k, v in more.items()})

    static = body(
        f"A tensor of {name}. A shape that is an expression is read at run time.",
        lambda attrs: TensorType(_given(attrs), attrs.dtype or "float32"),
        lambda context, attrs: fill(context, context.dims(attrs.shape), value, attrs.dtype or "float32"),
        make=make,
    )
    given = Parameters(given={"dtype": REQUIRED})
    operator(name, attrs=InitOpAttrs, level=3, pattern=OpPattern.ELEMWISE, parameters=given, mixed=mixed)(static)
    dynamic = body(
        f"A tensor of {name} of a shape that is read at run time.",
        lambda attrs, shape: TensorType([AnyDim()] * shape_vector(shape), attrs.dtype or "float32"),
        lambda context, attrs, shape: fill(context, read_shape(context, shape), value, attrs.dtype or "float32"),
        build=entry(name).builder,
    )
    operator(f"dyn.{name}", "shape", attrs=InitOpAttrs, level=3, pattern=OpPattern.ELEMWISE)(dynamic)
    like = body(
        f"A tensor of {name} of the shape and data type of the input.",
        lambda attrs, data: require_tensor(data),
        lambda context, attrs, data: fill(context, context.shape(data), value, str(data.ty.dtype)),
    )
    operator(f"{name}_like", "data", level=4, pattern=OpPattern.ELEMWISE)(like)


_filled("zeros", 0, mixed="follow")
_filled("ones", 1)


@operator("full_like", "data", "fill_value", level=3, pattern=OpPattern.ELEMWISE)
class FullLike:
    """A tensor of the shape and data type of data, filled with a scalar."""

    @staticmethod
    def relation(attrs: None, data: Type, fill_value: Type) -> Type:
        require_scalar(fill_value, "fill_value")
        return require_tensor(data)

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: relax.Expr, fill_value: relax.Expr) -> relax.Expr:
        return fill(context, context.shape(data), fill_value, str(data.ty.dtype))


@attrs_node("relay.attrs.ArangeAttrs")
class ArangeAttrs(Attrs):
    """Attributes of arange: its inputs, where they are constants, give the length at compile time."""

    start: ConstantValue = None
    stop: ConstantValue = None
    step: ConstantValue = None
    dtype: DType = field("float32", doc="Data type of the numbers.")


@operator(
    "arange",
    "start",
    "stop",
    "step",
    attrs=ArangeAttrs,
    level=3,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters("start stop step dtype", given={"stop": None, "step": None}),
    mixed="never",
)
class Arange:
    """The numbers from start up to, but without, stop in steps."""

    @staticmethod
    def make(start: Expr, stop: Expr | None, step: Expr | None, dtype: str) -> Expr:
        if stop is None:
            start, stop = relay_const(0, dtype), start
        step = relay_const(1, dtype) if step is None else step
        return entry("arange").call(start, stop, step, start=start, stop=stop, step=step, dtype=dtype)

    @staticmethod
    def relation(attrs: ArangeAttrs, start: Type, stop: Type, step: Type) -> Type:
        for ty, name in ((start, "start"), (stop, "stop"), (step, "step")):
            require_scalar(ty, name)
        return TensorType([Arange.length(attrs)], attrs.dtype)

    @staticmethod
    def length(attrs: ArangeAttrs) -> Dim:
        given = [v for v in (attrs.start, attrs.stop, attrs.step) if isinstance(v, Constant)]
        if len(given) != 3:
            return AnyDim()
        start, stop, step = (v.data.numpy().reshape(-1)[0].item() for v in given)
        if step == 0:
            raise TypeCheckError("step is 0")
        return max(0, int(np.ceil((stop - start) / step)))

    @staticmethod
    def lower(context: LowerContext, attrs: ArangeAttrs, *ends: relax.Expr) -> relax.Expr:
        length = Arange.length(attrs)
        if dims.is_any(length):
            length, valid = context.read_dims(indexed(context, [2], _count, *ends, name="arange_length"))
            context.require_equal(valid, 1, "arange: step is 0")
        whole = str(attrs.dtype).startswith(("int", "uint"))

        def element(i: tuple[tirx.Expr, ...], start: te.Tensor, stop: te.Tensor, step: te.Tensor) -> tirx.Expr:
            # Numbers of another data type take the result's where it is whole, as Relay computed.
            dtype = attrs.dtype if whole or str(start.dtype).startswith(("int", "uint")) else str(start.dtype)
            first, by = _only(start).astype(dtype), _only(step).astype(dtype)
            return (first + by * i[0].astype(dtype)).astype(attrs.dtype)

        return indexed(context, [length], element, *ends)


def _only(tensor: te.Tensor) -> tirx.Expr:
    return tensor(*[const(0)] * len(tensor.shape))


def _count(i: tuple[tirx.Expr, ...], start: te.Tensor, stop: te.Tensor, step: te.Tensor) -> tirx.Expr:
    """Return how many numbers a range has (element 0), and whether its step is not 0 (element 1)."""
    first, last, by = _only(start), _only(stop), _only(step)
    if all(str(t.dtype).startswith(("int", "uint")) for t in (start, stop, step)):
        first, last, by = as_index(first), as_index(last), as_index(by)
        width = tirx.max(tirx.abs(by), const(1))
        count = tirx.floordiv(tirx.Select(by > 0, last - first, first - last) + width - 1, width)
        nothing = by == 0
    else:
        first, last, by = first.astype("float64"), last.astype("float64"), by.astype("float64")
        nothing = by == tirx.const(0.0, "float64")
        count = tirx.ceil((last - first) / tirx.Select(nothing, tirx.const(1.0, "float64"), by)).astype("int64")
    return tirx.Select(i[0] == 0, tirx.max(count, const(0)), tirx.Select(nothing, const(0), const(1)))


@attrs_node("relay.attrs.OneHotAttrs")
class OneHotAttrs(Attrs):
    """Attributes of one_hot."""

    depth: Int = field(1, script=REQUIRED, doc="Size of the new axis.")
    axis: Int = field(-1, script=REQUIRED, doc="Where the new axis is put in; -1 is behind the last.")
    dtype: DType = field("", script=REQUIRED, doc="Data type of the result.")


@operator(
    "one_hot", "indices", "on_value", "off_value", attrs=OneHotAttrs, level=10, pattern=OpPattern.OUT_ELEMWISE_FUSABLE
)
class OneHot:
    """on_value where the position along a new axis equals the index, else off_value, both as dtype."""

    @staticmethod
    def make(indices: Expr, on_value: Expr, off_value: Expr, depth: int | Expr, axis: int, dtype: str) -> Expr:
        known = constant_list(depth)
        (depth,) = known if isinstance(known, list) else (known,)
        if isinstance(depth, Expr):
            return entry("dyn.one_hot").call(indices, on_value, off_value, depth, depth=0, axis=axis, dtype=dtype)
        return entry("one_hot").call(indices, on_value, off_value, depth=depth, axis=axis, dtype=dtype)

    @staticmethod
    def type(attrs: OneHotAttrs, depth: Dim, indices: Type, on_value: Type, off_value: Type) -> TensorType:
        where = require_integers(indices)
        dtype = attrs.dtype or require_scalar(on_value, "on_value").dtype
        for ty, name in ((on_value, "on_value"), (off_value, "off_value")):
            require_scalar(ty, name)
        return TensorType(_with_axis(attrs.axis, list(where.shape), depth), dtype)

    @staticmethod
    def relation(attrs: OneHotAttrs, indices: Type, on_value: Type, off_value: Type) -> Type:
        if attrs.depth < 1:
            raise TypeCheckError(f"depth is {attrs.depth}; it must be at least 1")
        return OneHot.type(attrs, attrs.depth, indices, on_value, off_value)

    @staticmethod
    def lower(context: LowerContext, attrs: OneHotAttrs, *values: relax.Expr) -> relax.Expr:
        return _one_hot(context, attrs, attrs.depth, *values)


def _with_axis(axis: int, shape: list[Dim], depth: Dim) -> list[Dim]:
    if not -1 <= axis <= len(shape):
        raise TypeCheckError(f"axis is {axis}; for indices of {len(shape)} dimensions it is -1 to {len(shape)}")
    at = len(shape) if axis == -1 else axis
    return [*shape[:at], depth, *shape[at:]]


def _one_hot(
    context: LowerContext, attrs: OneHotAttrs, depth: Dim, indices: relax.Expr, *values: relax.Expr
) -> relax.Expr:
    shape, dtype = context.shape(indices), attrs.dtype or str(values[0].ty.dtype)
    at = len(shape) if attrs.axis == -1 else attrs.axis

    def element(i: tuple[tirx.Expr, ...], indices: te.Tensor, on: te.Tensor, off: te.Tensor) -> tirx.Expr:
        chosen = [_only(value).astype(dtype) for value in (on, off)]
        return tirx.Select(as_index(indices(*i[:at], *i[at + 1 :])) == i[at], *chosen)

    return indexed(context, _with_axis(attrs.axis, shape, depth), element, indices, *values)


@operator(
    "dyn.one_hot",
    "indices",
    "on_value",
    "off_value",
    "depth",
    attrs=OneHotAttrs,
    level=10,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
)
class DynOneHot:
    """one_hot with a depth that is read at run time."""

    build = staticmethod(entry("one_hot").builder)

    @staticmethod
    def relation(attrs: OneHotAttrs, indices: Type, on_value: Type, off_value: Type, depth: Type) -> Type:
        require_scalar(require_integers(depth, "depth"), "depth")
        return OneHot.type(attrs, AnyDim(), indices, on_value, off_value)

    @staticmethod
    def lower(context: LowerContext, attrs: OneHotAttrs, *values: relax.Expr) -> relax.Expr:
        *tensors, depth = values
        vector = context.emit(relax.op.reshape(depth, relax.ShapeExpr([1])))
        return _one_hot(context, attrs, read_shape(context, vector)[0], *tensors)
