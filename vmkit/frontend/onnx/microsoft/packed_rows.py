"""Texts of different lengths without padding: the rows of all of them one behind the other.

A table of offsets (batch, longest) says where: first the places of rows in the padded form, then those of padding.
"""

from __future__ import annotations

from collections.abc import Sequence

from .... import relay
from ....relay.ir import Any as AnyDim
from ....relay.ir import Expr
from ....relay.op import build
from ..attention import Bias, Heads, Softmax, attend, merged_heads, padded_mask, split_heads
from ..context import Context
from ..extents import Extent, under
from ..operators.conversion import casted
from ..operators.product import matmul
from ..registry import converter
from ..run_time_axes import pinned, positions_along, size_along
from ..typing import typed

_MICROSOFT = "com.microsoft"


@converter("RemovePadding", domain=_MICROSOFT)
def remove_padding(ctx: Context, x: Expr, lengths: Expr) -> list[Expr]:
    """The padding of each text is behind it."""
    batch, longest = (Extent.along(ctx, x, axis) for axis in (0, 1))
    lengths = casted(ctx, lengths, "int64")
    used = relay.less(relay.expand_dims(positions_along(ctx, x, 1), 0), relay.expand_dims(lengths, 1))
    flat = relay.reshape(relay.cast(used, "int32"), [-1])
    order = relay.argsort(relay.negative(flat), dtype="int64")
    total = relay.sum(relay.cast(flat, "int64"), [0], True)
    rows = relay.reshape(x, [-1, ctx.shape(x)[2]])
    kept = relay.take(rows, _first(ctx, order, total), axis=0)
    offsets = under(ctx, relay.cast(order, "int32"), batch, longest)
    ends = relay.concatenate([ctx.constant([0], "int64"), relay.cumsum(lengths, 0)], 0)
    return [kept, offsets, relay.cast(ends, "int32"), relay.cast(relay.max(lengths, [0], True), "int32")]


def _first(ctx: Context, vector: Expr, count: Expr) -> Expr:
    """Return so many elements of a vector, as a vector of one element says."""
    zero, one = ctx.constant([0], "int64"), ctx.constant([1], "int64")
    return relay.strided_slice(vector, zero, count, one)


@converter("RestorePadding", domain=_MICROSOFT)
def restore_padding(ctx: Context, x: Expr, offsets: Expr) -> Expr:
    """Padding is of zeros."""
    return _padded(ctx, x, offsets)


def _padded(ctx: Context, rows: Expr, offsets: Expr) -> Expr:
    """Return rows (count, width) in their places: (batch, longest, width), zeros elsewhere."""
    batch, longest = (Extent.along(ctx, offsets, axis) for axis in (0, 1))
    width = Extent.along(ctx, rows, 1)
    # What is at a place of the padded form: the place in the offsets, which is a row as long as there are rows.
    place = relay.argsort(relay.reshape(offsets, [-1]), dtype="int64")
    count = size_along(ctx, rows, 0)
    behind = relay.concatenate(
        [rows, relay.zeros_like(relay.take(rows, ctx.constant([0], "int64"), axis=0, mode="clip"))], 0
    )
    return under(ctx, relay.take(behind, relay.minimum(place, count), axis=0), batch, longest, width)


def _packed(ctx: Context, padded: Expr, offsets: Expr, like: Expr) -> Expr:
    """Return the rows of (batch, longest, width) that are no padding, as many as another tensor has."""
    width = ctx.shape(padded)[2]
    count = relay.reshape(size_along(ctx, like, 0), [1])
    kept = _first(ctx, casted(ctx, relay.reshape(offsets, [-1]), "int64"), count)
    rows = relay.take(relay.reshape(padded, [-1, width]), kept, axis=0)
    return pinned(ctx, typed(rows), [ctx.shape(like)[0], AnyDim()])


