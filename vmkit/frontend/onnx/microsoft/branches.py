"""Several streams in place of one residual: they are mixed to what a block reads, and its result goes back to each."""

from __future__ import annotations

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..operators.conversion import casted
from ..registry import converter
from ..run_time_axes import size_along

_FLOAT = "float32"
# What the similarity of a key and a query counts at least, before its root is taken (Engram's gate).
_LEAST_SIMILARITY = 1e-6


def _grouped(ctx: Context, x: Expr, branches: int) -> Expr:
    """Return streams as (..., streams, features), of which a number of branches lies in the last dimension if given."""
    if not branches:
        return x
    hidden = ctx.shape(x)[-1]
    if branches < 0 or (isinstance(hidden, int) and hidden % branches):
        ctx.fail(f"num_branches is {branches}, and the last dimension of {ctx.type(x)} is no multiple of it")
    return relay.reshape(x, [0] * (ctx.rank(x) - 1) + [branches, -1], allowzero=False)


def _gates(ctx: Context, gates: Expr, streams: Expr, branches: int) -> Expr:
    """Return gates as (..., streams, 1 or features), in float32; `streams` is what the node was given."""
    own, rank = ctx.rank(gates), ctx.rank(streams)
    gates = casted(ctx, gates, _FLOAT)
    if branches and own == rank:
        return _grouped(ctx, gates, branches)
    if own == rank - (0 if branches else 1):
        return relay.expand_dims(gates, own)
    if own == rank + (1 if branches else 0):
        return gates
    ctx.fail(f"the gates are {ctx.type(gates)}; they have a dimension for each of {ctx.type(streams)}, or one less")


@converter("HyperConnectionPreMix", domain="com.microsoft")
def mixed_streams(
    ctx: Context, streams: Expr, gates: Expr, *, num_branches: int = 0, reduction_scale: float = 1.0
) -> Expr:
    """The sum of all streams, each times its gates."""
    parts = casted(ctx, _grouped(ctx, streams, num_branches), _FLOAT)
    total = relay.sum(relay.multiply(parts, _gates(ctx, gates, streams, num_branches)), [-2])
    if reduction_scale != 1:
        total = relay.multiply(total, ctx.constant(reduction_scale, _FLOAT))
    return casted(ctx, total, ctx.dtype(streams))


@converter("HyperConnectionPostMix", domain="com.microsoft")
def streams_after_block(
    ctx: Context, streams: Expr, block: Expr, gates: Expr, mixture: Expr | None = None, *, num_branches: int = 0
) -> Expr:
    """Each stream is a mixture of all of them and the result of a block, times its gates."""
    parts = casted(ctx, _grouped(ctx, streams, num_branches), _FLOAT)
    rank = ctx.rank(parts)
    if mixture is not None:
        shares = relay.expand_dims(casted(ctx, mixture, _FLOAT), ctx.rank(mixture))
        parts = relay.sum(relay.multiply(shares, relay.expand_dims(parts, rank - 1)), [rank - 2])
    given = relay.expand_dims(casted(ctx, block, _FLOAT), rank - 2)
    total = relay.add(parts, relay.multiply(_gates(ctx, gates, streams, num_branches), given))
    total = casted(ctx, total, ctx.dtype(streams))
    return relay.reshape_like(total, streams) if num_branches else total


@converter("EngramGate", domain="com.microsoft")
def gated_by_similarity(
    ctx: Context,
    key: Expr,
    query: Expr,
    value: Expr,
    key_scale: Expr,
    query_scale: Expr,
    scale: Expr | None = None,
    *,
    epsilon: float = 1e-5,
) -> list[Expr | None]:
    """A value for all streams, times how similar the key and the query of each are; and that, normalised."""
    if ctx.wants(1) and scale is None:
        ctx.fail("the second output, the normalised value, needs the input conv_norm_scale")
    both = relay.multiply(
        _normalised(ctx, casted(ctx, key, _FLOAT), key_scale, epsilon),
        _normalised(ctx, casted(ctx, query, _FLOAT), query_scale, epsilon),
    )
    width = relay.cast(size_along(ctx, key, 3), _FLOAT)
    similarity = relay.divide(relay.sum(both, [3], True), relay.sqrt(width))
    root = relay.sqrt(relay.maximum(relay.abs(similarity), ctx.constant(_LEAST_SIMILARITY, _FLOAT)))
    gate = relay.sigmoid(relay.multiply(relay.sign(similarity), root))
    gated = relay.multiply(gate, relay.expand_dims(casted(ctx, value, _FLOAT), 2))
    result = casted(ctx, gated, ctx.dtype(key))
    if scale is None:
        return [result, None]
    return [result, casted(ctx, _normalised(ctx, gated, scale, epsilon), ctx.dtype(key))]


def _normalised(ctx: Context, x: Expr, scale: Expr, epsilon: float) -> Expr:
    """Return vectors along the last axis over the root of the mean of their squares, times a scale for each stream."""
    mean = relay.mean(relay.multiply(x, x), [-1], True)
    root = relay.rsqrt(relay.add(mean, ctx.constant(epsilon, _FLOAT)))
    if ctx.rank(scale) != 2:
        ctx.fail(f"a scale is {ctx.type(scale)}; it has a row for each stream")
    return relay.multiply(relay.multiply(x, root), casted(ctx, scale, _FLOAT))
