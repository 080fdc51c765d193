"""Gated delta networks: linear attention over tokens of one or several requests, with what makes its gates inside.

Requests of different lengths are padded with tokens that change no state: their keys are 0 and they decay nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Dim, Expr, TupleGetItem, dims
from ....relay.op import build
from ..context import Context
from ..known import sizes
from ..operators.activation import softplus
from ..operators.cache import rule
from ..operators.conversion import casted
from ..operators.elementwise import binary
from ..operators.layout import to_shape
from ..registry import AttributeGroup, converter
from ..run_time_axes import size_along
from ..typing import typed
from .delta_capture import DeltaHeads, FirstSteps
from .packed_convolution import check_capture
from .ragged import Ragged

_FLOAT = "float32"
_EPSILON = 1e-12  # beside the square of a vector that is made one of length 1


@dataclass(frozen=True)
class DeltaNet(AttributeGroup):
    """The attributes of a gated delta network."""

    beta_activation: str = "none"
    chunk_size: int = 64
    gate_activation: str = "none"
    gate_lower_bound: float = -5.0
    qk_l2_norm: int = 0
    scale: float = 0.0
    state_update_capacity: int = 0
    update_rule: str = "gated_delta"


@converter("GatedDeltaNet", domain="com.microsoft")
def gated_delta_net(
    ctx: Context,
    query: Expr,
    key: Expr | None = None,
    value: Expr | None = None,
    ends: Expr | None = None,
    decay: Expr | None = None,
    rate: Expr | None = None,
    past: Expr | None = None,
    a_log: Expr | None = None,
    dt_bias: Expr | None = None,
    capture_count: Expr | None = None,
    active: Expr | None = None,
    *,
    net: DeltaNet,
) -> list[Expr | None]:
    """The outputs of all tokens, the last states (requests, heads, width of value, of key), and what was captured."""
    for name, gating, needed in zip(("decay", "beta"), (decay, rate), rule(ctx, net.update_rule), strict=True):
        if (gating is not None) != needed:
            ctx.fail(f"update_rule {net.update_rule!r} {'needs' if needed else 'has no'} input {name!r}")
    check_capture(ctx, capture_count, net.state_update_capacity)
    heads = _heads(ctx, query, key, value, past)
    parts = _parts(ctx, query, key, value, heads)
    outer = ctx.rank(parts[0]) - 2
    gate = None if decay is None else _gate(ctx, net, decay, a_log, dt_bias, heads, outer)
    if rate is not None:
        rate = _rate(ctx, net, rate)
    given = [casted(ctx, v, _FLOAT) for v in parts]
    if net.qk_l2_norm:
        given = [*(_of_length_1(ctx, v) for v in given[:2]), given[2]]
    padding = _padding(ctx, parts[0], ends, past, outer)
    state = _state(ctx, past, padding.batch, heads)
    query_rows, key_rows, value_rows = (padding.padded(v) for v in given)
    factor = ctx.constant([[[[1.0]]]], _FLOAT) if gate is None else relay.exp(padding.padded(gate))
    speed = ctx.constant([[[1.0]]], _FLOAT) if rate is None else padding.padded(rate)
    apart = heads.values // heads.queries
    spread = [v if apart == 1 else relay.repeat(v, apart, 2) for v in (query_rows, key_rows)]
    both = build(
        "nn.contrib_linear_attention", *spread, value_rows, state, factor, speed,
        scale=net.scale or 1 / math.sqrt(heads.inner), is_delta=rate is not None,
    )  # fmt: skip
    made = casted(ctx, padding.back(TupleGetItem(both, 0)), ctx.dtype(query))
    last = relay.transpose(TupleGetItem(both, 1), [0, 1, 3, 2])
    captured = None
    if capture_count is not None:
        first = FirstSteps(ctx, heads, net.state_update_capacity, padding.lengths, capture_count, active)
        factors = None if gate is None else factor, None if rate is None else speed
        captured = first.captured(state, (key_rows, value_rows), *factors)
    return [made, last, captured]


def _heads(ctx: Context, query: Expr, key: Expr | None, value: Expr | None, past: Expr | None) -> DeltaHeads:
    if (key is None) != (value is None) or (key is None and past is None):
        ctx.fail("key and value are given, or left out together beside an initial_state, which has their sizes then")
    if key is not None and value is not None:
        (queries, inner), (values, width) = ctx.shape(query)[-2:], ctx.shape(value)[-2:]
    else:
        assert past is not None
        values, width, inner = ctx.shape(past)[1:]
        queries = dims.floordiv(dims.sub(ctx.shape(query)[-1], dims.mul(values, width)), dims.mul(inner, 2))
    known = [d for d in (queries, values, inner, width) if isinstance(d, int) and d > 0]
    if len(known) < 4:
        ctx.fail(f"heads and their widths must be known: {queries} and {values} heads, {inner} and {width} wide")
    heads = DeltaHeads(*known)
    if heads.values % heads.queries:
        ctx.fail(f"there are {values} heads of values and {queries} of queries, which they must be a multiple of")
    return heads


def _parts(ctx: Context, query: Expr, key: Expr | None, value: Expr | None, heads: DeltaHeads) -> list[Expr]:
    """Return query, key and value, the heads of which are a dimension of their own."""
    if key is not None and value is not None:
        return [query, key, value]
    outer, own = [0] * (ctx.rank(query) - 1), heads.queries * heads.inner
    found = relay.split(query, (own, 2 * own), axis=-1)
    shapes = [(heads.queries, heads.inner)] * 2 + [(heads.values, heads.width)]
    return [relay.reshape(v, [*outer, *shape], allowzero=False) for v, shape in zip(found, shapes, strict=True)]


def _of_length_1(ctx: Context, x: Expr) -> Expr:
    square = relay.sum(relay.multiply(x, x), [-1], True)
    return relay.multiply(x, relay.rsqrt(binary(ctx, "add", square, _EPSILON)))


def _rate(ctx: Context, net: DeltaNet, rate: Expr) -> Expr:
    rate = casted(ctx, rate, _FLOAT)
    if net.beta_activation not in ("none", "sigmoid"):
        ctx.fail(f"beta_activation is {net.beta_activation!r}; it is 'none' or 'sigmoid'")
    return rate if net.beta_activation == "none" else relay.sigmoid(rate)


def _gate(
    ctx: Context, net: DeltaNet, decay: Expr, a_log: Expr | None, dt_bias: Expr | None, heads: DeltaHeads, outer: int
) -> Expr:
    """Return the logarithm of what is left of a state: (..., heads, 1 or the width of a key)."""
    decay, of_each = casted(ctx, decay, _FLOAT), ctx.rank(decay) == outer + 2
    decay = decay if of_each else relay.expand_dims(decay, outer + 1)
    kind = {"qwen": "softplus", "kda": "sigmoid"}.get(net.gate_activation, net.gate_activation)
    if kind == "none":
        return decay
    if kind not in ("softplus", "sigmoid"):
        ctx.fail(f"gate_activation is {kind!r}; it is 'none', 'softplus' ('qwen') or 'sigmoid' ('kda')")
    if a_log is None or dt_bias is None:
        ctx.fail(f"gate_activation {net.gate_activation!r} needs the inputs a_log and dt_bias")
    is_wide = ctx.rank(dt_bias) == 2 or dims.equal(ctx.shape(dt_bias)[0], heads.values) is False
    raw = relay.add(decay, to_shape(dt_bias, [heads.values, heads.inner if is_wide else 1]))
    power = relay.exp(relay.reshape(a_log, [-1, 1]))
    if kind == "softplus":
        return relay.negative(relay.multiply(power, softplus(ctx, raw)))
    return binary(ctx, "multiply", relay.sigmoid(relay.multiply(power, raw)), net.gate_lower_bound)


@dataclass(frozen=True)
class _Padding:
    """How many requests there are, how long each is, and ways to bring tokens to (requests, steps, ...) and back."""

    batch: Dim
    lengths: Expr
    padded: Callable[[Expr], Expr]
    back: Callable[[Expr], Expr]


def _padding(ctx: Context, query: Expr, ends: Expr | None, past: Expr | None, outer: int) -> _Padding:
    if outer == 2:
        if ends is not None:
            ctx.fail("with cu_seqlens, all tokens lie along one dimension; query has two in front of its heads")
        return _Padding(ctx.shape(query)[0], size_along(ctx, query, 1), lambda x: x, lambda x: x)
    if ends is not None:
        return _of_lengths(ctx, query, ends, past)
    if past is None:
        ctx.fail("how many requests there are is not known without cu_seqlens and initial_state")
    batch = ctx.shape(past)[0]
    steps = dims.floordiv(ctx.shape(query)[0], batch)

    def padded(x: Expr) -> Expr:
        return to_shape(x, [batch, steps, *ctx.shape(typed(x))[1:]])

    def back(x: Expr) -> Expr:
        return relay.reshape(x, [-1, *ctx.shape(typed(x))[2:]])

    return _Padding(batch, sizes(np.array(steps, dtype=object)), padded, back)


def _of_lengths(ctx: Context, query: Expr, ends: Expr, past: Expr | None) -> _Padding:
    requests = Ragged(ctx, query, ends, past)
    zero, one = ctx.constant(0, "int64"), ctx.constant(1, "int64")
    longest = typed(relay.max(relay.concatenate([requests.lengths, ctx.constant([0], "int64")], 0)))
    steps = typed(relay.arange(zero, longest, one, "int64"))
    places = relay.add(relay.expand_dims(requests.starts, 1), steps)
    is_there = relay.less(steps, relay.expand_dims(requests.lengths, 1))
    where = relay.add(relay.multiply(requests.owner, longest), requests.local)

    def padded(x: Expr) -> Expr:
        rank = ctx.rank(typed(x))
        rows = relay.take(x, places, axis=0, mode="clip")
        return typed(relay.where(relay.expand_dims(is_there, 2, rank - 1), rows, ctx.constant(0, _FLOAT)))

    def back(x: Expr) -> Expr:
        return relay.take(relay.reshape(x, [-1, *ctx.shape(typed(x))[2:]]), where, axis=0)

    return _Padding(requests.batch, requests.lengths, padded, back)


def _state(ctx: Context, past: Expr | None, batch: Dim, heads: DeltaHeads) -> Expr:
    if past is None:
        return relay.full(ctx.constant(0, _FLOAT), [batch, heads.values, heads.inner, heads.width], _FLOAT)
    return typed(relay.transpose(casted(ctx, past, _FLOAT), [0, 1, 3, 2]))
