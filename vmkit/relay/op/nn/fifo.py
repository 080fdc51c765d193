"""A buffer of the last elements of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, Type
from ..attrs import Attrs, Int, attrs_node
from ..axis import resolve_axis
from ..elementwise import require_tensor
from ..kernel import indexed
from ..registry import OpPattern, operator

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.FIFOBufferAttrs")
class FIFOBufferAttrs(Attrs):
    """Attributes of nn.fifo_buffer."""

    axis: Int = 0


@operator("nn.fifo_buffer", "data", "buffer", attrs=FIFOBufferAttrs, level=3, pattern=OpPattern.OPAQUE)
class FifoBuffer:
    """The buffer moved along axis by as much as data is long, with data at its end: the last elements of the two."""

    @staticmethod
    def relation(attrs: FIFOBufferAttrs, data: Type, buffer: Type) -> Type:
        new, old = require_tensor(data, "data"), require_tensor(buffer, "buffer")
        if len(new.shape) != len(old.shape) or new.dtype != old.dtype:
            raise TypeCheckError(f"data and buffer must agree in rank and data type, not be {new} and {old}")
        along = resolve_axis(attrs.axis, len(old.shape))
        for axis, (a, b) in enumerate(zip(new.shape, old.shape, strict=True)):
            if axis == along and dims.at_least(b, a) is False:
                raise TypeCheckError(f"data has {a} elements along axis {axis}, more than the {b} of the buffer")
            if axis != along and dims.equal(a, b) is False:
                raise TypeCheckError(f"dimension {axis} is {a} in data and {b} in the buffer")
        return TensorType(list(old.shape), old.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: FIFOBufferAttrs, data: relax.Expr, buffer: relax.Expr) -> relax.Expr:
        new, old = context.shape(data), context.shape(buffer)
        along = resolve_axis(attrs.axis, len(old))
        for axis, (a, b) in enumerate(zip(new, old, strict=True)):
            if axis != along:
                message = f"nn.fifo_buffer: dimension {axis} is {{actual}} in data and {{expected}} in the buffer"
                context.require_equal(a, b, message)
            elif not (isinstance(a, int) and isinstance(b, int)):
                message = f"nn.fifo_buffer: data has more elements along axis {axis} than the buffer"
                context.require(dims.as_expr(a) <= dims.as_expr(b), message)

        def element(i: tuple[tirx.Expr, ...], data: te.Tensor, buffer: te.Tensor) -> tirx.Expr:
            place = i[along] + data.shape[along]
            kept = buffer(*i[:along], place, *i[along + 1 :])
            added = data(*i[:along], place - buffer.shape[along], *i[along + 1 :])
            return tirx.if_then_else(place < buffer.shape[along], kept, added)

        return indexed(context, old, element, data, buffer)
