"""Attention without a softmax, whose state is a matrix for each head, and the convolution in front of it."""

from __future__ import annotations

from .... import relay
from ....relay.ir import Expr, dims
from ..context import Context
from ..operators.cache import convolved_with_past, linearly_attended, rule
from ..operators.layout import to_shape
from ..registry import converter

_MICROSOFT = "com.microsoft"


@converter("LinearAttention", domain=_MICROSOFT, named_sizes=True)
def linear_attention(
    ctx: Context,
    query: Expr,
    key: Expr,
    value: Expr,
    state: Expr | None = None,
    decay: Expr | None = None,
    rate: Expr | None = None,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    chunk_size: int = 64,
    scale: float = 0.0,
    state_window: int = 0,
    update_rule: str = "gated_delta",
) -> list[Expr]:
    """As ONNX's own; what a rule does not take is left out, and fewer heads of queries each ask several states."""
    decays, corrects = rule(ctx, update_rule)
    if state_window:
        ctx.fail(f"state_window is {state_window}; 0 is supported")
    if (decays and decay is None) or (corrects and rate is None):
        ctx.fail(f"update_rule {update_rule!r} needs {'decay' if decays and decay is None else 'beta'}")
    more, fewer = max(q_num_heads, kv_num_heads), min(q_num_heads, kv_num_heads)
    if fewer < 1 or more % fewer:
        ctx.fail(f"q_num_heads {q_num_heads} and kv_num_heads {kv_num_heads}: one must be a multiple of the other")
    if q_num_heads < kv_num_heads:
        batch, rows, hidden = ctx.shape(query)
        width = dims.floordiv(hidden, q_num_heads)
        apart = relay.repeat(to_shape(query, [batch, rows, q_num_heads, width]), more // fewer, 2)
        query = to_shape(apart, [batch, rows, dims.mul(more, width)])
    given = query, key, value
    decay, rate = decay if decays else None, rate if corrects else None
    return linearly_attended(ctx, given, state, decay, rate, (more, kv_num_heads), scale)


@converter("CausalConvWithState", domain=_MICROSOFT, named_sizes=True)
def causal_convolution(
    ctx: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    past: Expr | None = None,
    *,
    activation: str = "none",
    channels_last: int = 0,
    dilation: int = 1,
    input_channel_offset: int = 0,
    input_channels: int = 0,
    ndim: int = 1,
    state_channels_last: int = -1,
    state_length: int = 0,
    state_update_capacity: int = 0,
    state_window: int = 0,
) -> list[Expr]:
    """Each channel by itself, over positions before and the one itself; the state is the end of what was there."""
    if input_channel_offset or input_channels or state_channels_last != -1 or state_length or state_update_capacity:
        ctx.fail(
            "input_channels, input_channel_offset, state_channels_last, state_length and state_update_capacity, which "
            "onnxruntime has on CUDA alone, are not supported; slice and transpose in nodes of their own"
        )
    if ndim != 1 or state_window or ctx.rank(x) != 3:
        ctx.fail(
            f"ndim {ndim}, state_window {state_window}, an input {ctx.type(x)}; 1, 0 and three dimensions are supported"
        )
    if channels_last:
        x, past = relay.transpose(x, [0, 2, 1]), None if past is None else relay.transpose(past, [0, 2, 1])
    made = convolved_with_past(ctx, x, weight, bias, past, activation, dilation)
    return [relay.transpose(v, [0, 2, 1]) for v in made] if channels_last else made
