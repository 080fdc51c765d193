"""The reorganisation of pixels in YOLO networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import relax, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import Dim, TensorType, Type
from ..attrs import Attrs, Int, attrs_node
from ..elementwise import require_tensor
from ..kernel import indexed
from ..nn.layout import require_rank
from ..registry import OpPattern, operator

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.YoloReorgAttrs")
class YoloReorgAttrs(Attrs):
    """Attributes of vision.yolo_reorg."""

    stride: Int = 1


@operator("vision.yolo_reorg", "data", attrs=YoloReorgAttrs, level=5, pattern=OpPattern.OPAQUE)
class YoloReorg:
    """The pixels of an image (batch, channels, height, width) in another order, as Darknet's reorg layer gives them.

    The memory of an image is read as (channels / stride^2, height * stride, width * stride); its blocks of stride by
    stride are laid side by side as channels. The result is the same memory as (channels * stride^2, height / stride,
    width / stride).
    """

    @staticmethod
    def relation(attrs: YoloReorgAttrs, data: Type) -> Type:
        source = require_tensor(data, "data")
        require_rank(source, 4, "data")
        stride = attrs.stride
        if stride < 1:
            raise TypeCheckError(f"stride must be positive, not {stride}")
        for size, by, name in zip(source.shape[1:], (stride**2, stride, stride), _NAMES, strict=True):
            if isinstance(size, int) and size % by:
                raise TypeCheckError(
                    f"the {name} of data, {size}, must be a multiple of {by}, for a stride of {stride}"
                )
        return TensorType(_result(source.shape, stride), source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: YoloReorgAttrs, data: relax.Expr) -> relax.Expr:
        shape, stride = context.shape(data), attrs.stride
        for size, by, name in zip(shape[1:], (stride**2, stride, stride), _NAMES, strict=True):
            if not isinstance(size, int):
                message = f"vision.yolo_reorg: the {name} of data must be a multiple of {by}, for a stride of {stride}"
                context.require(size % by == 0, message)

        if dims.product(shape) == 0:
            # There is no view of nothing.
            return context.emit(relax.op.zeros(relax.ShapeExpr(_exprs(_result(shape, stride))), data.ty.dtype))
        batch, channels, height, width = shape
        groups = dims.floordiv(channels, stride**2)
        wide = _viewed(context, data, [batch, groups, height, stride, width, stride])
        blocks = indexed(
            context,
            [batch, stride, stride, groups, height, width],
            lambda i, wide: wide(i[0], i[3], i[4], i[1], i[5], i[2]),
            wide,
        )
        return _viewed(context, blocks, _result(shape, stride))


def _exprs(shape: Sequence[Dim]) -> list[tirx.Expr]:
    return [dims.as_expr(d) for d in shape]


def _viewed(context: LowerContext, value: relax.Expr, shape: Sequence[Dim]) -> relax.Expr:
    """Return the same memory as a tensor of another shape.

    As Relax's reshape this would become a kernel that divides by unknown sizes in every index, which the compiler
    takes seconds or minutes over.
    """
    target = relax.ShapeExpr(_exprs(shape))
    made = relax.TensorType(target, value.ty.dtype)
    return context.emit(relax.call_pure_packed("vm.builtin.reshape", value, target, ty_args=made))


_NAMES = ("channels", "height", "width")


def _result(shape: Sequence[Dim], stride: int) -> list[Dim]:
    batch, channels, height, width = shape
    return [batch, dims.mul(channels, stride**2), dims.floordiv(height, stride), dims.floordiv(width, stride)]
