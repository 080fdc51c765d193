"""The reorganisation of pixels in YOLO networks."""

from __future__ import annotations

from typing import Any

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import Dim, TensorType, Type
from ..attrs import Attrs, Int, attrs_node
from ..elementwise import require_tensor
from ..kernel import indexed
from ..nn.layout import require_rank
from ..registry import OpPattern, operator

__all__: list[str] = []


@attrs_node("relay.attrs.YoloReorgAttrs")
class YoloReorgAttrs(Attrs):
    """Attributes of vision.yolo_reorg."""

    stride: Int = 1


@operator("vision.yolo_reorg", "data", attrs=YoloReorgAttrs, level=5, pattern=OpPattern.INJECTIVE)
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
    def lower(context: Any, attrs: YoloReorgAttrs, data: relax.Expr) -> Any:
        shape, stride = context.shape(data), attrs.stride
        for size, by, name in zip(shape[1:], (stride**2, stride, stride), _NAMES, strict=True):
            if not isinstance(size, int):
                message = f"vision.yolo_reorg: the {name} of data must be a multiple of {by}, for a stride of {stride}"
                context.require(size % by == 0, message)

        def element(index: Any, data: te.Tensor) -> Any:
            _, channels, height, width = data.shape
            b, c, y, x = index
            # Where the element lies in the memory of its image, and what the reordering puts there.
            offset = (c * tirx.floordiv(height, stride) + y) * tirx.floordiv(width, stride) + x
            k, row, column = _split(offset, [channels, height, width])
            groups = tirx.floordiv(channels, stride**2)
            part = tirx.floordiv(k, groups)
            wide_row = row * stride + tirx.floordiv(part, stride)
            wide_column = column * stride + tirx.floormod(part, stride)
            source = (tirx.floormod(k, groups) * height * stride + wide_row) * width * stride + wide_column
            return data(b, *_split(source, [channels, height, width]))

        return indexed(context, _result(shape, stride), element, data)


_NAMES = ("channels", "height", "width")


def _result(shape: Any, stride: int) -> list[Dim]:
    batch, channels, height, width = shape
    return [batch, dims.mul(channels, stride**2), dims.floordiv(height, stride), dims.floordiv(width, stride)]


def _split(offset: Any, sizes: list[Any]) -> list[Any]:
    """Return the indices of an element by its place in row-major order."""
    _, height, width = sizes
    row = tirx.floordiv(offset, width)
    return [tirx.floordiv(row, height), tirx.floormod(row, height), tirx.floormod(offset, width)]
