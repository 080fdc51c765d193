"""Embeddings of words from their characters."""

from __future__ import annotations

import numpy as np

from .... import relay
from ....relay.ir import Expr, dims
from ..context import Context
from ..operators.convolution import conv
from ..registry import converter
from ..window import ConvolutionWindow


@converter("WordConvEmbedding", domain="com.microsoft")
def embedded_words(
    ctx: Context,
    words: Expr,
    weight: Expr,
    bias: Expr,
    table: Expr,
    *,
    char_embedding_size: int = -1,
    conv_window_size: int = -1,
    embedding_size: int = -1,
) -> Expr:
    """The largest activation of each filter over the characters of a word, which end where they are 0.

    What a word without characters is onnxruntime leaves open: zeros here.
    """
    filters, _, width, _ = ctx.shape(weight)
    for name, said, own in (
        ("embedding_size", embedding_size, filters), ("conv_window_size", conv_window_size, width),
        ("char_embedding_size", char_embedding_size, ctx.shape(table)[1]),
    ):  # fmt: skip
        if said != -1 and dims.equal(own, said) is False:
            ctx.fail(f"{name} is {said}, and the weights, {ctx.type(weight)} and {ctx.type(table)}, have {own}")
    letters = ctx.shape(words)[1]
    if dims.is_any(letters) or not isinstance(width, int) or dims.at_least(letters, width) is False:
        ctx.fail(f"the words are {ctx.type(words)}; their length must be known, and at least the window of {width}")
    is_letter = relay.greater(words, ctx.constant(0, ctx.dtype(words)))
    begins = relay.take(is_letter, ctx.constant(0, "int64"), axis=1)
    count = relay.sum(relay.cast(is_letter, "int64"), [1])
    rows = relay.expand_dims(relay.take(table, words, axis=0, mode="clip"), 1)
    made = relay.tanh(conv(ctx, rows, weight, bias, window=ConvolutionWindow()))
    starts = ctx.positions(dims.add(dims.sub(letters, width), 1), "int64")
    last = relay.maximum(relay.subtract(count, ctx.constant(width, "int64")), ctx.constant(0, "int64"))
    inside = relay.expand_dims(relay.less_equal(starts, relay.expand_dims(last, 1)), 1)
    kept = relay.where(inside, relay.squeeze(made, [3]), ctx.constant(-np.inf, "float32"))
    return relay.where(relay.expand_dims(begins, 1), relay.max(kept, [2]), ctx.constant(0, "float32"))
