"""The virtual machine's own operators: on shapes, and calls of kernels that write into tensors given to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Expr
from ..ir.types import FuncType, TensorType, TupleType, Type, type_text
from .attrs import Attrs, Dims, Ints, attrs_node, field
from .elementwise import require_tensor
from .fields import REQUIRED
from .memory import not_in_pairs
from .registry import OpPattern, Parameters, entry, operator
from .shape import ShapeOf, ShapeOfAttrs, reshape_value, shape_text

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["invoke_tvm_op", "reshape_tensor", "shape_func", "shape_of"]


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


def _require_call(func: Type, inputs: Type, outputs: Type) -> TupleType:
    """Return the type of no value, which a call that writes its results gives; TypeCheckError where it is none."""
    if not isinstance(func, FuncType):
        raise TypeCheckError(f"func must be a function, not {type_text(func)}")
    for name, ty in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(ty, TupleType):
            raise TypeCheckError(f"{name} must be a tuple, not {type_text(ty)}")
    return TupleType([])


@operator("vm.invoke_tvm_op", "func", "inputs", "outputs", level=10, pattern=OpPattern.OPAQUE, pure=False)
class InvokeTVMOp:
    """Nothing; a primitive function is called on a tuple of inputs and writes its results into a tuple of tensors."""

    lower = staticmethod(not_in_pairs)

    @staticmethod
    def relation(attrs: None, func: Type, inputs: Type, outputs: Type) -> Type:
        return _require_call(func, inputs, outputs)


@attrs_node("relay.attrs.ShapeFuncAttrs")
class ShapeFuncAttrs(Attrs):
    """Attributes of vm.shape_func."""

    is_input: Ints = field((), doc="For each input whether it is a value of the function's; otherwise its shape.")


@operator(
    "vm.shape_func",
    "func",
    "inputs",
    "outputs",
    attrs=ShapeFuncAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters(
        "func inputs outputs is_inputs", renamed={"is_inputs": "is_input"}, given={"is_inputs": REQUIRED}
    ),
    pure=False,
)
class ShapeFunc:
    """Nothing; the shapes of the results of a primitive function are written into a tuple of vectors.

    The inputs are a tuple of shapes of what the function is called on, or of values of it where is_input says so.
    """

    lower = staticmethod(not_in_pairs)

    @staticmethod
    def relation(attrs: ShapeFuncAttrs, func: Type, inputs: Type, outputs: Type) -> Type:
        return _require_call(func, inputs, outputs)


invoke_tvm_op = entry("vm.invoke_tvm_op").builder
shape_func = entry("vm.shape_func").builder
