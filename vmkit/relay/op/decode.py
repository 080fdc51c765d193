"""Images decoded while a program runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax

from ...errors import TypeCheckError
from ...values.images import CHANNELS, DECODE
from ..ir.types import Any as AnyDim
from ..ir.types import TensorType, Type
from .attrs import Attrs, Str, attrs_node
from .elementwise import require_tensor
from .registry import OpPattern, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.ContribDecodeImageAttrs")
class DecodeImageAttrs(Attrs):
    """Attributes of image.contrib_decode."""

    pixel_format: Str = "RGB"


@operator("image.contrib_decode", "stream", attrs=DecodeImageAttrs, level=10, pattern=OpPattern.OPAQUE)
class DecodeImage:
    """The pixels (height, width, channels) of the bytes of an image file; none where they cannot be decoded."""

    @staticmethod
    def relation(attrs: DecodeImageAttrs, stream: Type) -> Type:
        given = require_tensor(stream, "stream")
        if len(given.shape) != 1 or given.dtype != "uint8":
            raise TypeCheckError(f"stream must be a vector of bytes (uint8), not {given}")
        if attrs.pixel_format not in CHANNELS:
            raise TypeCheckError(f"pixel_format is {attrs.pixel_format!r}; it is {', '.join(CHANNELS)}")
        return TensorType([AnyDim(), AnyDim(), CHANNELS[attrs.pixel_format]], "uint8")

    @staticmethod
    def lower(context: LowerContext, attrs: DecodeImageAttrs, stream: relax.Expr) -> relax.Expr:
        pixels = relax.op.call_pure_packed(
            f"{DECODE}.{attrs.pixel_format}", stream, ty_args=[relax.TensorType(ndim=3, dtype="uint8")]
        )
        return context.pin(context.emit(pixels), [AnyDim(), AnyDim(), CHANNELS[attrs.pixel_format]])
