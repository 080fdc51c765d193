"""The virtual machine's own operators on shapes, which Relay's passes put into programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Expr
from ..ir.types import TensorType, Type
from .attrs import Attrs, Dims, attrs_node
from .elementwise import require_tensor
from .registry import OpPattern, entry, operator
from .shape import ShapeOf, ShapeOfAttrs, reshape_value, shape_text

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["reshape_tensor", "shape_of"]


def shape_of(expr: Expr) -> Expr:
    """Return the shape of an expression as a vector of int64."""
    return entry("vm.shape_of").call(expr, dtype="int64")


@operator("vm.shape_of", "tensor", attrs=ShapeOfAttrs, level=10, pattern=OpPattern.OPAQUE)
class VMShapeOf:
    """The shape of the input as a vector."""

    build = staticmethod(shape_of)
    relation = staticmethod(ShapeOf.relation)
    lower = staticmethod(ShapeOf.lower)


@attrs_node("relay.attrs.ReshapeTensorAttrs")
class ReshapeTensorAttrs(Attrs):
    """Attributes of vm.reshape_tensor."""

    newshape: Dims


def reshape_tensor(data: Expr, shape: Expr, newshape: Dims) -> Expr:
    """Return the same elements under a shape that is read at run time; `newshape` is what is known of it."""
    return entry("vm.reshape_tensor").call(data, shape, newshape=newshape)


@operator("vm.reshape_tensor", "data", "shape", attrs=ReshapeTensorAttrs, level=10, pattern=OpPattern.OPAQUE)
class ReshapeTensor:
    """The same elements under a shape that is read at run time; newshape is what is known of it."""

    build = staticmethod(reshape_tensor)

    @staticmethod
    def relation(attrs: ReshapeTensorAttrs, data: Type, shape: Type) -> Type:
        source, wanted, newshape = require_tensor(data, "data"), require_tensor(shape, "shape"), list(attrs.newshape)
        if len(wanted.shape) != 1 or dims.equal(wanted.shape[0], len(newshape)) is not True:
            raise TypeCheckError(f"shape must be a vector of {len(newshape)} sizes, as newshape has, not {wanted}")
        if not wanted.dtype.startswith("int"):
            raise TypeCheckError(f"shape must hold integers, not {wanted}")
        if dims.equal(dims.product(source.shape), dims.product(newshape)) is False:
            raise TypeCheckError(f"newshape {shape_text(newshape)} does not hold the elements of {source}")
        return TensorType(newshape, source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: ReshapeTensorAttrs, data: relax.Expr, shape: relax.Expr) -> relax.Expr:
        sizes = list(context.read_dims(shape))
        for axis, (size, known) in enumerate(zip(sizes, context.dims(list(attrs.newshape)), strict=True)):
            if not dims.is_any(known):
                message = f"vm.reshape_tensor: dimension {axis} of shape is {{actual}}, but newshape says {{expected}}"
                context.require_equal(size, known, message)
                sizes[axis] = known
        return reshape_value(context, data, sizes)