def _attended(
    ctx: Context, parts: Sequence[Expr], num_heads: int, offsets: Expr, ends: Expr, added: Expr | None, scale: float
) -> Expr:
    """Return the attention of packed queries, keys and values (count, width), packed too."""
    heads = Heads(*[split_heads(ctx, _padded(ctx, part, offsets), num_heads) for part in parts])
    bias = Bias(ctx, ctx.dtype(heads.query))
    whole = [*ctx.shape(heads.query)[:3], ctx.shape(heads.key)[2]]
    if added is not None:
        bias.add(padded_mask(ctx, added, whole, 0))
    limits = casted(ctx, ends, "int64")
    batch = size_along(ctx, offsets, 0)
    rows = positions_along(ctx, offsets, 0)
    fits = relay.equal(size_along(ctx, limits, 0), relay.add(batch, ctx.constant(1, "int64")))
    message = f"{ctx.node.op_type}: cumulative_sequence_length has one number more than there are texts"
    limits = build("dyn.require", limits, fits, message=message)
    starts, stops = (relay.take(limits, at, axis=0) for at in (rows, relay.add(rows, ctx.constant(1, "int64"))))
    lengths = relay.expand_dims(relay.subtract(stops, starts), 1, 3)
    bias.allow(relay.less(positions_along(ctx, heads.key, 2), lengths))
    made = attend(ctx, heads, Softmax(Softmax.scale_of(ctx, heads.query, scale or None)), bias)
    return _packed(ctx, merged_heads(ctx, made), offsets, parts[0])


@converter("PackedAttention", domain=_MICROSOFT)
def packed_attention(
    ctx: Context,
    x: Expr,
    weights: Expr,
    bias: Expr,
    offsets: Expr,
    ends: Expr,
    added: Expr | None = None,
    *,
    num_heads: int,
    qkv_hidden_sizes: Sequence[int] | None = None,
    scale: float = 0.0,
) -> Expr:
    made = relay.add(matmul(ctx, x, weights), bias)
    hidden = ctx.shape(made)[1]
    if qkv_hidden_sizes is None and (not isinstance(hidden, int) or hidden % 3):
        ctx.fail(f"the weights have {hidden} columns; that is no multiple of 3; give qkv_hidden_sizes")
    sizes = qkv_hidden_sizes or [int(hidden) // 3] * 3
    parts = list(relay.split(made, (sizes[0], sizes[0] + sizes[1]), axis=1))
    return _attended(ctx, parts, num_heads, offsets, ends, added, scale)


@converter("PackedMultiHeadAttention", domain=_MICROSOFT)
def packed_multi_head_attention(
    ctx: Context,
    query: Expr,
    key: Expr | None,
    value: Expr | None,
    bias: Expr | None,
    offsets: Expr,
    ends: Expr,
    added: Expr | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = -10000.0,
    scale: float = 0.0,
) -> Expr:
    """Query, key and value may come as one: (count, heads, 3, width)."""
    if ctx.rank(query) == 4:
        heads, width = ctx.shape(query)[1], ctx.shape(query)[3]
        if not isinstance(heads, int) or not isinstance(width, int):
            ctx.fail(f"the heads and their width must be known at import: the query is {ctx.type(query)}")
        parts = [relay.reshape(part, [-1, heads * width]) for part in relay.split(query, 3, axis=2)]
    elif key is None or value is None:
        ctx.fail("key and value are missing, and the query is not packed with them")
    else:
        parts = [query, key, value]
    if bias is not None:
        sizes = [ctx.shape(part)[1] for part in parts]
        if not all(isinstance(size, int) for size in sizes):
            ctx.fail("with a bias, the widths of query, key and value must be known at import")
        biases = relay.split(bias, (sizes[0], sizes[0] + sizes[1]), axis=0)
        parts = [relay.add(part, one) for part, one in zip(parts, biases, strict=True)]
    return _attended(ctx, parts, num_heads, offsets, ends, added, scale)
