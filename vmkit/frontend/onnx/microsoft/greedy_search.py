"""GreedySearch: a text goes on with the likeliest token, again and again."""

from __future__ import annotations

import numpy as np
import onnx

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..iteration import Loop, Step, iterate
from ..known import constant
from ..registry import converter
from ..scope import Scope
from ..typing import typed
from .language_model import GptDecoder
from .prompt import Prompt
from .token_scores import Text, TokenRules, last_scores, whole_number


@converter("GreedySearch", domain="com.microsoft")
def greedy_search(
    ctx: Context,
    ids: Expr,
    max_length: Expr,
    min_length: Expr | None = None,
    repetition_penalty: Expr | None = None,
    vocab_mask: Expr | None = None,
    prefix_vocab_mask: Expr | None = None,
    attention_mask: Expr | None = None,
    *,
    decoder: onnx.GraphProto,
    eos_token_id: int,
    pad_token_id: int,
    decoder_start_token_id: int = -1,
    encoder: onnx.GraphProto | None = None,
    init_decoder: onnx.GraphProto | None = None,
    model_type: int = 0,
    no_repeat_ngram_size: int = 0,
    vocab_size: int = -1,
) -> Expr:
    """The rows of tokens, each written until its end or the longest length; what is left of a row is padding."""
    if model_type != 0 or encoder is not None:
        ctx.fail(f"model_type is {model_type}; it is 0, a decoder alone: for others take BeamSearch with num_beams 1")
    later = GptDecoder(ctx, decoder, "decoder")
    first = later if init_decoder is None else GptDecoder(ctx, init_decoder, "init_decoder")
    rules = TokenRules.of(
        ctx, eos_token_id, no_repeat_ngram_size, min_length, repetition_penalty, vocab_mask, prefix_vocab_mask
    )
    longest = whole_number(ctx, max_length, "max_length")
    prompt = Prompt.of(ctx, ids, attention_mask, pad_token_id, longest)
    vocabulary = later.vocabulary(vocab_size)

    def chosen(ctx: Context, rules: TokenRules, logits: Expr, text: Text, ended: Expr | None) -> tuple[Expr, Expr]:
        """Return the next tokens, and which rows have ended."""
        scores = rules.applied(ctx, last_scores(ctx, logits, vocabulary), text)
        token = relay.cast(relay.argmax(scores, [1]), "int32")
        ends = relay.equal(token, constant(np.int32(eos_token_id)))
        ends = typed(ends if ended is None else relay.logical_or(ends, ended))
        return typed(relay.where(ends, constant(np.int32(pad_token_id)), token)), ends

    logits, pasts = first.run(first.ctx.scope, prompt.ids, prompt.positions, prompt.mask, first.nothing(prompt.ids))
    text = Text(prompt.ids)
    token, ended = chosen(ctx, rules, logits, text, None)
    text = prompt.text(ctx, longest, pad_token_id).with_next(ctx, token)

    def step(scope: Scope, position: Expr, states: list[Expr]) -> Step:
        token, ended, tokens, *pasts = states
        inner = Context(ctx.importer, ctx.node, ctx.version, scope)
        seen = prompt.inside(scope)
        text = Text(tokens, seen.length_at(position))
        logits, presents = later.run(
            scope, relay.expand_dims(token, 1), seen.position_at(position), seen.mask_after(inner, pasts[0]), pasts
        )
        token, ended = chosen(inner, rules.inside(scope), logits, text, ended)
        return Step([token, ended, text.with_next(inner, token).tokens, *presents], [], _any_goes_on(ended))

    names = ["token", "ended", "tokens", *(f"past_{i}" for i in range(len(pasts)))]
    count = relay.subtract(longest, text.length)
    loop = Loop("GreedySearch", typed(count), _any_goes_on(ended), [token, ended, text.tokens, *pasts], names, [], step)
    return iterate(later.ctx, loop)[0][2]


def _any_goes_on(ended: Expr) -> Expr:
    return typed(relay.logical_not(relay.all(ended)))
