"""Images as they are stored."""

from __future__ import annotations

from ....relay.ir import Expr
from ....relay.op import build
from ..context import Context
from ..registry import converter


@converter("ImageDecoder", since=20)
def image_decoder(ctx: Context, stream: Expr, *, pixel_format: str = "RGB") -> Expr:
    return build("image.contrib_decode", stream, pixel_format=pixel_format)
