"""Attention of onnxruntime: projections, biases, paddings and caches around the product of query and key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from .... import relay
from ....relay.ir import Dim, Expr, dims
from ....relay.op import build
from ..attention import Bias, Heads, Softmax, attend, merged_heads, padded_mask, split_heads
from ..context import Context
from ..operators.attention import add_window, keys_before
from ..operators.conversion import casted
from ..operators.product import matmul
from ..registry import converter
from ..run_time_axes import positions_along, size_along

__all__ = ["HIDDEN", "self_attention"]

HIDDEN = -10000.0  # what onnxruntime adds to hidden scores unless it is told


@converter("Attention", domain="com.microsoft")
def attention(
    ctx: Context,
    x: Expr,
    weights: Expr,
    bias: Expr | None = None,
    mask: Expr | None = None,
    past: Expr | None = None,
    added: Expr | None = None,
    past_length: Expr | None = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    mask_filter_value: float = HIDDEN,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: Sequence[int] | None = None,
    rotary_embedding_dim: int = 0,
    scale: float | None = None,
    unidirectional: int = 0,
) -> list[Expr | None]:
    """Query, key and value are made of one input by one matrix."""
    if do_rotary or past_present_share_buffer or past_length is not None:
        ctx.fail("do_rotary and past_present_share_buffer are not supported")
    packed = matmul(ctx, x, weights)
    return self_attention(
        ctx, packed if bias is None else relay.add(packed, bias), mask, past, added, num_heads=num_heads,
        mask_filter_value=mask_filter_value, qkv_hidden_sizes=qkv_hidden_sizes, scale=scale,
        unidirectional=unidirectional,
    )  # fmt: skip


def self_attention(
    ctx: Context,
    packed: Expr,
    mask: Expr | None,
    past: Expr | None,
    added: Expr | None,
    *,
    num_heads: int,
    mask_filter_value: float,
    qkv_hidden_sizes: Sequence[int] | None,
    scale: float | None,
    unidirectional: int,
) -> list[Expr | None]:
    """Return the attention of query, key and value, which are columns of one tensor, and the cache with them."""
    parts = _parts(ctx, packed, qkv_hidden_sizes)
    query, key, value = (split_heads(ctx, part, num_heads) for part in parts)
    past_key = past_value = None
    if past is not None:
        past_key, past_value = (relay.take(past, ctx.constant(i, "int64"), axis=0) for i in (0, 1))
        key, value = relay.concatenate([past_key, key], 2), relay.concatenate([past_value, value], 2)
    result, _ = _attended(
        ctx, Heads(query, key, value), scale, mask, mask_filter_value, added, past_key, bool(unidirectional)
    )
    present = relay.stack([key, value], 0) if ctx.wants(1) else None
    return [result, present]


def _parts(ctx: Context, packed: Expr, given: Sequence[int] | None) -> list[Expr]:
    """Return the columns of query, key and value."""
    hidden = ctx.shape(packed)[2]
    if given is None:
        if not isinstance(hidden, int) or hidden % 3:
            ctx.fail(f"the weights have {hidden} columns; that is no multiple of 3; give qkv_hidden_sizes")
        given = [hidden // 3] * 3
    if len(given) != 3:
        ctx.fail(f"qkv_hidden_sizes has {len(given)} elements; there must be 3")
    return list(relay.split(packed, (given[0], given[0] + given[1]), axis=2))


@converter("MultiHeadAttention", domain="com.microsoft")
def multi_head_attention(
    ctx: Context,
    query: Expr,
    key: Expr | None = None,
    value: Expr | None = None,
    bias: Expr | None = None,
    mask: Expr | None = None,
    added: Expr | None = None,
    past_key: Expr | None = None,
    past_value: Expr | None = None,
    past_length: Expr | None = None,
    indirection: Expr | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = HIDDEN,
    scale: float | None = None,
    unidirectional: int = 0,
) -> list[Expr | None]:
    """Query, key and value come projected; key and value may come as heads (batch, heads, rows, width)."""
    if past_length is not None or indirection is not None:
        ctx.fail("caches that past and present share are not supported")
    if (past_key is None) != (past_value is None):
        ctx.fail("past_key and past_value must be given together")
    heads = _projected(ctx, query, key, value, bias, num_heads)
    key, value = heads.key, heads.value
    if past_key is not None and past_value is not None:
        key, value = relay.concatenate([past_key, key], 2), relay.concatenate([past_value, value], 2)
    result, weights = _attended(
        ctx, Heads(heads.query, key, value), scale, mask, mask_filter_value, added, past_key, bool(unidirectional)
    )
    return [result, key, value, weights]


@converter("DecoderMaskedMultiHeadAttention", domain="com.microsoft")
def decoder_attention(
    ctx: Context,
    query: Expr,
    key: Expr | None = None,
    value: Expr | None = None,
    mask: Expr | None = None,
    added: Expr | None = None,
    past_key: Expr | None = None,
    past_value: Expr | None = None,
    past_length: Expr | None = None,
    beam_width: Expr | None = None,
    indirection: Expr | None = None,
    bias: Expr | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = HIDDEN,
    output_qk: int = 0,
    past_present_share_buffer: int = 0,
    scale: float | None = None,
) -> list[Expr | None]:
    """Attention of one new row."""
    if past_present_share_buffer or indirection is not None:
        ctx.fail("caches that past and present share, and beams in them, are not supported")
    return multi_head_attention(
        ctx, query, key, value, bias, mask, added, past_key, past_value,
        num_heads=num_heads, mask_filter_value=mask_filter_value, scale=scale,
    )  # fmt: skip


def _projected(ctx: Context, query: Expr, key: Expr | None, value: Expr | None, bias: Expr | None, heads: int) -> Heads:
    """Return the heads of what may be packed together, with the projections' biases added."""
    query, key, value = _unpacked(ctx, query, key, value)
    if key is None or value is None:
        ctx.fail("key and value are missing, and the query is not packed with them")
    parts = [query, key, value]
    if bias is not None:
        sizes = [_width(ctx, part) for part in parts]
        biases = relay.split(bias, (sizes[0], sizes[0] + sizes[1]), axis=0)
        parts = [
            relay.add(part, one if ctx.rank(part) == 3 else relay.reshape(one, [1, heads, 1, -1]))
            for part, one in zip(parts, biases, strict=True)
        ]
    return Heads(*[split_heads(ctx, part, heads) if ctx.rank(part) == 3 else part for part in parts])


