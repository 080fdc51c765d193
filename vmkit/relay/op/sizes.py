"""Sizes as values, and conditions on them: what the arithmetic on shapes in a model leaves to do at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import TensorType, Type
from .attrs import Attrs, Dim, Dims, DType, Ints, Str, attrs_node
from .elementwise import require_tensor
from .kernel import chosen
from .registry import OpPattern, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext, Value


@attrs_node("relay.attrs.SizeTensorAttrs")
class SizeTensorAttrs(Attrs):
    """Attributes of size_tensor: the elements in row-major order, and the shape they are laid out in."""

    values: Dims
    shape: Ints
    dtype: DType = "int64"


@operator("size_tensor", attrs=SizeTensorAttrs, level=10)
class SizeTensor:
    """A small tensor whose elements are integers over the symbolic dimensions of the function."""

    @staticmethod
    def relation(attrs: SizeTensorAttrs) -> Type:
        count = dims.product(attrs.shape)
        if count != len(attrs.values):
            raise TypeCheckError(f"the shape holds {count} elements, {len(attrs.values)} values are given")
        return TensorType(list(attrs.shape), attrs.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: SizeTensorAttrs) -> relax.Expr:
        shape = [int(d) for d in attrs.shape]
        values = context.dims(list(attrs.values))
        if not values:
            return context.emit(relax.op.zeros(relax.ShapeExpr(shape), attrs.dtype))

        def compute(elements: list[tirx.Expr]) -> te.Tensor:
            def element(*indices: tirx.Expr) -> tirx.Expr:
                flat: Any = 0
                for index, extent in zip(indices, shape, strict=True):
                    flat = flat * extent + index
                return chosen(flat, elements).astype(attrs.dtype)

            return te.compute(shape, element, name="size_tensor")

        return context.te(compute, [dims.as_expr(v) for v in values])


@attrs_node("relay.attrs.ContribPositionsAttrs")
class PositionsAttrs(Attrs):
    """Attributes of contrib.positions."""

    extent: Dim
    dtype: DType = "int64"


@operator("contrib.positions", attrs=PositionsAttrs, level=10, pattern=OpPattern.INJECTIVE)
class Positions:
    """The vector 0, 1, ... extent - 1, whose length is a size that may be symbolic."""

    @staticmethod
    def relation(attrs: PositionsAttrs) -> Type:
        return TensorType([attrs.extent], attrs.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: PositionsAttrs) -> relax.Expr:
        (extent,) = context.dims([attrs.extent])

        def compute(whole: list[tirx.Expr]) -> te.Tensor:
            return te.compute(whole, lambda i: i.astype(attrs.dtype), name="positions")

        return context.te(compute, [dims.as_expr(extent)])


@attrs_node("relay.attrs.RequireAttrs")
class RequireAttrs(Attrs):
    """Attributes of require: a symbolic integer that must not be 0, and what to say if it is."""

    condition: Dim
    message: Str


@operator("require", "data", attrs=RequireAttrs, level=10, pure=False)
class Require:
    """The input itself, once a condition on sizes has been checked; the run fails with the message otherwise."""

    @staticmethod
    def relation(attrs: RequireAttrs, data: Type) -> Type:
        return data

    @staticmethod
    def lower(context: LowerContext, attrs: RequireAttrs, data: Value) -> Value:
        (condition,) = context.dims([attrs.condition])
        context.require(dims.as_expr(condition) != 0, attrs.message)
        return data


@attrs_node("relay.attrs.DynRequireAttrs")
class DynRequireAttrs(Attrs):
    """Attributes of dyn.require: what to say when the condition does not hold."""

    message: Str


@operator("dyn.require", "data", "condition", attrs=DynRequireAttrs, level=10, pure=False)
class DynRequire:
    """The input, once a boolean scalar has been read and found true; the run fails with the message otherwise."""

    @staticmethod
    def relation(attrs: DynRequireAttrs, data: Type, condition: Type) -> Type:
        if len(require_tensor(condition, "condition").shape) != 0:
            raise TypeCheckError(f"the condition must be a scalar, not {condition}")
        return data

    @staticmethod
    def lower(context: LowerContext, attrs: DynRequireAttrs, data: Value, condition: relax.Expr) -> Value:
        def as_vector(flag: te.Tensor) -> te.Tensor:
            return te.compute((1,), lambda i: flag().astype("int64"), name="condition")

        (holds,) = context.read_dims(context.te(as_vector, condition))
        context.require_equal(holds, 1, attrs.message)
        return data
