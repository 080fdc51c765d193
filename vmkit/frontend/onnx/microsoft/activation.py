"""Activations, and activations fused with a bias."""

from __future__ import annotations

from typing import Any

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..operators.activation import gelu, softmax_of_matrix
from ..operators.elementwise import binary
from ..registry import converter, find

__all__ = ["activated", "fast_gelu"]


@converter("Gelu", domain="com.microsoft")
def gelu_by_error_function(ctx: Context, x: Expr) -> Expr:
    return gelu(ctx, x)


@converter("BiasGelu", domain="com.microsoft")
def bias_gelu(ctx: Context, x: Expr, bias: Expr) -> Expr:
    return gelu(ctx, relay.add(x, bias))


@converter("FastGelu", domain="com.microsoft")
def fast_gelu(ctx: Context, x: Expr, bias: Expr | None = None) -> Expr:
    return gelu(ctx, x if bias is None else relay.add(x, bias), approximate="tanh")


@converter("QuickGelu", domain="com.microsoft")
def quick_gelu(ctx: Context, x: Expr, *, alpha: float = 1.702) -> Expr:
    return relay.multiply(x, relay.sigmoid(binary(ctx, "multiply", x, alpha)))


@converter("BiasSplitGelu", domain="com.microsoft")
def bias_split_gelu(ctx: Context, x: Expr, bias: Expr) -> Expr:
    """The left half of the channels times the activation of the right half."""
    width = ctx.shape(x)[-1]
    if not isinstance(width, int) or width % 2:
        ctx.fail(f"the last dimension, {width}, must be a known even number")
    left, right = relay.split(relay.add(x, bias), 2, axis=-1)
    return relay.multiply(left, gelu(ctx, right))


@converter("BiasAdd", domain="com.microsoft")
def bias_add(ctx: Context, x: Expr, bias: Expr, skip: Expr) -> Expr:
    return relay.add(relay.add(x, bias), skip)


@converter("BiasDropout", domain="com.microsoft")
def bias_dropout(
    ctx: Context,
    x: Expr,
    bias: Expr,
    residual: Expr | None = None,
    ratio: Expr | None = None,
    training_mode: Expr | None = None,
    *,
    seed: int | None = None,
) -> list[Expr]:
    if training_mode is not None and ctx.required(training_mode, "training_mode").item() and ctx.scalar(ratio) != 0:
        ctx.fail("training_mode is on; only inference can be compiled")
    kept = relay.add(x, bias)
    mask = [relay.cast(relay.ones_like(x), "bool")] if ctx.wants(1) else []
    return [kept if residual is None else relay.add(kept, residual), *mask]


@converter("BiasSoftmax", domain="com.microsoft")
def bias_softmax(ctx: Context, x: Expr, bias: Expr, *, is_inner_broadcast: int, axis: int = 1) -> Expr:
    """The softmax of a sum, over all dimensions from `axis` on.

    The bias is repeated along the dimensions before `axis`: along the first of them, or (inner) along those between the
    ones that it has and `axis`.
    """
    rank, at = ctx.rank(x), ctx.axis(axis, ctx.rank(x))
    shape = ctx.shape(bias)
    missing = rank - len(shape)
    if missing > 0 and is_inner_broadcast:
        leading = len(shape) - (rank - at)
        bias = relay.expand_dims(bias, leading, missing) if leading > 0 else bias
    return softmax_of_matrix(ctx, relay.add(x, bias), axis=at)


def activated(ctx: Context, x: Expr, name: str, parameters: dict[str, Any]) -> Expr:
    """Return the activation of ONNX that an attribute names; none for an empty name."""
    if not name:
        return x
    made = find("", name, 10)
    if name not in _FUSED or made is None:
        ctx.fail(f"the activation {name!r} is not supported; there are {', '.join(_FUSED)}")
    given = {key: parameters[key] for key in _FUSED[name] if key in parameters}
    return made.function(ctx, x, **given)


_FUSED: dict[str, tuple[str, ...]] = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "Softplus": (), "Softsign": (), "Elu": ("alpha",), "LeakyRelu": ("alpha",),
    "ThresholdedRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Selu": ("alpha", "gamma"), "Clip": ("min", "max"),
}  # fmt: skip
