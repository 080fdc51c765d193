"""Operators with a state that a model carries from call to call: caches, and recurrences in place of attention."""

from __future__ import annotations

import math

import numpy as np

from .... import relay
from ....relay.ir import Dim, Expr, TupleGetItem, dims
from ....relay.op import build
from ..context import Context
from ..registry import converter
from ..run_time_axes import pinned, positions_along, size_along
from ..typing import typed
from ..window import ConvolutionWindow
from .conversion import casted
from .convolution import conv
from .layout import to_shape

__all__ = ["convolved_with_past", "linearly_attended", "rule"]


@converter("TensorScatter", since=24)
def tensor_scatter(
    ctx: Context, cache: Expr, update: Expr, starts: Expr | None = None, *, axis: int = -2, mode: str = "linear"
) -> Expr:
    """The cache with new elements at a position of each sequence."""
    if mode not in ("linear", "circular"):
        ctx.fail(f"mode is {mode!r}; it is 'linear' or 'circular'")
    at = ctx.axis(axis, ctx.rank(cache))
    zero = ctx.constant(0, "int64")
    if starts is None:
        starts = relay.full(zero, [ctx.shape(update)[0]], "int64")
    elif mode == "linear":
        last = relay.subtract(size_along(ctx, cache, at), size_along(ctx, update, at))
        fits = relay.logical_and(relay.greater_equal(starts, zero), relay.less_equal(starts, last))
        message = "an update does not lie inside the cache: write_indices + sequence_length is larger than it"
        starts = build("dyn.require", starts, relay.all(fits), message=message)
    return build("contrib.tensor_scatter", cache, update, starts, axis=at, circular=mode == "circular")


@converter("CausalConvWithState", since=27, named_sizes=True)
def causal_convolution(
    ctx: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    past: Expr | None = None,
    *,
    activation: str = "none",
) -> list[Expr]:
    """A convolution of each channel with what came before, and the end of what it has seen."""
    return convolved_with_past(ctx, x, weight, bias, past, activation)


def convolved_with_past(
    ctx: Context, x: Expr, weight: Expr, bias: Expr | None, past: Expr | None, activation: str, dilation: int = 1
) -> list[Expr]:
    """Return a convolution (batch, channels, steps) of each channel by itself, and the end of what it has seen.

    Parameters
    ----------
    weight : Expr
        (channels, 1, kernel), whose last step is that of the result.
    past : Expr, optional
        What came before: (batch, channels, (kernel - 1) * dilation); zeros if it is not given.
    activation : str
        Of the result: none, silu or swish.
    """
    if activation not in ("none", "silu", "swish"):
        ctx.fail(f"activation is {activation!r}; it is 'none', 'silu' or 'swish'")
    (batch, given, count), (channels, _, kernel) = ctx.shape(x), ctx.shape(weight)
    if any(dims.is_any(d) for d in (count, channels, kernel)):
        ctx.fail(f"sizes are known only at run time: the input is {ctx.type(x)}, the weight {ctx.type(weight)}")
    channels = channels if isinstance(channels, int) else given
    x, weight = (typed(pinned(ctx, v, s)) for v, s in ((x, [batch, channels, count]), (weight, [channels, 1, kernel])))
    bias = None if bias is None else typed(pinned(ctx, bias, [channels]))
    before = dims.mul(dims.sub(kernel, 1), dilation)
    if past is None:
        seen = relay.nn.pad(x, [[0, 0], [0, 0], [before, 0]], ctx.constant(0, ctx.dtype(x)))
    else:
        seen = relay.concatenate([pinned(ctx, past, [batch, channels, before]), x], 2)
    if isinstance(channels, int):
        result = conv(ctx, seen, weight, bias, window=ConvolutionWindow(group=channels, dilations=[dilation]))
    else:
        result = _by_channel(ctx, seen, weight, bias, count, dilation)
    if activation != "none":
        wide = casted(ctx, result, "float32")
        result = casted(ctx, relay.multiply(wide, relay.sigmoid(wide)), ctx.dtype(x))
    end = relay.strided_slice(seen, [count], [dims.add(count, before)], [1], axes=[2])
    return [result, to_shape(end, [batch, channels, before])]


def _by_channel(ctx: Context, seen: Expr, weight: Expr, bias: Expr | None, count: Dim, dilation: int) -> Expr:
    """Return the convolution for as many channels as the run has, which is no number of groups yet."""
    steps = relay.multiply(positions_along(ctx, weight, 2), ctx.constant(dilation, "int64"))
    places = relay.add(relay.expand_dims(ctx.positions(count, "int64"), 1), steps)
    windows, kernel = (casted(ctx, v, "float32") for v in (relay.take(seen, places, axis=2), weight))
    result = casted(ctx, relay.sum(relay.multiply(windows, kernel), axis=3), ctx.dtype(seen))
    return result if bias is None else relay.nn.bias_add(result, bias, axis=1)


