"""GreedySearch: a text goes on with the likeliest token, again and again."""

from __future__ import annotations

import numpy as np

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..iteration import Loop, Step, iterate
from ..known import constant
from ..named_sizes import with_named_sizes
from ..registry import converter
from ..run_time_axes import size_along
from ..scope import Scope
from ..typing import typed
from .language_model import Generation
from .prompt import Prompt
from .text_models import GptWriter
from .token_scores import Inputs, Text, TokenRules, any_goes_on, counted, last_scores, whole_number


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
    options: Generation,
) -> list[Expr]:
    """The rows of tokens, each written until its end or the longest length; what is left of a row is padding."""
    if options.model_type != 0 or options.encoder is not None:
        ctx.fail(
            f"model_type is {options.model_type}; it is 0, a decoder alone: for others take BeamSearch with num_beams 1"
        )
    places = counted(ctx, whole_number(ctx, max_length, "max_length"))
    given = {
        "ids": ids, "places": places, "min_length": min_length, "repetition_penalty": repetition_penalty,
        "vocab_mask": vocab_mask, "prefix_vocab_mask": prefix_vocab_mask, "attention_mask": attention_mask,
    }  # fmt: skip
    return with_named_sizes(ctx, given, lambda ctx, given: [_Search(ctx, given, options).run()])


class _Search:
    def __init__(self, ctx: Context, given: Inputs, options: Generation) -> None:
        self.ctx, self.options = ctx, options
        ids, places = given["ids"], given["places"]
        assert ids is not None and places is not None
        self.places = places
        self.rules = TokenRules.of(ctx, given, options.eos_token_id, options.no_repeat_ngram_size)
        prompt = Prompt.of(ctx, ids, given["attention_mask"], options.pad_token_id, places)
        self.writer = GptWriter(ctx, prompt, options.decoder, options.init_decoder, options.vocab_size)
        self.begun = size_along(ctx, prompt.ids, 1)

    def run(self) -> Expr:
        """Return all tokens."""
        ctx, writer = self.ctx, self.writer
        logits, pasts = writer.begin()
        token, ended = self.chosen(ctx, self.rules, logits, Text(writer.begun), None)
        text = writer.text(self.places, self.options.pad_token_id).with_next(ctx, token)
        assert text.length is not None
        count = typed(relay.subtract(size_along(ctx, self.places, 0), text.length))
        names = ["token", "ended", "tokens", *(f"past_{i}" for i in range(len(pasts)))]
        starts = [token, ended, text.tokens, *pasts]
        loop = Loop("GreedySearch", count, any_goes_on(ended), starts, names, [], self.step)
        return iterate(writer.ctx, loop)[0][2]

    def step(self, scope: Scope, position: Expr, states: list[Expr]) -> Step:
        """Return what is after one more token."""
        token, ended, tokens, *pasts = states
        ctx = Context(self.ctx.importer, self.ctx.node, self.ctx.version, scope)
        length = relay.add(relay.add(scope.take(self.begun, "begun"), position), constant(np.int64(1)))
        text = Text(tokens, typed(length))
        logits, presents = self.writer.further(scope, position, token, pasts)
        token, ended = self.chosen(ctx, self.rules.inside(scope), logits, text, ended)
        return Step([token, ended, text.with_next(ctx, token).tokens, *presents], [], any_goes_on(ended))

    def chosen(
        self, ctx: Context, rules: TokenRules, logits: Expr, text: Text, ended: Expr | None
    ) -> tuple[Expr, Expr]:
        """Return the next tokens, and which rows have ended; `ended` is which had before."""
        scores = rules.applied(ctx, last_scores(ctx, logits, self.writer.vocabulary), text)
        token = relay.cast(relay.argmax(scores, [1]), "int32")
        ends = relay.equal(token, constant(np.int32(self.options.eos_token_id)))
        ends = typed(ends if ended is None else relay.logical_or(ends, ended))
        return typed(relay.where(ends, constant(np.int32(self.options.pad_token_id)), token)), ends
