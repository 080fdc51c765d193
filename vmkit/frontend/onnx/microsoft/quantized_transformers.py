"""Layers of transformers on quantised tensors: attention and embeddings."""

from __future__ import annotations

from functools import reduce

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..operators.quantization import factor_products
from ..quantization import dequantized, multiplied
from ..registry import converter
from ..run_time_axes import positions_along
from .attention import HIDDEN, self_attention
from .normalization import embedded

_MICROSOFT = "com.microsoft"


@converter("QAttention", domain=_MICROSOFT)
def quantized_attention(
    ctx: Context,
    x: Expr,
    weight: Expr,
    bias: Expr,
    x_scale: Expr,
    weight_scale: Expr,
    mask: Expr | None = None,
    x_zero: Expr | None = None,
    weight_zero: Expr | None = None,
    past: Expr | None = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    mask_filter_value: float = HIDDEN,
    past_present_share_buffer: int = 0,
    scale: float | None = None,
    unidirectional: int = 0,
) -> list[Expr | None]:
    """Only the projection is of integers; its scales and zero points are numbers, or one for each column."""
    if do_rotary or past_present_share_buffer:
        ctx.fail("do_rotary and past_present_share_buffer are not supported")
    total = factor_products(ctx, x, weight, x_zero, weight_zero)
    packed = relay.add(multiplied(ctx, total, (x_scale, None), (weight_scale, None)), bias)
    return self_attention(
        ctx, packed, mask, past, None, num_heads=num_heads, mask_filter_value=mask_filter_value,
        qkv_hidden_sizes=None, scale=scale, unidirectional=unidirectional,
    )  # fmt: skip


@converter("QEmbedLayerNormalization", domain=_MICROSOFT)
def quantized_embed_layer_normalization(
    ctx: Context,
    words: Expr,
    segments: Expr | None,
    word_table: Expr,
    position_table: Expr,
    segment_table: Expr | None,
    gamma: Expr,
    beta: Expr,
    mask: Expr | None,
    word_scale: Expr,
    position_scale: Expr,
    segment_scale: Expr | None,
    gamma_scale: Expr,
    beta_scale: Expr,
    word_zero: Expr,
    position_zero: Expr,
    segment_zero: Expr | None,
    gamma_zero: Expr,
    beta_zero: Expr,
    *,
    epsilon: float = 1e-12,
) -> list[Expr | None]:
    """Rows are looked up in quantised tables, then made real."""
    positions = relay.expand_dims(positions_along(ctx, words, 1), 0)
    looked_up = [(word_table, words, word_scale, word_zero), (position_table, positions, position_scale, position_zero)]
    if segments is not None:
        if segment_table is None or segment_scale is None or segment_zero is None:
            ctx.fail("segment_ids need segment_embedding with its scale and zero point")
        looked_up.append((segment_table, segments, segment_scale, segment_zero))
    rows = [dequantized(ctx, relay.take(t, at, axis=0), scale, zero) for t, at, scale, zero in looked_up]
    factor, offset = dequantized(ctx, gamma, gamma_scale, gamma_zero), dequantized(ctx, beta, beta_scale, beta_zero)
    return embedded(ctx, words, reduce(relay.add, rows), factor, offset, mask, epsilon)