def _unpacked(ctx: Context, query: Expr, key: Expr | None, value: Expr | None) -> tuple[Expr, Expr | None, Expr | None]:
    """Return query, key and value apart where (batch, rows, heads, count, width) holds several of them."""
    packed = query if ctx.rank(query) == 5 else key if key is not None and ctx.rank(key) == 5 else None
    if packed is None:
        if key is None and ctx.rank(query) == 3:
            return (*relay.split(query, 3, axis=2),)
        return query, key, value
    batch, rows, heads, count, width = ctx.shape(packed)
    apart = relay.split(packed, count, axis=3)
    flat = [relay.reshape(p, [batch, rows, dims.mul(heads, width)], allowzero=True) for p in apart]
    if packed is query:
        return flat[0], flat[1], flat[2]
    return query, flat[0], flat[1]


def _width(ctx: Context, x: Expr) -> int:
    shape = ctx.shape(x)
    width: Dim = shape[2] if len(shape) == 3 else dims.mul(shape[1], shape[3])
    if not isinstance(width, int):
        ctx.fail(f"with a bias, the last dimension of {ctx.type(x)} must be known at import")
    return width


def _attended(
    ctx: Context,
    heads: Heads,
    scale: float | None,
    mask: Expr | None,
    hidden: float,
    added: Expr | None,
    past_key: Expr | None,
    is_causal: bool,
) -> tuple[Expr, Expr | None]:
    """Return the result (batch, rows, hidden), and the weights where the node has them as an output."""
    bias = Bias(ctx, ctx.dtype(heads.query))
    whole = [*ctx.shape(heads.query)[:3], ctx.shape(heads.key)[2]]
    if mask is not None:
        condition = _visible(ctx, mask, whole, heads.key)
        zero, low = (ctx.constant(v, bias.dtype) for v in (0, hidden))
        bias.added = relay.where(condition, zero, low)
    if added is not None:
        fitted = padded_mask(ctx, added, whole, 0)
        bias.added = fitted if bias.added is None else relay.add(bias.added, fitted)
    if is_causal:
        before = keys_before(ctx, heads.query, past_key, None)
        add_window(ctx, bias, heads.query, heads.key, before, -1, 0, hides_rows=False)
    taken: dict[str, Expr] = {}

    def keep(step: str, value: Expr) -> None:
        taken[step] = value

    softmax = Softmax(Softmax.scale_of(ctx, heads.query, scale or None), change=keep if ctx.wants(3) else None)
    return merged_heads(ctx, attend(ctx, heads, softmax, bias)), taken.get("weights")


