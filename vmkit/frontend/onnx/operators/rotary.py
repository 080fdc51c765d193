"""Rotary embeddings: pairs of elements of a query or key, turned by an angle that grows with the position."""

from __future__ import annotations

from tvm import tirx

from .... import relay
from ....relay.ir import Dim, Expr, dims
from ....relay.op import build
from ..context import Context
from ..registry import converter
from ..typing import typed
from .layout import to_shape

__all__ = ["angles_at", "packed_heads", "rotated"]


@converter("RotaryEmbedding", since=23, named_sizes=True)
def rotary_embedding(
    ctx: Context,
    x: Expr,
    cosines: Expr,
    sines: Expr,
    positions: Expr | None = None,
    *,
    interleaved: int = 0,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
) -> Expr:
    """(batch, heads, rows, width), or (batch, rows, hidden) where num_heads says how many heads there are."""
    cosines, sines = (angles_at(ctx, v, positions) for v in (cosines, sines))
    if ctx.rank(x) == 3:
        turned = rotated(ctx, packed_heads(ctx, x, num_heads), cosines, sines, rotary_embedding_dim, bool(interleaved))
        return to_shape(turned, ctx.shape(x))
    if ctx.rank(x) != 4:
        ctx.fail(f"the input has {ctx.rank(x)} dimensions; there must be 3 or 4")
    moved = relay.transpose(x, [0, 2, 1, 3])
    turned = rotated(ctx, moved, cosines, sines, rotary_embedding_dim, bool(interleaved))
    return relay.transpose(turned, [0, 2, 1, 3])


def packed_heads(ctx: Context, x: Expr, heads: int | None) -> Expr:
    """Return (batch, rows, hidden) as (batch, rows, heads, width)."""
    batch, rows, hidden = ctx.shape(x)
    if not heads:
        ctx.fail("an input of rank 3 needs num_heads")
    if isinstance(hidden, int) and hidden % heads:
        ctx.fail(f"the last dimension, {hidden}, is no multiple of {heads} heads")
    return to_shape(x, [batch, rows, heads, dims.floordiv(hidden, heads)])


def angles_at(ctx: Context, table: Expr, positions: Expr | None) -> Expr:
    """Return the rows of a table at positions (batch, rows), or the table (batch, rows, half) where there are none."""
    if positions is not None:
        if ctx.rank(table) != 2 or ctx.rank(positions) != 2:
            ctx.fail("with position_ids (batch, rows), the caches have two dimensions: positions and halves of a width")
        table = relay.take(table, positions, axis=0)
    elif ctx.rank(table) != 3:
        ctx.fail("without position_ids, the caches have three dimensions: batch, rows and halves of a width")
    return relay.expand_dims(table, 2)


def rotated(ctx: Context, x: Expr, cosines: Expr, sines: Expr, count: Dim, is_interleaved: bool) -> Expr:
    """Return (batch, rows, heads, width) with the first `count` elements of a width turned in pairs.

    Parameters
    ----------
    cosines, sines : Expr
        Of the angles: (batch, rows, 1, count / 2).
    count : dimension
        How many elements are turned; 0 is all of them.
    is_interleaved : bool
        Whether neighbours make a pair, and not elements of the two halves.
    """
    width = ctx.shape(x)[3]
    if dims.is_any(width):
        ctx.fail(f"the width of a head is known only at run time: {ctx.type(x)}")
    wanted: Dim = width if dims.equal(count, 0) else count
    half = dims.floordiv(wanted, 2)
    twice = dims.mul(half, 2)
    decided = [dims.at_least(width, wanted), dims.equal(twice, wanted)]
    if False in decided:
        ctx.fail(f"{wanted} of {width} elements cannot be turned in pairs")
    if None in decided:
        fits = tirx.all(dims.as_expr(width) >= wanted, dims.as_expr(twice) == wanted)
        message = f"{ctx.node.op_type}: {wanted} of {width} elements cannot be turned in pairs"
        x = typed(build("require", x, condition=dims.select(fits, 1, 0), message=message))
    for table in (cosines, sines):
        if dims.equal(ctx.shape(table)[3], half) is False:
            ctx.fail(f"the caches have {ctx.shape(table)[3]} elements for each position; {half} are needed")
    if is_interleaved:
        parts = [_turned_neighbours(ctx, x, cosines, sines, half)]
    else:
        first, second = (relay.strided_slice(x, [i], [end], [1], axes=[3]) for i, end in ((0, half), (half, twice)))
        real = relay.subtract(relay.multiply(cosines, first), relay.multiply(sines, second))
        parts = [real, relay.add(relay.multiply(sines, first), relay.multiply(cosines, second))]
    if not dims.equal(wanted, width):
        parts.append(relay.strided_slice(x, [twice], [width], [1], axes=[3]))
    whole = relay.concatenate(parts, 3) if len(parts) > 1 else parts[0]
    return whole if dims.equal(ctx.shape(whole)[3], width) else to_shape(whole, ctx.shape(x))


def _turned_neighbours(ctx: Context, x: Expr, cosines: Expr, sines: Expr, half: Dim) -> Expr:
    """Return (batch, rows, heads, 2 * half): the first elements of a width, of which neighbours are turned.

    Each is computed from its pair, so that pairs are read and written as they lie in memory.
    """
    twice = dims.mul(half, 2)
    lead = ctx.shape(x)[:3]
    own = x if dims.equal(ctx.shape(x)[3], twice) else relay.strided_slice(x, [0], [twice], [1], axes=[3])
    pairs = to_shape(own, [*lead, half, 2])
    cosine, sine = (relay.expand_dims(table, 4) for table in (cosines, sines))
    signs = ctx.constant([-1, 1], ctx.dtype(sines))
    other = relay.multiply(relay.reverse(pairs, axis=4), relay.multiply(sine, signs))
    return to_shape(relay.add(relay.multiply(pairs, cosine), other), [*lead, twice])
