"""Rotary embeddings with the positions as the second input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .... import relay
from ....relay.ir import Expr, dims
from ..context import Context
from ..operators.conversion import casted
from ..operators.layout import to_shape
from ..operators.rotary import packed_heads, rotated
from ..registry import converter
from ..run_time_axes import positions_along

__all__ = ["turned_heads"]


@converter("RotaryEmbedding", domain="com.microsoft", named_sizes=True)
def rotary_embedding(
    ctx: Context,
    x: Expr,
    positions: Expr,
    cosines: Expr,
    sines: Expr,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Expr:
    """One position is that of the first row; the others follow it.

    Two attributes change nothing: onnxruntime reads no scale, and rows of several texts that lie one behind the other,
    is_packed_batching, may be more than the tables have, which no one asks for here.
    """
    at = 1 if ctx.rank(x) == 3 else 2
    if ctx.rank(positions) == 1:
        rows = positions_along(ctx, x, at)
        positions = relay.expand_dims(relay.add(rows, relay.cast(positions, "int64")), 0)
    angles = [relay.take(table, positions, axis=0) for table in (cosines, sines)]
    return _turned(ctx, x, angles[0], angles[1], num_heads, rotary_embedding_dim, bool(interleaved))


@converter("MRotaryEmbedding", domain="com.microsoft", named_sizes=True)
def multimodal_rotary_embedding(
    ctx: Context,
    x: Expr,
    positions: Expr,
    cosines: Expr,
    sines: Expr,
    *,
    mrope_section: Sequence[int],
    mrope_layout: int = 0,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Expr:
    """Each angle is at one of three positions: in time, of the row, of the column (Wang et al., "Qwen2-VL")."""
    count = sum(mrope_section)
    if len(mrope_section) != 3 or min(mrope_section) < 0 or mrope_layout not in (0, 1):
        ctx.fail(f"mrope_section {list(mrope_section)} has three sizes, and mrope_layout {mrope_layout} is 0 or 1")
    if mrope_layout == 0:
        which = np.repeat(np.arange(3), mrope_section)
    else:
        which = np.zeros(count, "int64")
        for stream in (1, 2):
            which[stream : mrope_section[stream] * 3 : 3] = stream
    if dims.equal(ctx.shape(cosines)[1], count) is False:
        ctx.fail(f"mrope_section is {list(mrope_section)}, and the caches have {ctx.shape(cosines)[1]} columns")
    streams = [relay.equal(ctx.constant(which, "int64"), ctx.constant(k, "int64")) for k in (1, 2)]

    def angles(table: Expr) -> Expr:
        time, row, column = (
            relay.squeeze(v, [0]) for v in relay.split(relay.take(table, positions, axis=0), 3, axis=0)
        )
        return relay.where(streams[0], row, relay.where(streams[1], column, time))

    return _turned(ctx, x, angles(cosines), angles(sines), num_heads, rotary_embedding_dim, bool(interleaved))


@converter("GemmaRotaryEmbedding", domain="com.microsoft")
def gemma_rotary_embedding(
    ctx: Context, angles: Expr, query: Expr, turned_query: Expr, key: Expr, turned_key: Expr
) -> list[Expr]:
    """The halves of queries and keys come turned; angles (batch, rows, width) are those of all heads."""
    cosine, sine = (relay.expand_dims(casted(ctx, of(angles), ctx.dtype(query)), 1) for of in (relay.cos, relay.sin))
    return [
        relay.add(relay.multiply(x, cosine), relay.multiply(turned, sine))
        for x, turned in ((query, turned_query), (key, turned_key))
    ]


def _turned(
    ctx: Context, x: Expr, cosines: Expr, sines: Expr, num_heads: int, count: int, is_interleaved: bool
) -> Expr:
    """Return heads, apart or side by side, turned by angles (batch, rows, half)."""
    half = ctx.shape(cosines)[2]
    if ctx.rank(x) == 4:
        return _turned_heads(ctx, x, cosines, sines, is_interleaved)
    batch, rows, hidden = ctx.shape(x)
    if num_heads:
        apart = packed_heads(ctx, x, num_heads)
    else:
        # The caches say how wide a head is; of no width there is none.
        width = dims.mul(2, half)
        apart = to_shape(x, [batch, rows, dims.floordiv(hidden, dims.maximum(width, 1)), width])
    cosines, sines = (relay.expand_dims(t, 2) for t in (cosines, sines))
    return to_shape(rotated(ctx, apart, cosines, sines, count, is_interleaved), ctx.shape(x))


def turned_heads(ctx: Context, x: Expr, positions: Expr, cosines: Expr, sines: Expr, is_interleaved: bool) -> Expr:
    """Return (batch, heads, rows, width) turned by the rows of tables at positions (batch, rows)."""
    cosines, sines = (relay.take(t, positions, axis=0) for t in (cosines, sines))
    return _turned_heads(ctx, x, cosines, sines, is_interleaved)


def _turned_heads(ctx: Context, x: Expr, cosines: Expr, sines: Expr, is_interleaved: bool) -> Expr:
    half = ctx.shape(cosines)[2]
    if dims.is_any(half):
        ctx.fail(f"the last dimension of the caches is known only at run time: {ctx.type(cosines)}")
    cosines, sines = (relay.expand_dims(t, 1) for t in (cosines, sines))
    return rotated(ctx, x, cosines, sines, dims.mul(2, half), is_interleaved)
