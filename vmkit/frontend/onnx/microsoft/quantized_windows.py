"""onnxruntime's quantised convolutions and pools, whose channels may come last."""

from __future__ import annotations

from .... import relay
from ....relay.ir import Expr, dims
from ..context import Context
from ..operators.pooling import average_pool
from ..operators.quantization import qlinear_conv
from ..quantization import multiplied, quantized
from ..registry import converter
from ..window import ConvolutionWindow, Window
from .channels_last import over_channels_last
from .quantization import between

_MICROSOFT = "com.microsoft"
_EXACT = 1 << 22  # integers of 8 bits, each less its zero point, whose sum int32 holds


@converter("QLinearConv", domain=_MICROSOFT)
def qlinear_convolution(
    ctx: Context,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr,
    w: Expr,
    w_scale: Expr,
    w_zero: Expr,
    y_scale: Expr,
    y_zero: Expr,
    bias: Expr | None = None,
    *,
    window: ConvolutionWindow,
    channels_last: int = 0,
) -> Expr:
    """The weight is as ONNX has it, whatever the layout of the data."""

    def convolved(value: Expr) -> Expr:
        return qlinear_conv(ctx, value, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias, window=window)

    return over_channels_last(ctx, convolved)(x) if channels_last else convolved(x)


@converter("QLinearGlobalAveragePool", domain=_MICROSOFT)
def qlinear_global_average_pool(
    ctx: Context,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr | None,
    y_scale: Expr,
    y_zero: Expr | None = None,
    *,
    channels_last: int = 0,
) -> Expr:
    rank = ctx.rank(x)
    axes = list(range(1, rank - 1)) if channels_last else list(range(2, rank))
    count = dims.product([ctx.shape(x)[axis] for axis in axes])
    if not isinstance(count, int) or not 0 < count <= _EXACT or ctx.rank(x_scale):
        return between(ctx, lambda v: relay.mean(v, axis=axes, keepdims=True), x, x_scale, x_zero, y_scale, y_zero)
    # The sum of integers is exact, and shorter than that of what they stand for.
    total = relay.sum(relay.cast(x, "int32"), axis=axes, keepdims=True)
    if x_zero is not None:
        zeros = relay.multiply(relay.cast(x_zero, "int32"), ctx.constant(count, "int32"))
        total = relay.subtract(total, zeros)
    mean = multiplied(ctx, total, (x_scale, ctx.constant(count, "float32")))
    return quantized(ctx, mean, y_scale, y_zero, ctx.dtype(x))


@converter("QLinearAveragePool", domain=_MICROSOFT, without=("dilations",))
def qlinear_average_pool(
    ctx: Context,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr | None,
    y_scale: Expr,
    y_zero: Expr | None = None,
    *,
    window: Window,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    channels_last: int = 0,
) -> Expr:
    def pooled(value: Expr) -> Expr:
        return average_pool(ctx, value, window=window, ceil_mode=ceil_mode, count_include_pad=count_include_pad)

    compute = over_channels_last(ctx, pooled) if channels_last else pooled
    return between(ctx, compute, x, x_scale, x_zero, y_scale, y_zero)
