"""Operators with a state that a model carries from call to call: caches, and recurrences in place of attention."""

from __future__ import annotations

import math

import numpy as np

from .... import relay
from ....relay.ir import Dim, Expr, TupleGetItem, dims
from ....relay.op import build
from ..context import Context
from ..registry import converter
from ..run_time_axes import size_along
from ..window import ConvolutionWindow
from .conversion import casted
from .convolution import conv
from .layout import to_shape


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


@converter("CausalConvWithState", since=27)
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
    if activation not in ("none", "silu", "swish"):
        ctx.fail(f"activation is {activation!r}; it is 'none', 'silu' or 'swish'")
    (batch, _, count), (channels, _, kernel) = ctx.shape(x), ctx.shape(weight)
    if not isinstance(kernel, int) or not isinstance(channels, int):
        ctx.fail(f"the numbers of channels and of steps must be known at import: the weight is {ctx.type(weight)}")
    before = kernel - 1
    if past is None:
        seen = relay.nn.pad(x, [[0, 0], [0, 0], [before, 0]], ctx.constant(0, ctx.dtype(x)))
    else:
        seen = relay.concatenate([past, x], 2)
    result = conv(ctx, seen, weight, bias, window=ConvolutionWindow(group=channels))
    if activation != "none":
        wide = casted(ctx, result, "float32")
        result = casted(ctx, relay.multiply(wide, relay.sigmoid(wide)), ctx.dtype(x))
    end = relay.strided_slice(seen, [count], [dims.add(count, before)], [1], axes=[2])
    return [result, to_shape(end, [batch, channels, before])]


@converter("LinearAttention", since=27)
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
    rules = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
    if update_rule not in rules:
        ctx.fail(f"update_rule is {update_rule!r}; it is one of {', '.join(rules)}")
    needs_decay, is_delta = rules[update_rule]
    for name, given, needed in (("decay", decay, needs_decay), ("beta", rate, is_delta)):
        if (given is not None) != needed:
            ctx.fail(f"update_rule {update_rule!r} {'needs' if needed else 'has no'} input {name!r}")
    dtype = ctx.dtype(query)
    batch, steps, hidden = ctx.shape(query)
    inner, width = dims.floordiv(hidden, q_num_heads), dims.floordiv(ctx.shape(value)[2], kv_num_heads)
    if not isinstance(inner, int):
        ctx.fail(f"the size of the last dimension must be known at import: the query is {ctx.type(query)}")

    def unpacked(x: Expr, *last: Dim) -> Expr:
        return to_shape(casted(ctx, x, "float32"), [batch, steps, *last])

    one = np.ones((), "float32")
    state_dtype = dtype if past is None else ctx.dtype(past)
    if past is None:
        shape = [batch, kv_num_heads, inner, width]
        past = relay.full(ctx.constant(0, "float32"), shape, "float32")
    factor = ctx.constant(one.reshape(1, 1, 1, 1), "float32")
    if decay is not None:
        each = 1 if dims.equal(ctx.shape(decay)[2], kv_num_heads) else inner
        factor = relay.exp(unpacked(decay, kv_num_heads, each))
    speed = ctx.constant(one.reshape(1, 1, 1), "float32")
    if rate is not None:
        speed = unpacked(rate, 1 if dims.equal(ctx.shape(rate)[2], 1) else kv_num_heads)
    both = build(
        "nn.contrib_linear_attention",
        unpacked(query, q_num_heads, inner),
        unpacked(key, kv_num_heads, inner),
        unpacked(value, kv_num_heads, width),
        casted(ctx, past, "float32"),
        factor,
        speed,
        scale=scale or 1 / math.sqrt(inner),
        is_delta=is_delta,
    )
    result = to_shape(TupleGetItem(both, 0), [batch, steps, dims.mul(q_num_heads, width)])
    return [casted(ctx, result, dtype), casted(ctx, TupleGetItem(both, 1), state_dtype)]
