"""Deformable convolutions."""

from __future__ import annotations

from .... import relay
from ....relay.ir import Expr, dims
from ....relay.op import build
from ..context import Context
from ..registry import converter
from ..window import ConvolutionWindow
from .layout import to_shape


@converter("DeformConv", since=19, without=("auto_pad",))
def deform_conv(
    ctx: Context,
    x: Expr,
    weight: Expr,
    offset: Expr,
    bias: Expr | None = None,
    mask: Expr | None = None,
    *,
    window: ConvolutionWindow,
    offset_group: int = 1,
) -> Expr:
    """The points that a window reads are a second image, which an undeformed convolution takes window by window."""
    rank = ctx.rank(x) - 2
    if rank < 1:
        ctx.fail(f"{ctx.type(x)} has no spatial dimensions")
    kernel = window.of_weight(ctx, weight)
    columns = build(
        "nn.contrib_deformed_columns",
        x,
        offset,
        mask,
        kernel_size=kernel,
        strides=window.steps(rank),
        padding=window.margins(rank),
        dilation=window.spread(rank),
        deformable_groups=offset_group,
    )
    outputs = ctx.shape(weight)[0]
    points = int(dims.product(kernel))
    y = relay.nn.conv2d(
        columns,
        relay.transpose(relay.reshape(weight, [0, 0, -1, 1]), [2, 3, 1, 0]),
        groups=window.group,
        channels=outputs if isinstance(outputs, int) else None,
        kernel_size=(points, 1),
        data_layout="NHWC",
        kernel_layout="HWIO",
    )
    y = relay.transpose(y, [0, 3, 1, 2])
    y = y if bias is None else relay.nn.bias_add(y, bias, axis=1)
    sizes = ctx.shape(offset)[2:]
    if not any(dims.is_any(d) for d in (*ctx.shape(y)[:2], *sizes)):
        return to_shape(y, [*ctx.shape(y)[:2], *sizes])
    lengths = [relay.shape_of(v, dtype="int64") for v in (y, offset)]
    first = relay.strided_slice(lengths[0], [0], [2], [1])
    return relay.reshape(y, relay.concatenate([first, relay.strided_slice(lengths[1], [2], [rank + 2], [1])], 0))