@converter("LinearAttention", since=27, named_sizes=True)
def linear_attention(
    ctx: Context,
    query: Expr,
    key: Expr,
    value: Expr,
    past: Expr | None = None,
    decay: Expr | None = None,
    rate: Expr | None = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> list[Expr]:
    """Outputs (batch, steps, hidden) and the state, computed in float32."""
    for name, given, needed in zip(("decay", "beta"), (decay, rate), rule(ctx, update_rule), strict=True):
        if (given is not None) != needed:
            ctx.fail(f"update_rule {update_rule!r} {'needs' if needed else 'has no'} input {name!r}")
    return linearly_attended(ctx, (query, key, value), past, decay, rate, (q_num_heads, kv_num_heads), scale)


def rule(ctx: Context, update_rule: str) -> tuple[bool, bool]:
    """Return whether what a state has decays, and whether what it has for a key is taken off what is added."""
    rules = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
    if update_rule not in rules:
        ctx.fail(f"update_rule is {update_rule!r}; it is one of {', '.join(rules)}")
    return rules[update_rule]


def linearly_attended(
    ctx: Context,
    given: tuple[Expr, Expr, Expr],
    past: Expr | None,
    decay: Expr | None,
    rate: Expr | None,
    heads: tuple[int, int],
    scale: float,
) -> list[Expr]:
    """Return the outputs of a linear attention (batch, steps, hidden), and its state.

    Parameters
    ----------
    given : tuple of Expr
        Query, key and value, whose heads lie side by side.
    past : Expr, optional
        The state before: (batch, heads, width of a key, width of a value); zeros if it is not given.
    decay : Expr, optional
        The logarithm of what is left of the state: a number for each head, or for each element of a key.
    rate : Expr, optional
        With it, what the state has for a key is taken off the value, and the rest counts so much: (batch, steps, 1 or
        heads).
    heads : tuple of int
        Those of the query, and those of key and value, of which the first is a multiple.
    scale : float
        What the query is multiplied by; 0 is one over the root of its width.
    """
    query, key, value = given
    own, shared = heads
    dtype = ctx.dtype(query)
    batch, steps, hidden = ctx.shape(query)
    inner, width = dims.floordiv(hidden, own), dims.floordiv(ctx.shape(value)[2], shared)
    queries = casted(ctx, query, "float32")
    if not scale and isinstance(inner, int):
        scale = 1 / math.sqrt(inner)
    elif not scale:
        scale, queries = 1.0, relay.multiply(queries, relay.rsqrt(relay.cast(size_along(ctx, query, 2), "float32")))
        queries = relay.multiply(queries, ctx.constant(math.sqrt(own), "float32"))

    def unpacked(x: Expr, *last: Dim) -> Expr:
        return to_shape(casted(ctx, x, "float32"), [batch, steps, *last])

    state_dtype = dtype if past is None else ctx.dtype(past)
    if past is None:
        past = relay.full(ctx.constant(0, "float32"), [batch, shared, inner, width], "float32")
    factor, speed = (ctx.constant(np.ones([1] * rank), "float32") for rank in (4, 3))
    if decay is not None:
        each = dims.floordiv(ctx.shape(decay)[2], shared)
        factor = relay.exp(unpacked(decay, shared, each))
        factor = _spread(ctx, factor, [batch, steps, shared, inner])
    if rate is not None:
        speed = _spread(ctx, casted(ctx, rate, "float32"), [batch, steps, shared])
    both = build(
        "nn.contrib_linear_attention",
        unpacked(queries, own, inner),
        unpacked(key, shared, inner),
        unpacked(value, shared, width),
        casted(ctx, past, "float32"),
        factor,
        speed,
        scale=scale,
        is_delta=rate is not None,
    )
    result = to_shape(TupleGetItem(both, 0), [batch, steps, dims.mul(own, width)])
    return [casted(ctx, result, dtype), casted(ctx, TupleGetItem(both, 1), state_dtype)]


def _spread(ctx: Context, x: Expr, shape: list[Dim]) -> Expr:
    """Return a tensor whose last size is 1 or that of a shape; with that of the shape where it is not known which."""
    last = ctx.shape(x)[-1]
    if dims.equal(last, 1) or dims.equal(last, shape[-1]) is not None:
        return x
    return relay.broadcast_to(x, shape)
