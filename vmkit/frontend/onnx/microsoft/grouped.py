"""Attention whose heads share keys and values, with the cache that it fills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Dim, Expr, dims
from ....relay.op import build
from ..attention import Bias, Heads, Softmax, attend, merged_heads, padded_mask, split_heads
from ..context import Context
from ..operators.attention import add_window
from ..operators.conversion import casted
from ..operators.layout import to_shape
from ..operators.normalization import root_mean_square
from ..registry import converter
from ..run_time_axes import positions_along, size_along
from .rotary import turned_heads

__all__ = ["Cache", "filled", "heads_apart", "keys_before"]


@dataclass(frozen=True)
class Cache:
    """Keys and values of all positions, and where the new ones begin: (batch, 1, 1, 1)."""

    key: Expr
    value: Expr
    before: Expr


@converter("GroupQueryAttention", domain="com.microsoft")
def group_query_attention(
    ctx: Context,
    query: Expr,
    key: Expr | None,
    value: Expr | None,
    past_key: Expr | None,
    past_value: Expr | None,
    last: Expr,
    total: Expr,
    cosines: Expr | None = None,
    sines: Expr | None = None,
    position_ids: Expr | None = None,
    added: Expr | None = None,
    sink: Expr | None = None,
    k_scale: Expr | None = None,
    v_scale: Expr | None = None,
    q_norm: Expr | None = None,
    k_norm: Expr | None = None,
    used_rows: Expr | None = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    causal: int = 1,
    do_rotary: int = 0,
    k_norm_epsilon: float | None = None,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int = 0,
    local_window_size: int = -1,
    q_norm_epsilon: float | None = None,
    qk_norm_epsilon: float = 1e-6,
    qk_output: int = 0,
    rotary_interleaved: int = 0,
    scale: float | None = None,
    sliding_window_cache: int = 0,
    smooth_softmax: int = -1,
    softcap: float = 0.0,
    v_quant_type: str = "NONE",
) -> list[Expr | None]:
    """`last` has the position of each sequence's last key, `total` how many keys the longest one has.

    Of the rows of a sequence so many are used as `used_rows` says, if it is given; what is behind them is padding.
    """
    if k_scale is not None or v_scale is not None or sliding_window_cache:
        ctx.fail("quantised and sliding caches are not supported")
    query, key, value = heads_apart(ctx, query, key, value, num_heads, kv_num_heads)
    epsilons = [qk_norm_epsilon if e is None else e for e in (q_norm_epsilon, k_norm_epsilon)]
    query, key = _normalised(ctx, (query, key), (q_norm, k_norm), epsilons)
    if used_rows is not None and not causal:
        ctx.fail("query_seqlens is given, and causal is 0; rows behind the used ones would count")
    before = keys_before(ctx, last, query, ctx.shape(query)[0], used_rows)
    if do_rotary:
        if cosines is None or sines is None:
            ctx.fail("do_rotary needs cos_cache and sin_cache")
        at = _positions(ctx, query, before) if position_ids is None else position_ids
        query, key = (turned_heads(ctx, x, at, cosines, sines, bool(rotary_interleaved)) for x in (query, key))
    cache = Cache(key, value, before)
    if past_key is not None and past_value is not None:
        cache = filled(ctx, past_key, past_value, cache, total)
    bias = Bias(ctx, ctx.dtype(query))
    whole = [*ctx.shape(query)[:3], ctx.shape(cache.key)[2]]
    if added is not None:
        bias.add(padded_mask(ctx, added, whole, 0))
    # The window of onnxruntime has the key of the query itself in it.
    left = local_window_size - 1 if local_window_size >= 0 else -1
    add_window(ctx, bias, query, cache.key, before, left, 0 if causal else -1, hides_rows=False)
    if not causal:
        ends = relay.reshape(casted(ctx, last, "int64"), [-1, 1, 1, 1])
        bias.allow(relay.less_equal(positions_along(ctx, cache.key, 2), ends))
    heads = Heads(query, cache.key, cache.value)
    if sink is not None or smooth_softmax == 1:
        heads = _with_sink(ctx, heads, bias, sink)
    taken: dict[str, Expr] = {}
    keep = taken.__setitem__ if ctx.wants(3) and qk_output else None
    softmax = Softmax(Softmax.scale_of(ctx, query, scale or None), softcap, change=keep)
    result = merged_heads(ctx, attend(ctx, heads, softmax, bias))
    if used_rows is not None:
        result = _without_padding(ctx, result, used_rows)
    return [result, cache.key, cache.value, taken.get("biased" if qk_output == 1 else "weights")]


def _normalised(
    ctx: Context, heads: Sequence[Expr], weights: Sequence[Expr | None], epsilons: Sequence[float]
) -> list[Expr]:
    """Return queries and keys, each head over the root of the mean of its squares if there are weights for it."""
    given = [weight for weight in weights if weight is not None]
    if len(given) == 1:
        ctx.fail("q_norm_weight and k_norm_weight must be given together")
    if not given:
        return list(heads)
    return [root_mean_square(ctx, x, w, -1, e, 1)[0] for x, w, e in zip(heads, given, epsilons, strict=True)]


def _positions(ctx: Context, query: Expr, before: Expr) -> Expr:
    """Return the places of the new rows, which follow those before."""
    return relay.add(relay.squeeze(before, [2, 3]), relay.expand_dims(positions_along(ctx, query, 2), 0))


def _without_padding(ctx: Context, result: Expr, used_rows: Expr) -> Expr:
    """Return the rows of each sequence with zeros behind those that are used."""
    rows = relay.expand_dims(positions_along(ctx, result, 1), 0)
    is_used = relay.less(rows, relay.expand_dims(casted(ctx, used_rows, "int64"), 1))
    return relay.where(relay.expand_dims(is_used, 2), result, ctx.constant(0, ctx.dtype(result)))


def heads_apart(
    ctx: Context, query: Expr, key: Expr | None, value: Expr | None, heads: int, shared: int
) -> tuple[Expr, Expr, Expr]:
    """Return the heads of query, key and value, which may come as one."""
    if key is None or value is None:
        hidden = ctx.shape(query)[2]
        if not isinstance(hidden, int) or hidden % (heads + 2 * shared):
            ctx.fail(f"the last dimension of the query, {hidden}, is not that of {heads} + 2 * {shared} heads")
        width = hidden // (heads + 2 * shared)
        query, key, value = relay.split(query, (heads * width, (heads + shared) * width), axis=2)
    return split_heads(ctx, query, heads), split_heads(ctx, key, shared), split_heads(ctx, value, shared)


def keys_before(ctx: Context, last: Expr, query: Expr, batch: Dim, used_rows: Expr | None = None) -> Expr:
    """Return how many keys each sequence had before the new ones: (batch, 1, 1, 1); none in a padded prompt."""
    ends = relay.reshape(casted(ctx, last, "int64"), [batch, 1, 1, 1], allowzero=True)
    rows = size_along(ctx, query, 2)
    if used_rows is not None:
        rows = relay.reshape(casted(ctx, used_rows, "int64"), [batch, 1, 1, 1], allowzero=True)
    rows = relay.subtract(rows, ctx.constant(1, "int64"))
    return relay.maximum(relay.subtract(ends, rows), ctx.constant(0, "int64"))


def filled(ctx: Context, past_key: Expr, past_value: Expr, new: Cache, total: Expr | None = None) -> Cache:
    """Return the cache with the new keys and values in their places; it grows to `total` where it is shorter."""
    starts = relay.reshape(new.before, [-1])
    known = ctx.dims(total)
    have = ctx.shape(past_key)[2]

    def grown(x: Expr) -> Expr:
        if total is None:
            return x
        zero = ctx.constant(0, ctx.dtype(x))
        if known is not None and not dims.is_any(have):
            more = dims.maximum(dims.sub(known[0], have), 0)
            if isinstance(more, int) and more == 0:
                return x
            grown = relay.nn.pad(x, [[0, 0], [0, 0], [0, more], [0, 0]], zero)
            return to_shape(grown, [*ctx.shape(x)[:2], dims.add(have, more), ctx.shape(x)[3]])
        size = relay.reshape(casted(ctx, total, "int64"), [])
        first, step = ctx.constant(0, "int64"), ctx.constant(1, "int64")
        missing = relay.arange(first, relay.subtract(size, size_along(ctx, x, 2)), step, "int64")
        batch, heads, _, width = ctx.shape(x)
        # All that is missing is the same row of zeros; so all dimensions but one stay known.
        rows = relay.take(relay.full(zero, [batch, heads, 1, width], ctx.dtype(x)), missing, axis=2)
        return relay.concatenate([x, rows], 2)

    def updated(past: Expr, values: Expr) -> Expr:
        whole = grown(past)
        room = relay.subtract(size_along(ctx, whole, 2), size_along(ctx, values, 2))
        fits = relay.all(relay.less_equal(starts, room))
        message = f"{ctx.node.op_type}: a length of keys is beyond the end of the cache"
        at = build("dyn.require", starts, fits, message=message)
        return build("contrib.tensor_scatter", whole, values, at, axis=2)

    return Cache(updated(past_key, new.key), updated(past_value, new.value), new.before)


def _with_sink(ctx: Context, heads: Heads, bias: Bias, sink: Expr | None) -> Heads:
    """Return keys and values with one more, of zeros, whose score is the sink of each head: it only takes weight."""
    count = ctx.shape(heads.query)[1]
    whole: list[Any] = [*ctx.shape(heads.query)[:3], ctx.shape(heads.key)[2]]
    added = bias.value()
    if added is None:
        added = ctx.constant([[[[0]]]], bias.dtype)
    added = relay.broadcast_to(added, whole)
    level = ctx.constant([[[[0]]]], bias.dtype)
    if sink is not None:
        level = relay.reshape(casted(ctx, sink, bias.dtype), [1, count, 1, 1])
    column = relay.broadcast_to(level, [*whole[:3], 1])
    bias.added, bias.allowed, bias.hides_rows = relay.concatenate([added, column], 3), None, False
    more = [[0, 0], [0, 0], [0, 1], [0, 0]]
    key, value = (relay.nn.pad(x, more, ctx.constant(0, ctx.dtype(x))) for x in (heads.key, heads.value))
    return Heads(heads.query, key, value)
