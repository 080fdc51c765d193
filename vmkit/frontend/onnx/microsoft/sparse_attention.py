"""Attention of which a query sees only some blocks of keys."""

from __future__ import annotations

from .... import relay
from ....relay.ir import Expr
from ..attention import Bias, Heads, Softmax, attend, merged_heads
from ..context import Context
from ..operators.attention import add_window
from ..operators.conversion import casted
from ..registry import converter
from ..run_time_axes import positions_along, size_along
from ..typing import typed
from .grouped import Cache, filled, heads_apart, keys_before
from .rotary import turned_heads

_ALL = (1 << 63) - 1


@converter("SparseAttention", domain="com.microsoft")
def sparse_attention(
    ctx: Context,
    query: Expr,
    key: Expr | None,
    value: Expr | None,
    past_key: Expr,
    past_value: Expr,
    block_rows: Expr,
    block_columns: Expr,
    total: Expr,
    lengths: Expr,
    cosines: Expr | None = None,
    sines: Expr | None = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    sparse_block_size: int,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    scale: float | None = None,
) -> list[Expr]:
    """`lengths` has how many keys each sequence has in all; the caches have room for them."""
    query, key, value = heads_apart(ctx, query, key, value, num_heads, kv_num_heads)
    last = relay.subtract(casted(ctx, lengths, "int64"), ctx.constant(1, "int64"))
    before = keys_before(ctx, last, query, ctx.shape(query)[0])
    at = relay.add(relay.squeeze(before, [2, 3]), relay.expand_dims(positions_along(ctx, query, 2), 0))
    if do_rotary:
        if cosines is None or sines is None:
            ctx.fail("do_rotary needs cos_cache and sin_cache")
        query, key = (turned_heads(ctx, x, at, cosines, sines, bool(rotary_interleaved)) for x in (query, key))
    cache = filled(ctx, past_key, past_value, Cache(key, value, before))
    bias = Bias(ctx, ctx.dtype(query))
    add_window(ctx, bias, query, cache.key, before, -1, 0, hides_rows=False)
    blocks = _of_heads(ctx, _blocks(ctx, block_rows, block_columns), num_heads)
    size = ctx.constant(sparse_block_size, "int64")
    # (heads, batch, queries, blocks of keys), then (batch, heads, queries, keys)
    seen = relay.take(blocks, relay.floor_divide(at, size), axis=1)
    columns = relay.floor_divide(positions_along(ctx, cache.key, 2), size)
    allowed = relay.take(relay.transpose(seen, [1, 0, 2, 3]), columns, axis=3)
    bias.allow(relay.cast(allowed, "bool"), hides_rows=True)
    softmax = Softmax(Softmax.scale_of(ctx, query, scale or None))
    made = attend(ctx, Heads(query, cache.key, cache.value), softmax, bias)
    return [merged_heads(ctx, made), cache.key, cache.value]


def _blocks(ctx: Context, rows: Expr, columns: Expr) -> Expr:
    """Return which blocks of keys a block of queries sees, 1 or 0: (layouts, blocks, blocks).

    Given are, as a sparse matrix is compressed by rows, where the blocks of each row begin, (layouts, blocks + 1), and
    the columns of the blocks, filled up with -1.
    """
    if ctx.rank(rows) != 2 or ctx.rank(columns) != 2:
        ctx.fail(f"the block mask is two matrices, not {ctx.type(rows)} and {ctx.type(columns)}")
    begins = typed(relay.strided_slice(casted(ctx, rows, "int64"), [0], [-1], [1], axes=[1]))
    ends = relay.strided_slice(casted(ctx, rows, "int64"), [1], [_ALL], [1], axes=[1])
    places, blocks = positions_along(ctx, columns, 1), positions_along(ctx, begins, 1)
    first, behind = (relay.expand_dims(v, 2) for v in (begins, ends))
    # (layouts, blocks, places): whether what stands at a place belongs to a row; then, which column it is.
    in_row = relay.logical_and(relay.less_equal(first, places), relay.less(places, behind))
    is_column = relay.equal(relay.expand_dims(casted(ctx, columns, "int64"), 2), blocks)
    counts = [relay.cast(v, "float32") for v in (in_row, is_column)]
    return relay.nn.batch_matmul(*counts, transpose_b=False)


def _of_heads(ctx: Context, layouts: Expr, heads: int) -> Expr:
    """Return the layout of each head, which take them in turn."""
    count = size_along(ctx, typed(layouts), 0)
    return relay.take(layouts, relay.floor_mod(ctx.positions(heads, "int64"), count), axis=0)
