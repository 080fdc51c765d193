"""What positions add to the scores of an attention."""

from __future__ import annotations

import math

from .... import relay
from ....relay.ir import Dim, Expr, dims
from ..attention import split_heads
from ..context import Context
from ..operators.conversion import casted
from ..operators.product import matmul
from ..registry import converter

_MICROSOFT = "com.microsoft"


@converter("RelativePositionBias", domain=_MICROSOFT)
def relative_position_bias(
    ctx: Context, table: Expr, query_length: Expr, key_length: Expr, *, max_distance: int, is_bidirectional: int = 0
) -> Expr:
    """The bias of T5: columns of a table (buckets, heads) by the distance of key and query.

    The numbers of the table lie head by head, whatever its shape says, and that is how the optimiser writes it.

    Near distances have a bucket each, those up to `max_distance` share buckets by their logarithm, and with
    `is_bidirectional` half of the buckets are for keys behind the query (Raffel et al., "Exploring the Limits of
    Transfer Learning with a Unified Text-to-Text Transformer", section 2.1).
    """
    buckets = of_table = ctx.shape(table)[0]
    if not isinstance(buckets, int) or buckets < (4 if is_bidirectional else 2):
        ctx.fail(f"bias_table has {buckets} buckets; their number must be known, and 4 or more")
    rows, columns = (_range(ctx, length) for length in (query_length, key_length))
    distance = relay.subtract(relay.expand_dims(columns, 0), relay.expand_dims(rows, 1))
    zero = ctx.constant(0, "int64")
    if is_bidirectional:
        buckets //= 2
        behind = relay.multiply(casted(ctx, relay.greater(distance, zero), "int64"), ctx.constant(buckets, "int64"))
        distance = relay.abs(distance)
    else:
        behind, distance = None, relay.negative(relay.minimum(distance, zero))
    bucket = _bucket(ctx, distance, buckets, max_distance)
    by_head = relay.reshape(table, [-1, of_table])
    return relay.expand_dims(relay.take(by_head, bucket if behind is None else relay.add(behind, bucket), axis=1), 0)


def _range(ctx: Context, length: Expr) -> Expr:
    """Return 0, 1, ... below a length, which may be a tensor of one number."""
    known = ctx.dims(length)
    if known is not None and not dims.is_any(known[0]):
        return ctx.positions(known[0], "int64")
    end = relay.reshape(casted(ctx, length, "int64"), [])
    return relay.arange(ctx.constant(0, "int64"), end, ctx.constant(1, "int64"), "int64")


def _bucket(ctx: Context, distance: Expr, buckets: int, max_distance: int) -> Expr:
    """Return the bucket of each distance: itself up to half of them, then by the logarithm, the last for the rest."""
    exact = buckets // 2
    near = relay.less(distance, ctx.constant(exact, "int64"))
    ratio = relay.divide(casted(ctx, distance, "float32"), ctx.constant(exact, "float32"))
    share = relay.divide(relay.log(ratio), ctx.constant(math.log(max_distance / exact), "float32"))
    steps = casted(ctx, relay.multiply(share, ctx.constant(buckets - exact, "float32")), "int64")
    far = relay.minimum(relay.add(steps, ctx.constant(exact, "int64")), ctx.constant(buckets - 1, "int64"))
    return relay.where(near, distance, far)


@converter("GatedRelativePositionBias", domain=_MICROSOFT)
def gated_relative_position_bias(
    ctx: Context,
    query: Expr,
    query_bias: Expr,
    relative: Expr,
    weight: Expr,
    bias: Expr,
    eco_a: Expr,
    token_offset: Expr | None = None,
    *,
    num_heads: int,
) -> Expr:
    """The bias of WavLM: that of positions, times gates that each query computes (Chi et al., "XLM-E")."""
    if token_offset is not None:
        ctx.fail("token_offset, of sequences without padding, is not supported")
    width = ctx.shape(bias)[0]
    if not isinstance(width, int) or width % 2:
        ctx.fail(f"bias has {width} elements; there must be an even number, known at import")
    heads = split_heads(ctx, relay.add(query, query_bias), num_heads)
    projected = relay.add(matmul(ctx, heads, weight), bias)
    gates: list[Expr] = []
    half: Dim
    for half in (0, width // 2):
        columns = relay.strided_slice(projected, [half], [half + width // 2], [1], axes=[3])
        gates.append(relay.sigmoid(relay.sum(columns, [3], keepdims=True)))
    one, two = (ctx.constant(v, ctx.dtype(query)) for v in (1, 2))
    factor = relay.add(relay.multiply(gates[0], relay.subtract(relay.multiply(gates[1], eco_a), one)), two)
    return relay.multiply(factor, relative)
