"""Convolutions with an activation, with channels last, or with padding in an input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..operators.convolution import conv, transposed_convolution
from ..registry import converter
from ..window import ConvolutionWindow
from .activation import activated
from .channels_last import channels_first, channels_last, over_channels_last


@converter("FusedConv", domain="com.microsoft")
def fused_conv(
    ctx: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    added: Expr | None = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    window: ConvolutionWindow,
) -> Expr:
    """A convolution, a tensor added to it, and the activation of the sum."""
    result = conv(ctx, x, weight, bias, window=window)
    if added is not None:
        result = relay.add(result, added)
    names = {"Clip": ("min", "max"), "HardSigmoid": ("alpha", "beta"), "LeakyRelu": ("alpha",)}.get(activation, ())
    return activated(ctx, result, activation, dict(zip(names, activation_params, strict=False)))


@converter("NhwcConv", domain="com.microsoft")
def channels_last_conv(
    ctx: Context, x: Expr, weight: Expr, bias: Expr | None = None, *, window: ConvolutionWindow
) -> Expr:
    """All have their channels last: the weight is (out, spatial, in), as onnxruntime's scripts write it."""
    kernel = channels_first(ctx, weight)
    return over_channels_last(ctx, lambda value: conv(ctx, value, kernel, bias, window=window))(x)


@converter("NhwcFusedConv", domain="com.microsoft")
def channels_last_fused_conv(
    ctx: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    added: Expr | None = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    window: ConvolutionWindow,
) -> Expr:
    """The data, the result and what is added have their channels last; the weight is as ONNX has it."""
    moved = None if added is None else channels_first(ctx, added)
    result = fused_conv(
        ctx, channels_first(ctx, x), weight, bias, moved,
        activation=activation, activation_params=activation_params, window=window,
    )  # fmt: skip
    return channels_last(ctx, result)


@converter("ConvTransposeWithDynamicPads", domain="com.microsoft", without=("pads",))
def conv_transpose_with_pads(
    ctx: Context,
    x: Expr,
    weight: Expr,
    pads: Expr | None = None,
    bias: Expr | None = None,
    *,
    window: ConvolutionWindow,
    output_padding: Sequence[int] | None = None,
) -> Expr:
    if pads is None or ctx.static(pads) is not None:
        known = window if pads is None else replace(window, pads=ctx.ints(pads, "Pads"))
        return transposed_convolution(ctx, x, weight, bias, known, output_padding)
    return transposed_convolution(ctx, x, weight, bias, window, output_padding, run_time_pads=pads)
