"""Dimensions in an order that is read at run time, and a shape that is known better than an operator can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import Any as AnyDim
from ..ir.types import TensorType, Type
from .agreement import may_agree
from .attrs import Attrs, Dims, attrs_node
from .elementwise import require_tensor
from .index import require_integers
from .kernel import as_index, chosen, const, indexed
from .registry import OpPattern, operator
from .shape import reshape_value, shape_text

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []


@operator("dyn.transpose", "data", "axes", level=3, pattern=OpPattern.INJECTIVE)
class DynTranspose:
    """The input with its dimensions in an order that is read at run time.

    axes names each dimension once, counted from the front; anything else is an error when run.
    """

    @staticmethod
    def relation(attrs: None, data: Type, axes: Type) -> Type:
        source, order = require_tensor(data), require_integers(axes, "axes")
        rank = len(source.shape)
        if len(order.shape) != 1 or dims.equal(order.shape[0], rank) is False:
            raise TypeCheckError(f"axes must be a vector that names each of the {rank} dimensions, not {order}")
        return TensorType([AnyDim()] * rank, source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: relax.Expr, axes: relax.Expr) -> relax.Expr:
        have = context.shape(data)
        rank = len(have)
        message = "dyn.transpose: axes has {actual} elements for {expected} dimensions"
        context.require_equal(context.shape(axes)[0], rank, message)
        if rank == 0:
            return data

        def size(i: tuple[tirx.Expr, ...], sizes: list[tirx.Expr], axes: te.Tensor) -> tirx.Expr:
            named = [tirx.any(*[as_index(axes(k)) == d for k in range(rank)]) for d in range(rank)]
            valid = tirx.Select(tirx.all(*named), const(1), const(0))
            at = as_index(axes(tirx.min(i[0], rank - 1)))
            return tirx.Select(i[0] == rank, valid, chosen(at, sizes))

        known = [dims.as_expr(d) for d in have]
        *sizes, valid = context.read_dims(indexed(context, [rank + 1], size, known, axes, name="transposed_sizes"))
        context.require_equal(valid, 1, f"dyn.transpose: axes must name each of the {rank} dimensions once")

        def element(i: tuple[tirx.Expr, ...], data: te.Tensor, axes: te.Tensor) -> tirx.Expr:
            at = []
            for d in range(rank):
                position = i[rank - 1]
                for k in range(rank - 1):
                    position = tirx.Select(as_index(axes(k)) == d, i[k], position)
                at.append(position)
            return data(*at)

        return indexed(context, sizes, element, data, axes)


@attrs_node("relay.attrs.ContribPinShapeAttrs")
class PinShapeAttrs(Attrs):
    """Attributes of contrib.pin_shape: the shape, with ``Any`` where nothing more is known."""

    shape: Dims


@operator("contrib.pin_shape", "data", attrs=PinShapeAttrs, level=10, pattern=OpPattern.INJECTIVE)
class PinShape:
    """The input itself, under a shape of which more is known than its type says; checked at run time."""

    @staticmethod
    def relation(attrs: PinShapeAttrs, data: Type) -> Type:
        source, shape = require_tensor(data), list(attrs.shape)
        if not may_agree(shape, source.shape):
            raise TypeCheckError(f"{source} has no shape {shape_text(shape)}")
        return TensorType([b if dims.is_any(a) else a for a, b in zip(shape, source.shape, strict=True)], source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: PinShapeAttrs, data: relax.Expr) -> relax.Expr:
        have, pinned = context.shape(data), []
        for k, (actual, wanted) in enumerate(zip(have, list(attrs.shape), strict=True)):
            if dims.is_any(wanted):
                pinned.append(actual)
                continue
            (expected,) = context.dims([wanted])
            context.require_equal(actual, expected, f"dimension {k} is {{actual}}, expected {{expected}}")
            pinned.append(expected)
        # A cast would make one symbol of two, which fused kernels do not bear; a reshape only looks at the same memory.
        return reshape_value(context, data, pinned)
