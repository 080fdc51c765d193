"""Normalisations of sums, as transformers have them, and of groups of channels."""

from __future__ import annotations

from functools import reduce
from typing import Any

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..operators.conversion import casted
from ..operators.normalization import by_group, layer_normalization, root_mean_square
from ..registry import converter
from ..run_time_axes import positions_along
from .channels_last import over_channels_last

__all__ = ["embedded"]


def _sum(*parts: Expr | None) -> Expr:
    return reduce(relay.add, [p for p in parts if p is not None])


@converter("SkipLayerNormalization", domain="com.microsoft")
def skip_layer_normalization(
    ctx: Context,
    x: Expr,
    skip: Expr,
    gamma: Expr,
    beta: Expr | None = None,
    bias: Expr | None = None,
    *,
    epsilon: float = 1e-12,
) -> list[Expr | None]:
    total = _sum(x, skip, bias)
    result, *statistics = layer_normalization(ctx, total, gamma, beta, epsilon=epsilon)
    mean, inverse = statistics or (None, None)
    return [result, mean, inverse, total]


@converter("SkipSimplifiedLayerNormalization", domain="com.microsoft")
def skip_root_mean_square(
    ctx: Context, x: Expr, skip: Expr, gamma: Expr, bias: Expr | None = None, *, epsilon: float = 1e-12
) -> list[Expr | None]:
    total = _sum(x, skip, bias)
    result, inverse = root_mean_square(ctx, total, gamma, -1, epsilon, 1)
    return [result, None, inverse, total]


# onnxruntime has these two in the domain of ONNX.
@converter("SimplifiedLayerNormalization")
def simplified_layer_normalization(
    ctx: Context, x: Expr, scale: Expr, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> list[Expr]:
    return root_mean_square(ctx, x, scale, axis, epsilon, stash_type)


@converter("LayerNormalization", since=1)
def old_layer_normalization(
    ctx: Context,
    x: Expr,
    scale: Expr,
    bias: Expr | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> list[Expr]:
    return layer_normalization(ctx, x, scale, bias, axis=axis, epsilon=epsilon, stash_type=stash_type)


@converter("EmbedLayerNormalization", domain="com.microsoft")
def embed_layer_normalization(
    ctx: Context,
    words: Expr,
    segments: Expr | None,
    word_table: Expr,
    position_table: Expr,
    segment_table: Expr | None,
    gamma: Expr,
    beta: Expr,
    mask: Expr | None = None,
    positions: Expr | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> list[Expr | None]:
    """The normalised sum of a word's, its position's and its segment's row, and how many words the mask leaves."""
    if positions is None:
        positions = relay.expand_dims(positions_along(ctx, words, 1), 0)
    parts: list[Expr | None] = [relay.take(word_table, words, axis=0), relay.take(position_table, positions, axis=0)]
    if segments is not None and segment_table is not None:
        parts.append(relay.take(segment_table, segments, axis=0))
    return embedded(ctx, words, _sum(*parts), gamma, beta, mask, epsilon)


def embedded(
    ctx: Context, words: Expr, total: Expr, gamma: Expr, beta: Expr, mask: Expr | None, epsilon: float
) -> list[Expr | None]:
    """Return the normalised sum of embeddings, the number of words in each sequence, and the sum itself."""
    result = layer_normalization(ctx, total, gamma, beta, epsilon=epsilon)[0]
    counts = None
    if ctx.wants(1):
        if mask is None:
            counts = relay.full(ctx.constant(0, "int32"), [ctx.shape(words)[0]], "int32")
        else:
            # Only a 1 is a word, wherever it stands: so onnxruntime counts.
            is_word = casted(ctx, relay.equal(mask, ctx.constant(1, ctx.dtype(mask))), "int32")
            counts = relay.sum(is_word, [1])
    return [result, counts, total]


@converter("GroupNorm", domain="com.microsoft")
def group_norm(
    ctx: Context,
    x: Expr,
    gamma: Expr,
    beta: Expr,
    *,
    activation: int,
    groups: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
) -> Expr:
    if activation not in (0, 1):
        ctx.fail(f"activation is {activation}; it is 0 (none) or 1 (SiLU)")

    def normalised(value: Expr) -> Expr:
        result = by_group(ctx, value, groups, epsilon, gamma, beta, per_group=False)
        return relay.multiply(result, relay.sigmoid(result)) if activation else result

    return over_channels_last(ctx, normalised)(x) if channels_last else normalised(x)


@converter("SkipGroupNorm", domain="com.microsoft")
def skip_group_norm(
    ctx: Context,
    x: Expr,
    gamma: Expr,
    beta: Expr,
    skip: Expr,
    bias: Expr | None = None,
    *,
    activation: int,
    groups: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
) -> list[Expr]:
    rank = ctx.rank(x)
    between = rank - 2

    def over_channels(v: Expr) -> Expr:
        """Return a tensor that ends with the channels so that it broadcasts to the data."""
        return v if channels_last else relay.expand_dims(v, ctx.rank(v), between)

    if ctx.rank(skip) == 2:
        skip = relay.expand_dims(skip, 1 if channels_last else 2, between)
    total = _sum(x, skip, None if bias is None else over_channels(bias))
    attributes: dict[str, Any] = {"activation": activation, "groups": groups, "channels_last": channels_last}
    return [group_norm(ctx, total, gamma, beta, epsilon=epsilon, **attributes), total]
