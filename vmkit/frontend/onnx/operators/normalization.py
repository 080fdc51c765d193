"""Normalisation by statistics of the input or of the training."""

from __future__ import annotations

from typing import Any

from .... import relay
from ....relay.ir import Dim, Expr, TupleGetItem, dims
from ..context import Context
from ..registry import converter
from ..typing import typed
from .conversion import casted
from .elementwise import binary
from .layout import to_shape

__all__ = ["by_group", "layer_normalization", "root_mean_square"]


@converter("BatchNormalization")
def batch_normalization(
    ctx: Context,
    x: Expr,
    scale: Expr,
    bias: Expr,
    mean: Expr,
    variance: Expr,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    is_test: int = 0,
    training_mode: int = 0,
    consumed_inputs: Any = None,
) -> list[Expr | None]:
    if not spatial:
        return [_by_position(ctx, x, scale, bias, mean, variance, epsilon)]
    # Before opset 14 a node that is trained is one with the outputs of training.
    if training_mode or (ctx.version < 14 and ctx.wants(1) and not is_test):
        return _trained(ctx, x, (scale, bias, mean, variance), momentum, epsilon)
    if not ctx.dtype(x) == ctx.dtype(scale) == ctx.dtype(mean):
        return [_normal(ctx, x, scale, bias, mean, variance, epsilon)]
    result = relay.nn.batch_norm(x, scale, bias, mean, variance, axis=1, epsilon=epsilon)
    whole = result.astuple() if hasattr(result, "astuple") else result
    return [TupleGetItem(whole, 0), None, None, None, None]


def _normal(ctx: Context, x: Expr, scale: Expr, bias: Expr, mean: Expr, variance: Expr, epsilon: float) -> Expr:
    """Return the input with the statistics of its channels taken out, in the data type of the statistics."""
    own, wide = ctx.dtype(x), ctx.dtype(mean)
    behind = ctx.rank(x) - 2
    scale, bias, mean, variance = (
        relay.expand_dims(casted(ctx, v, wide), 1, behind) if behind else casted(ctx, v, wide)
        for v in (scale, bias, mean, variance)
    )
    factor = relay.multiply(scale, relay.rsqrt(relay.add(variance, ctx.constant(epsilon, wide))))
    return casted(ctx, relay.add(relay.multiply(relay.subtract(casted(ctx, x, wide), mean), factor), bias), own)


def _by_position(ctx: Context, x: Expr, scale: Expr, bias: Expr, mean: Expr, variance: Expr, epsilon: float) -> Expr:
    """Return the input normalised by statistics for every position of a channel."""
    factor = relay.multiply(scale, relay.rsqrt(binary(ctx, "add", variance, epsilon)))
    return relay.add(relay.multiply(relay.subtract(x, mean), factor), bias)


def _trained(
    ctx: Context, x: Expr, parameters: tuple[Expr, Expr, Expr, Expr], momentum: float, epsilon: float
) -> list[Expr | None]:
    """Return the input normalised by its own statistics, and the running ones moved towards them."""
    scale, bias, mean, variance = parameters
    wide = ctx.dtype(mean)
    values = casted(ctx, x, wide)
    axes = [k for k in range(ctx.rank(x)) if k != 1]
    own_mean = relay.mean(values, axes, True)
    centred = relay.subtract(values, own_mean)
    own_variance = relay.mean(relay.multiply(centred, centred), axes, False)
    own_mean = relay.mean(values, axes, False)
    result = _normal(ctx, x, scale, bias, own_mean, own_variance, epsilon)

    def moved(running: Expr, own: Expr) -> Expr:
        kept = relay.multiply(running, ctx.constant(momentum, wide))
        return relay.add(kept, relay.multiply(own, ctx.constant(1 - momentum, wide)))

    running = [moved(mean, own_mean), moved(variance, own_variance)]
    return [result, *running, own_mean, own_variance][: max(len(ctx.node.output), 1)]


@converter("InstanceNormalization")
def instance_normalization(
    ctx: Context, x: Expr, scale: Expr, bias: Expr, *, epsilon: float = 1e-5, consumed_inputs: Any = None
) -> Expr:
    return relay.nn.instance_norm(x, scale, bias, axis=1, epsilon=epsilon)


