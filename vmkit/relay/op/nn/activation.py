"""Activations: the relu family, bias_add, dropout, and fast approximations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx, topi

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Call, Expr, TupleGetItem
from ...ir.types import Dim, IncompleteType, TensorType, TupleType, Type
from ..attrs import Attrs, Float, Int, attrs_node, field
from ..axis import resolve_axis
from ..broadcast import broadcast_index
from ..builder import derived_builder
from ..elementwise import require_tensor
from ..fields import REQUIRED
from ..registry import OpPattern, operator
from .precision import as_dtype

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = ["along_axis", "dropout_raw", "lower_along_axis", "vector_of"]


def vector_of(axis: int, data: Type) -> Type | None:
    """Return the type of a vector along an axis of the data; None while the data's type is not known."""
    if isinstance(data, IncompleteType):
        return None
    source = require_tensor(data, "data")
    return TensorType([source.shape[resolve_axis(axis, len(source.shape))]], source.dtype)


def along_axis(axis: int, data: Type, **vectors: Type) -> int:
    """Check that vectors lie along an axis of the data, and return the axis counted from the front."""
    source = require_tensor(data, "data")
    at = resolve_axis(axis, len(source.shape))
    for name, ty in vectors.items():
        vector = require_tensor(ty, name)
        if len(vector.shape) != 1:
            raise TypeCheckError(f"{name} must be a vector, not {vector}")
        if dims.equal(vector.shape[0], source.shape[at]) is False:
            raise TypeCheckError(f"{name} has {vector.shape[0]} elements, but axis {at} of the data {source.shape[at]}")
    return at


def lower_along_axis(context: LowerContext, axis: int, data: relax.Expr, **vectors: relax.Expr) -> int:
    """Check at run time that vectors lie along an axis of the data, and return the axis counted from the front."""
    shape = context.shape(data)
    at = resolve_axis(axis, len(shape))
    for name, vector in vectors.items():
        message = f"{context.operator}: {name} has {{actual}} elements, but axis {at} of the data {{expected}}"
        context.require_equal(context.shape(vector)[0], shape[at], message)
    return at


def _along_or_one(
    context: LowerContext, axis: int, data: relax.Expr, name: str, vector: relax.Expr
) -> tuple[int, Dim, Dim]:
    """Check at run time that a vector lies along an axis of the data, or is one element where a dimension is unknown.

    Relay's kernels broadcast such a vector.

    Returns
    -------
    at, size, whole : int, Dim, Dim
        The axis counted from the front, the length of the vector, and that which it is broadcast to.
    """
    shape, (size,) = context.shape(data), context.shape(vector)
    at = resolve_axis(axis, len(shape))
    if isinstance(size, int) and size != 1:
        lower_along_axis(context, axis, data, **{name: vector})
        return at, size, size
    size_or_one = shape[at] if isinstance(size, int) else dims.select(size == 1, shape[at], size)
    message = f"{context.operator}: {name} has {{actual}} elements, but axis {at} of the data {{expected}}"
    context.require_equal(size_or_one, shape[at], message)
    return at, size, shape[at]


def _same(attrs: LeakyReluAttrs | None, data: Type) -> Type:
    return require_tensor(data, "data")


@operator("nn.relu", "data", level=1, pattern=OpPattern.ELEMWISE, mixed="follow")
class Relu:
    """The data where it is not negative, else 0; NaN stays."""

    relation = staticmethod(_same)

    @staticmethod
    def compute(attrs: None, data: te.Tensor) -> te.Tensor:
        # The limit comes first, so that NaN stays NaN.
        return te.compute(data.shape, lambda *i: tirx.max(tirx.const(0, data.dtype), data(*i)), name="relu")


@attrs_node("relay.attrs.LeakyReluAttrs")
class LeakyReluAttrs(Attrs):
    """Attributes of nn.leaky_relu."""

    alpha: Float = field(0.25, script=REQUIRED, doc="What negative elements are multiplied by.")


@operator("nn.leaky_relu", "data", attrs=LeakyReluAttrs, level=3, pattern=OpPattern.ELEMWISE, mixed="follow")
class LeakyRelu:
    """The data where it is positive, else alpha times the data."""

    relation = staticmethod(_same)

    @staticmethod
    def compute(attrs: LeakyReluAttrs, data: te.Tensor) -> te.Tensor:
        slope = tirx.const(attrs.alpha, data.dtype)
        return te.compute(
            data.shape, lambda *i: tirx.Select(data(*i) > 0, data(*i), data(*i) * slope), name="leaky_relu"
        )


@attrs_node("relay.attrs.PReluAttrs")
class PReluAttrs(Attrs):
    """Attributes of nn.prelu."""

    axis: Int = field(1, doc="The axis along which alpha lies.")


