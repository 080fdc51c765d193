"""Rotary embeddings with the positions as the second input."""

from __future__ import annotations

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..operators.layout import to_shape
from ..operators.rotary import angles_at, packed_heads, rotated
from ..registry import converter
from ..run_time_axes import positions_along

__all__ = ["turned_heads"]


@converter("RotaryEmbedding", domain="com.microsoft")
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
    """One position is that of the first row; the others follow it."""
    if scale != 1 or is_packed_batching:
        ctx.fail(f"scale={scale} and is_packed_batching={is_packed_batching} are not supported; they must be 1 and 0")
    at = 1 if ctx.rank(x) == 3 else 2
    if ctx.rank(positions) == 1:
        rows = positions_along(ctx, x, at)
        positions = relay.expand_dims(relay.add(rows, relay.cast(positions, "int64")), 0)
    if ctx.rank(x) == 4:
        return turned_heads(ctx, x, positions, cosines, sines, bool(interleaved))
    half = ctx.shape(cosines)[1]
    hidden = ctx.shape(x)[2]
    if not num_heads and not (isinstance(half, int) and isinstance(hidden, int)):
        ctx.fail("num_heads is needed where the last dimension or that of the caches is not known at import")
    heads = num_heads or hidden // (2 * half)
    cosines, sines = (angles_at(ctx, t, positions) for t in (cosines, sines))
    turned = rotated(ctx, packed_heads(ctx, x, heads), cosines, sines, rotary_embedding_dim, bool(interleaved))
    return to_shape(turned, ctx.shape(x))


def turned_heads(ctx: Context, x: Expr, positions: Expr, cosines: Expr, sines: Expr, is_interleaved: bool) -> Expr:
    """Return (batch, heads, rows, width) turned by the rows of tables at positions (batch, rows)."""
    half = ctx.shape(cosines)[1]
    if not isinstance(half, int):
        ctx.fail("the last dimension of the caches must be known at import")
    cosines, sines = (relay.expand_dims(relay.take(t, positions, axis=0), 1) for t in (cosines, sines))
    return rotated(ctx, x, cosines, sines, 2 * half, is_interleaved)