@converter("LayerNormalization", since=17)
def layer_normalization(
    ctx: Context,
    x: Expr,
    scale: Expr,
    bias: Expr | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> list[Expr]:
    rank, dtype = ctx.rank(x), ctx.dtype(x)
    axes = list(range(ctx.axis(axis, rank), rank))
    is_plain = len(axes) == 1 and dtype == "float32" and not (ctx.wants(1) or ctx.wants(2))
    if is_plain and bias is not None and all(_is_row(ctx, v, x) for v in (scale, bias)):
        return [relay.nn.layer_norm(x, scale, bias, axis=-1, epsilon=epsilon)]
    wide = "float32" if stash_type == 1 and dtype in ("float16", "bfloat16") else dtype
    values = casted(ctx, x, wide)
    mean = relay.mean(values, axes, True)
    centred = relay.subtract(values, mean)
    variance = relay.mean(relay.multiply(centred, centred), axes, True)
    inverse = relay.rsqrt(binary(ctx, "add", variance, epsilon))
    result = relay.multiply(casted(ctx, relay.multiply(centred, inverse), dtype), scale)
    return [result if bias is None else relay.add(result, bias), mean, inverse]


def _is_row(ctx: Context, x: Expr, rows: Expr) -> bool:
    """Say whether a tensor is a vector with an element for each column; otherwise it may have to be broadcast."""
    if ctx.rank(x) != 1:
        return False
    (own,) = ctx.shape(x)
    return bool(dims.equal(own, ctx.shape(rows)[-1])) or (isinstance(own, int) and own != 1)


@converter("RMSNormalization", since=23)
def rms_normalization(
    ctx: Context, x: Expr, scale: Expr, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Expr:
    return root_mean_square(ctx, x, scale, axis, epsilon, stash_type)[0]


def root_mean_square(ctx: Context, x: Expr, scale: Expr, axis: int, epsilon: float, stash_type: int) -> list[Expr]:
    """Return a tensor divided by the root of the mean of its squares, scaled, and what it was multiplied with."""
    rank, dtype = ctx.rank(x), ctx.dtype(x)
    axes = list(range(ctx.axis(axis, rank), rank))
    wide = "float32" if stash_type == 1 and dtype in ("float16", "bfloat16") else dtype
    values = casted(ctx, x, wide)
    square = relay.mean(relay.multiply(values, values), axes, True)
    inverse = relay.rsqrt(binary(ctx, "add", square, epsilon))
    return [relay.multiply(casted(ctx, relay.multiply(values, inverse), dtype), scale), inverse]


@converter("GroupNormalization", since=18)
def group_normalizationby_group(
    ctx: Context, x: Expr, scale: Expr, bias: Expr, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Expr:
    """Until opset 21, scale and bias are given for each group instead of each channel."""
    return by_group(ctx, x, num_groups, epsilon, scale, bias, per_group=True)


@converter("GroupNormalization", since=21)
def group_normalization(
    ctx: Context, x: Expr, scale: Expr, bias: Expr, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Expr:
    return by_group(ctx, x, num_groups, epsilon, scale, bias, per_group=False)


def by_group(ctx: Context, x: Expr, groups: int, epsilon: float, scale: Expr, bias: Expr, *, per_group: bool) -> Expr:
    """Return a tensor with the mean of each group of channels taken off, divided by its deviation, and scaled."""
    shape = ctx.shape(x)
    channels = -1 if dims.is_any(shape[1]) else dims.floordiv(shape[1], groups)
    grouped = typed(relay.reshape(x, [0, -4, groups, channels, -2]))
    axes = list(range(2, ctx.rank(grouped)))
    centred = relay.subtract(grouped, relay.mean(grouped, axes, True))
    variance = relay.mean(relay.multiply(centred, centred), axes, True)
    normal = relay.multiply(centred, relay.rsqrt(binary(ctx, "add", variance, epsilon)))
    if per_group:
        spread: list[Dim] = [1, groups, *[1] * len(axes)]
        result = relay.add(relay.multiply(normal, to_shape(scale, spread)), to_shape(bias, spread))
        return relay.reshape_like(result, x)
    spread = [1, shape[1], *[1] * (len(shape) - 2)]
    return relay.add(relay.multiply(relay.reshape_like(normal, x), to_shape(scale, spread)), to_shape(bias, spread))


@converter("LRN")
def lrn(ctx: Context, x: Expr, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Expr:
    return relay.nn.lrn(x, size=size, axis=1, bias=bias, alpha=alpha, beta=beta)
