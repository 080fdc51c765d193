"""Operators that broadcast a tensor to a shape, and those that sum it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Expr
from ..ir.expr import const as relay_const
from ..ir.types import Any as AnyDim
from ..ir.types import Dim, TensorType, Type
from .attrs import Dims
from .broadcast import broadcast_index
from .create import InitOpAttrs, read_shape, shape_vector
from .elementwise import require_tensor
from .kernel import const, grid, indexed, loops
from .rank import constant_list
from .registry import OpPattern, entry, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["require_fits"]


def require_fits(small: list[Dim], large: list[Dim], message: str) -> None:
    """Raise TypeCheckError unless a shape can be broadcast to another."""
    skip = len(large) - len(small)
    fits = skip >= 0 and all(
        dims.equal(a, 1) is not False or dims.equal(a, b) is not False for a, b in zip(small, large[skip:], strict=True)
    )
    if not fits:
        raise TypeCheckError(message)


def _text(shape: list[Dim]) -> str:
    return f"({', '.join(str(d) for d in shape)})"


def broadcast_value(context: LowerContext, data: relax.Expr, whole: list[Dim]) -> relax.Expr:
    """Return a lowered tensor broadcast to a shape, checked at run time."""
    own = context.shape(data)
    skip = len(whole) - len(own)
    for position, (have, want) in enumerate(zip(own, whole[skip:], strict=True), skip):
        if not isinstance(have, int) or have != 1:
            wanted = want if isinstance(have, int) else dims.select(have == 1, have, want)
            context.require_equal(
                have,
                wanted,
                f"{context.operator}: dimension {position} is {{actual}}; it cannot be broadcast to {{expected}}",
            )

    # A dimension that is known not to be 1 is the result's.
    whole = whole[:skip] + [h if isinstance(h, int) and h != 1 else w for h, w in zip(own, whole[skip:], strict=True)]

    def element(i: tuple[tirx.Expr, ...], data: te.Tensor, own: list[tirx.Expr], whole: list[tirx.Expr]) -> tirx.Expr:
        return data(*broadcast_index(own, whole[skip:], i[skip:]))

    return indexed(context, whole, element, data, own, whole)


@operator("broadcast_to", "data", attrs=InitOpAttrs, level=4, pattern=OpPattern.BROADCAST)
class BroadcastTo:
    """The input broadcast to a shape. A shape that is an expression is read at run time."""

    @staticmethod
    def build(data: Expr, shape: Dims | Expr) -> Expr:
        shape = constant_list(shape)
        if isinstance(shape, Expr):
            return entry("dyn.broadcast_to").call(data, shape, shape=None)
        return entry("broadcast_to").call(data, shape=shape)

    @staticmethod
    def relation(attrs: InitOpAttrs, data: Type) -> Type:
        source = require_tensor(data)
        if attrs.shape is None:
            raise TypeCheckError("shape is needed")
        shape = list(attrs.shape)
        require_fits(list(source.shape), shape, f"{_text(list(source.shape))} cannot be broadcast to {_text(shape)}")
        return TensorType(shape, source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: InitOpAttrs, data: relax.Expr) -> relax.Expr:
        own, asked = context.shape(data), list(attrs.shape or ())
        skip = len(asked) - len(own)
        # An unknown dimension of the shape is the input's own.
        known = [own[k - skip] if dims.is_any(d) and k >= skip else d for k, d in enumerate(asked)]
        return broadcast_value(context, data, context.dims(known))


@operator("dyn.broadcast_to", "data", "shape", attrs=InitOpAttrs, level=4, pattern=OpPattern.BROADCAST, mixed="follow")
class DynBroadcastTo:
    """The input broadcast to a shape that is read at run time."""

    build = staticmethod(BroadcastTo.build)

    @staticmethod
    def relation(attrs: InitOpAttrs, data: Type, shape: Type) -> Type:
        source, rank = require_tensor(data), shape_vector(shape)
        if rank < len(source.shape):
            raise TypeCheckError(f"the shape has {rank} dimensions, the input {len(source.shape)}")
        return TensorType([AnyDim()] * rank, source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: InitOpAttrs, data: relax.Expr, shape: relax.Expr) -> relax.Expr:
        return broadcast_value(context, data, read_shape(context, shape))


@operator("broadcast_to_like", "data", "broadcast_type", level=10, pattern=OpPattern.BROADCAST, mixed="follow")
class BroadcastToLike:
    """The input broadcast to the shape of another tensor."""

    @staticmethod
    def relation(attrs: None, data: Type, broadcast_type: Type) -> Type:
        source, like = require_tensor(data), require_tensor(broadcast_type, "broadcast_type")
        require_fits(list(source.shape), list(like.shape), f"{source} cannot be broadcast to {like}")
        return TensorType(list(like.shape), source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: relax.Expr, broadcast_type: relax.Expr) -> relax.Expr:
        return broadcast_value(context, data, context.shape(broadcast_type))


def _collapsed(context: LowerContext, data: relax.Expr, target: list[Dim]) -> relax.Expr:
    """Return the sums of the elements that broadcasting a tensor of shape `target` would have copied."""
    own = context.shape(data)
    skip = len(own) - len(target)
    for position, (want, have) in enumerate(zip(target, own[skip:], strict=True)):
        if not isinstance(want, int) or want != 1:
            wanted = have if isinstance(want, int) else dims.select(want == 1, want, have)
            message = f"{context.operator}: dimension {position} is {{expected}}; it cannot be summed to {{actual}}"
            context.require_equal(want, wanted, message)

    dtype = str(data.ty.dtype)

    def body(outputs: list[tirx.Buffer], data: tirx.Buffer, target: list[tirx.Expr], own: list[tirx.Expr]) -> None:
        (out,) = outputs
        with grid(target) as i:
            T.buffer_store(out, tirx.const(0, dtype), i)
        with grid(own) as i:
            to = [tirx.Select(t == 1, const(0), k) for t, k in zip(target, i[skip:], strict=True)]
            T.buffer_store(out, out[tuple(to)] + data[tuple(i)], to)

    return loops(context, [(target, dtype)], body, data, target, own)


@operator("collapse_sum_like", "data", "collapse_type", level=10, pattern=OpPattern.COMM_REDUCE)
class CollapseSumLike:
    """The input summed to the shape of another tensor: broadcasting undone, as in a gradient."""

    @staticmethod
    def relation(attrs: None, data: Type, collapse_type: Type) -> Type:
        source, like = require_tensor(data), require_tensor(collapse_type, "collapse_type")
        require_fits(list(like.shape), list(source.shape), f"{source} cannot be summed to {like}")
        return TensorType(list(like.shape), source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: relax.Expr, collapse_type: relax.Expr) -> relax.Expr:
        return _collapsed(context, data, context.shape(collapse_type))


@operator("collapse_sum_to", "data", "shape", attrs=InitOpAttrs, level=4, pattern=OpPattern.COMM_REDUCE)
class CollapseSumTo:
    """The input summed to a shape: broadcasting undone."""

    @staticmethod
    def build(data: Expr, shape: Dims | Expr) -> Expr:
        values = constant_list(shape)
        if isinstance(values, Expr):
            return entry("collapse_sum_to").call(data, values, shape=None)
        return entry("collapse_sum_to").call(data, relay_const(list(values), "int32"), shape=values)

    @staticmethod
    def relation(attrs: InitOpAttrs, data: Type, shape: Type) -> Type:
        source = require_tensor(data)
        target: list[Dim] = [AnyDim()] * shape_vector(shape) if attrs.shape is None else list(attrs.shape)
        require_fits(target, list(source.shape), f"{source} cannot be summed to {_text(target)}")
        return TensorType(target, source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: InitOpAttrs, data: relax.Expr, shape: relax.Expr) -> relax.Expr:
        target = read_shape(context, shape) if attrs.shape is None else context.dims(attrs.shape)
        return _collapsed(context, data, target)