@operator(
    "nn.prelu", "data", "alpha", attrs=PReluAttrs, level=3, pattern=OpPattern.ELEMWISE, mixed="follow", layout="axis"
)
class PRelu:
    """The data where it is positive, else the data times the alpha of its place on an axis."""

    @staticmethod
    def infer_inputs(attrs: PReluAttrs, data: Type, alpha: Type) -> dict[int, Type]:
        vector = vector_of(attrs.axis, data)
        return {} if vector is None else {1: vector}

    @staticmethod
    def relation(attrs: PReluAttrs, data: Type, alpha: Type) -> Type:
        along_axis(attrs.axis, data, alpha=alpha)
        return data

    @staticmethod
    def lower(context: LowerContext, attrs: PReluAttrs, data: relax.Expr, alpha: relax.Expr) -> relax.Expr:
        at, size, whole = _along_or_one(context, attrs.axis, data, "alpha", alpha)

        def compute(x: te.Tensor, slope: te.Tensor, size: list[Any], whole: list[Any]) -> te.Tensor:
            def element(*i: tirx.Expr) -> tirx.Expr:
                return tirx.Select(x(*i) > 0, x(*i), x(*i) * slope(*broadcast_index(size, whole, [i[at]])))

            return te.compute(x.shape, element, name="prelu")

        return context.te(compute, data, alpha, [size], [whole])


@attrs_node("relay.attrs.BiasAddAttrs")
class BiasAddAttrs(Attrs):
    """Attributes of nn.bias_add."""

    axis: Int = field(1, doc="The axis along which the bias lies.")


@operator(
    "nn.bias_add",
    "data",
    "bias",
    attrs=BiasAddAttrs,
    level=1,
    pattern=OpPattern.ELEMWISE,
    mixed="follow",
)
class BiasAdd:
    """The data with a vector added along an axis."""

    @staticmethod
    def infer_inputs(attrs: BiasAddAttrs, data: Type, bias: Type) -> dict[int, Type]:
        vector = vector_of(attrs.axis, data)
        return {} if vector is None else {1: vector}

    @staticmethod
    def relation(attrs: BiasAddAttrs, data: Type, bias: Type) -> Type:
        along_axis(attrs.axis, data, bias=bias)
        if data.dtype != bias.dtype:
            raise TypeCheckError(
                f"data and bias have different data types: {data.dtype} and {bias.dtype}; cast one of them"
            )
        return data

    @staticmethod
    def lower(context: LowerContext, attrs: BiasAddAttrs, data: relax.Expr, bias: relax.Expr) -> relax.Expr:
        at, size, whole = _along_or_one(context, attrs.axis, data, "bias", bias)

        def compute(x: te.Tensor, b: te.Tensor, size: list[Any], whole: list[Any]) -> te.Tensor:
            def element(*i: tirx.Expr) -> tirx.Expr:
                return x(*i) + b(*broadcast_index(size, whole, [i[at]]))

            return te.compute(x.shape, element, name="bias_add")

        return context.te(compute, data, bias, [size], [whole])


@attrs_node("relay.attrs.DropoutAttrs")
class DropoutAttrs(Attrs):
    """Attributes of nn.dropout."""

    rate: Float = field(0.5, doc="What part of the elements training would leave out.")


@operator("nn.dropout", "data", attrs=DropoutAttrs, level=1, pattern=OpPattern.OPAQUE, mixed="follow")
class Dropout:
    """The data as it is, for programs here are run and not trained; the operator's value is (data, mask of ones)."""

    @staticmethod
    def value(call: Call) -> Expr:
        return TupleGetItem(call, 0)

    @staticmethod
    def relation(attrs: DropoutAttrs, data: Type) -> Type:
        source = require_tensor(data, "data")
        return TupleType([source, source])

    @staticmethod
    def lower(context: LowerContext, attrs: DropoutAttrs, data: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
        shape = relax.ShapeExpr([dims.as_expr(d) for d in context.shape(data)])
        return data, context.emit(relax.op.ones(shape, str(data.ty.dtype)))


dropout_raw = derived_builder(
    "nn.dropout", ("data",), DropoutAttrs, "The call of nn.dropout, whose value is a tuple; nn.dropout takes a field."
)


def _fast(name: str, function: Callable[[te.Tensor], te.Tensor], doc: str) -> None:
    def compute(attrs: None, data: te.Tensor) -> te.Tensor:
        return as_dtype(function(as_dtype(data, "float32", "wide")), str(data.dtype))

    body = {"__doc__": doc, "relation": staticmethod(_same), "compute": staticmethod(compute)}
    operator(name, "data", level=1, pattern=OpPattern.ELEMWISE, mixed="follow")(type(name, (), body))


_fast("fast_exp", topi.fast_exp, "Approximate exponential.")
_fast("fast_tanh", topi.fast_tanh, "Approximate hyperbolic tangent.")
_fast("fast_erf", topi.fast_erf, "Approximate Gauss error function.")
