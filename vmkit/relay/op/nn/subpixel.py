"""Pixels moved between the spatial axes and the channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, Type
from ..attrs import Attrs, Dim, Int, Str, attrs_node, field
from ..elementwise import require_tensor
from ..fields import REQUIRED
from ..registry import OpPattern, Parameters, operator
from .layout import ordered, require_layout, require_rank

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = ["require_divides", "require_divides_at_run_time"]


@attrs_node("relay.attrs.SubPixelAttrs")
class SubPixelAttrs(Attrs):
    """Attributes of nn.space_to_depth and nn.depth_to_space."""

    block_size: Int = field(1, script=REQUIRED, doc="Pixels of a block on each axis.")
    layout: Str = field("NCHW", doc="Order of the data's axes.")
    mode: Str = field("DCR", doc="How depth_to_space reads channels: (block, channel), DCR, or (channel, block), CDR.")


def _image(attrs: SubPixelAttrs, data: Type) -> tuple[TensorType, str]:
    """Return the type of an image batch and its axes."""
    source = require_tensor(data, "data")
    axes = require_layout(attrs.layout, "NCHW", "layout")
    require_rank(source, 4, "data")
    if attrs.block_size < 1:
        raise TypeCheckError(f"block_size must be positive, not {attrs.block_size}")
    return source, axes


def require_divides(block: int, size: Dim, what: str) -> None:
    """Check that blocks divide a size that is known."""
    if isinstance(size, int) and size % block:
        raise TypeCheckError(f"{block} does not divide the {what}, {size}")


def require_divides_at_run_time(context: LowerContext, block: int, size: Dim, what: str) -> None:
    """Check at run time that blocks divide a size that is not known now."""
    if not isinstance(size, int):
        rest = dims.simplify(tirx.floormod(size, block))
        context.require_equal(rest, 0, f"{context.operator}: {block} does not divide the {what}; {{actual}} is left")


@operator(
    "nn.space_to_depth",
    "data",
    attrs=SubPixelAttrs,
    level=5,
    pattern=OpPattern.INJECTIVE,
    parameters=Parameters(fixed={"mode": ""}),
    layout="layout",
)
class SpaceToDepth:
    """Blocks of block_size x block_size pixels moved into the channels: block position first, then channel."""

    @staticmethod
    def relation(attrs: SubPixelAttrs, data: Type) -> Type:
        source, axes = _image(attrs, data)
        n, c, h, w = ordered(source.shape, axes, "NCHW")
        block = attrs.block_size
        require_divides(block, h, "height")
        require_divides(block, w, "width")
        made = [n, dims.mul(c, block * block), dims.floordiv(h, block), dims.floordiv(w, block)]
        return TensorType(ordered(made, "NCHW", axes), source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: SubPixelAttrs, data: relax.Expr) -> relax.Expr:
        _, _, h, w = ordered(context.shape(data), attrs.layout, "NCHW")
        require_divides_at_run_time(context, attrs.block_size, h, "height")
        require_divides_at_run_time(context, attrs.block_size, w, "width")
        return context.te(lambda x: _space_to_depth(attrs, x), data)


def _space_to_depth(attrs: SubPixelAttrs, data: te.Tensor) -> te.Tensor:
    axes, block = attrs.layout, attrs.block_size
    n, channels, h, w = ordered(data.shape, axes, "NCHW")

    def element(*index: tirx.Expr) -> tirx.Expr:
        i, c, y, x = ordered(index, axes, "NCHW")
        offset = tirx.floordiv(c, channels)
        row, column = tirx.floordiv(offset, block), tirx.floormod(offset, block)
        source = [i, tirx.floormod(c, channels), y * block + row, x * block + column]
        return data(*ordered(source, "NCHW", axes))

    made = [n, channels * (block * block), tirx.floordiv(h, block), tirx.floordiv(w, block)]
    return te.compute(ordered(made, "NCHW", axes), element, name="space_to_depth")


@operator(
    "nn.depth_to_space",
    "data",
    attrs=SubPixelAttrs,
    level=5,
    pattern=OpPattern.INJECTIVE,
    mixed="follow",
    layout="layout",
)
class DepthToSpace:
    """Channels moved into blocks of block_size x block_size pixels.

    In mode DCR the channels are ordered (block position, channel), in mode CDR (channel, block position).
    """

    @staticmethod
    def relation(attrs: SubPixelAttrs, data: Type) -> Type:
        source, axes = _image(attrs, data)
        if attrs.mode not in ("DCR", "CDR"):
            raise TypeCheckError(f"mode must be DCR or CDR, not {attrs.mode!r}")
        n, c, h, w = ordered(source.shape, axes, "NCHW")
        block = attrs.block_size
        # Fewer channels than a block takes make no pixel: an empty tensor, as in Relay.
        if not (isinstance(c, int) and c < block * block):
            require_divides(block * block, c, "channels")
        made = [n, dims.floordiv(c, block * block), dims.mul(h, block), dims.mul(w, block)]
        return TensorType(ordered(made, "NCHW", axes), source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: SubPixelAttrs, data: relax.Expr) -> relax.Expr:
        _, channels, _, _ = ordered(context.shape(data), attrs.layout, "NCHW")
        block = attrs.block_size**2
        if not isinstance(channels, int):
            whole = dims.select(channels < block, block, channels)
            require_divides_at_run_time(context, block, whole, "channels")
        return context.te(lambda x: _depth_to_space(attrs, x), data)


def _depth_to_space(attrs: SubPixelAttrs, data: te.Tensor) -> te.Tensor:
    axes, block = attrs.layout, attrs.block_size
    n, channels, h, w = ordered(data.shape, axes, "NCHW")
    made = tirx.floordiv(channels, block * block)

    def element(*index: tirx.Expr) -> tirx.Expr:
        i, c, y, x = ordered(index, axes, "NCHW")
        offset = tirx.floormod(y, block) * block + tirx.floormod(x, block)
        channel = offset * made + c if attrs.mode == "DCR" else c * (block * block) + offset
        return data(*ordered([i, channel, tirx.floordiv(y, block), tirx.floordiv(x, block)], "NCHW", axes))

    return te.compute(ordered([n, made, h * block, w * block], "NCHW", axes), element, name="depth_to_space")
