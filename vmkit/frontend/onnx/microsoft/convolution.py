"""Convolutions with an activation, with channels last, or with padding in an input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..operators.convolution import conv, transposed_convolution
from ..registry import converter
from .activation import activated


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
    kernel_shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    group: int = 1,
) -> Expr:
    """A convolution, a tensor added to it, and the activation of the sum."""
    result = conv(
        ctx, x, weight, bias, kernel_shape=kernel_shape, strides=strides, dilations=dilations, pads=pads,
        auto_pad=auto_pad, group=group,
    )  # fmt: skip
    if added is not None:
        result = relay.add(result, added)
    names = {"Clip": ("min", "max"), "HardSigmoid": ("alpha", "beta"), "LeakyRelu": ("alpha",)}.get(activation, ())
    return activated(ctx, result, activation, dict(zip(names, activation_params, strict=False)))


@converter("NhwcConv", "NhwcFusedConv", domain="com.microsoft")
def channels_last_conv(
    ctx: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    added: Expr | None = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    kernel_shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    group: int = 1,
) -> Expr:
    """The data, the result and what is added have their channels last; the weight is as ONNX has it."""
    rank = ctx.rank(x)
    first, last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    attributes: dict[str, Any] = {
        "activation": activation, "activation_params": activation_params, "kernel_shape": kernel_shape,
        "strides": strides, "dilations": dilations, "pads": pads, "auto_pad": auto_pad, "group": group,
    }  # fmt: skip
    moved = None if added is None else relay.transpose(added, first)
    return relay.transpose(fused_conv(ctx, relay.transpose(x, first), weight, bias, moved, **attributes), last)


@converter("ConvTransposeWithDynamicPads", domain="com.microsoft")
def conv_transpose_with_pads(
    ctx: Context,
    x: Expr,
    weight: Expr,
    pads: Expr | None = None,
    bias: Expr | None = None,
    *,
    kernel_shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    group: int = 1,
    output_padding: Sequence[int] | None = None,
) -> Expr:
    is_known = pads is None or ctx.static(pads) is not None
    return transposed_convolution(
        ctx, x, weight, bias, kernel_shape=kernel_shape, strides=strides, dilations=dilations,
        pads=ctx.ints(pads, "Pads") if pads is not None and is_known else None, auto_pad=auto_pad, group=group,
        output_padding=output_padding, run_time_pads=None if is_known else pads,
    )  # fmt: skip