def _visible(ctx: Context, mask: Expr, whole: Sequence[Dim], key: Expr) -> Expr:
    """Return where keys count: a bool that broadcasts to (batch, heads, rows, columns).

    A vector holds the number of keys of each sequence, or their ends and then their beginnings; other masks are not 0
    where a key counts.
    """
    if ctx.rank(mask) > 1:
        shape = ctx.shape(mask)
        middle = {2: [1, 1], 3: [1]}.get(len(shape))
        if middle is None:
            ctx.fail(f"a mask of {len(shape)} dimensions is not supported")
        four: list[Any] = [shape[0], *middle, *shape[1:]]
        condition = relay.greater(mask, ctx.constant(0, ctx.dtype(mask)))
        return padded_mask(ctx, relay.reshape(condition, four, allowzero=True), whole, False)
    batch, size = whole[0], ctx.shape(mask)[0]
    twice = dims.mul(batch, 2)
    column = positions_along(ctx, key, 2)
    limits = casted(ctx, mask, "int64")
    if not dims.equal(size, batch) and not dims.equal(size, twice):
        if dims.is_any(size) or dims.is_any(batch):
            return _between(ctx, limits, column, key)
        # Only run time knows whether there are beginnings; those that are missing are 0.
        have, one = dims.as_expr(size), dims.as_expr(batch)
        fits = dims.select(tirx.any(have == one, have == one * 2), 1, 0)
        message = "a mask must have one number for each sequence, or two"
        limits = build("require", limits, condition=fits, message=message)
        limits = relay.nn.pad(limits, [[0, dims.maximum(dims.sub(twice, size), 0)]], ctx.constant(0, "int64"))

    def limit(start: Dim, end: Dim) -> Expr:
        part = limits if dims.equal(size, batch) else relay.strided_slice(limits, [start], [end], [1])
        return relay.reshape(part, [batch, 1, 1, 1], allowzero=True)

    condition = relay.less(column, limit(0, batch))
    if dims.equal(size, batch):
        return condition
    return relay.logical_and(condition, relay.greater_equal(column, limit(batch, twice)))


def _between(ctx: Context, limits: Expr, column: Expr, key: Expr) -> Expr:
    """Return which columns lie between the limits of each sequence, where nothing is known of how many there are."""
    batch, have = size_along(ctx, key, 0), size_along(ctx, limits, 0)
    twice = relay.multiply(batch, ctx.constant(2, "int64"))
    fits = relay.logical_or(relay.equal(have, batch), relay.equal(have, twice))
    limits = build("dyn.require", limits, fits, message="a mask must have one number for each sequence, or two")
    rows = positions_along(ctx, key, 0)
    # Only run time knows whether there are beginnings; those that are missing are 0.
    both = relay.concatenate([limits, relay.zeros_like(limits)], 0)
    ends, starts = (relay.expand_dims(relay.take(both, at, axis=0), 1, 3) for at in (rows, relay.add(rows, batch)))
    return relay.logical_and(relay.less(column, ends), relay.greater_equal(column, starts))
