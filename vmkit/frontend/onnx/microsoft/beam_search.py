"""BeamSearch: several texts go on at once, and the likeliest of them are kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Dim, Expr, dims
from ....relay.op import build
from ..context import Context
from ..iteration import Loop, Step, iterate
from ..known import constant, sizes
from ..named_sizes import with_named_sizes
from ..registry import converter
from ..scope import Scope
from ..typing import typed
from .beams import BeamRules, Beams, Choice
from .encoder_decoder import EncodedWriter, encoded_mask, start_tokens
from .hypotheses import first
from .language_model import Generation
from .prompt import Prompt, require_room
from .text_models import GptWriter, Writer
from .token_scores import Inputs, Text, TokenRules, any_goes_on, counted, last_scores, real_number, whole_number

__all__ = ["Options", "searched"]


@dataclass(frozen=True)
class Options(Generation):
    """The attributes that all searches with beams have."""

    early_stopping: int = 0


MakeWriter = Callable[[Context, Inputs, Expr, Options], Writer]


@converter("BeamSearch", domain="com.microsoft")
def beam_search(
    ctx: Context,
    ids: Expr,
    max_length: Expr,
    min_length: Expr | None,
    num_beams: Expr,
    num_return_sequences: Expr,
    length_penalty: Expr | None = None,
    repetition_penalty: Expr | None = None,
    vocab_mask: Expr | None = None,
    prefix_vocab_mask: Expr | None = None,
    attention_mask: Expr | None = None,
    decoder_input_ids: Expr | None = None,
    logits_processor: Expr | None = None,
    *,
    options: Options,
) -> list[Expr]:
    """The best texts for each prompt, their scores, and the scores of all tokens that might have come."""
    if options.model_type not in (0, 1) or (options.model_type == 1) != (options.encoder is not None):
        ctx.fail(
            f"model_type is {options.model_type}, {'without' if options.encoder is None else 'with'} an encoder; it is "
            "0 for a decoder alone in the form of GPT-2, and 1 for an encoder and a decoder in the form of T5"
        )
    if decoder_input_ids is not None or (logits_processor is not None and ctx.scalar(logits_processor) != 0):
        ctx.fail("decoder_input_ids and logits_processor are for Whisper alone; leave them out")
    numbers = (max_length, num_beams, num_return_sequences)
    rest = {
        "source": ids, "min_length": min_length, "length_penalty": length_penalty,
        "repetition_penalty": repetition_penalty, "vocab_mask": vocab_mask, "prefix_vocab_mask": prefix_vocab_mask,
        "attention_mask": attention_mask,
    }  # fmt: skip
    return searched(ctx, numbers, rest, options, _writer)


def searched(
    ctx: Context, numbers: tuple[Expr, Expr, Expr], rest: Inputs, options: Options, make_writer: MakeWriter
) -> list[Expr]:
    """Return the outputs of a search with beams.

    Parameters
    ----------
    numbers : tuple of Expr
        The longest length, and the numbers of beams and of texts to return.
    rest : mapping
        The other inputs by name, ``source`` among them, whose first axis is that of the prompts.
    make_writer : callable
        Returns what writes the texts, given the inputs.
    """
    names = zip(("max_length", "num_beams", "num_return_sequences"), ("places", "beams", "returned"), strict=True)
    sized = {inner: counted(ctx, whole_number(ctx, v, name)) for v, (name, inner) in zip(numbers, names, strict=True)}
    return with_named_sizes(ctx, {**sized, **rest}, lambda c, given: _Search(c, given, options, make_writer).run())


class _Search:
    def __init__(self, ctx: Context, given: Inputs, options: Options, make_writer: MakeWriter) -> None:
        self.ctx = ctx
        names = ("source", "places", "beams", "returned")
        source, self.places, beams, returned = (value for name in names if (value := given[name]) is not None)
        count, self.returned = ctx.shape(beams)[0], ctx.shape(returned)[0]
        given = {**given, "source": _with_enough_beams(ctx, source, count, self.returned)}
        self.words = TokenRules.of(ctx, given, options.eos_token_id, options.no_repeat_ngram_size)
        self.writer = make_writer(ctx, given, self.places, options)
        penalty = given["length_penalty"]
        power = constant(np.float32(1)) if penalty is None else real_number(ctx, penalty, "length_penalty")
        self.rules = BeamRules(
            ctx.shape(source)[0], count, options.eos_token_id, options.pad_token_id, power, options.early_stopping == 1
        )

    def run(self) -> list[Expr]:
        """Return the texts, their scores and, where they are wanted, all scores of tokens."""
        ctx, writer, rules = self.ctx, self.writer, self.rules
        # Before the first token all beams are alike: the model runs once for each prompt.
        logits, pasts = writer.begin()
        scores = self.scores(ctx, self.words, logits, Text(writer.begun))
        owner = rules.prompts(ctx)
        writer.repeat(owner)
        begin = Beams.at_start(ctx, rules, writer.text(self.places, rules.pad))
        choice = begin.chosen(ctx, rules, typed(relay.take(scores, owner, axis=0)))
        # Each beam goes on from the past of its prompt.
        pasts = [typed(relay.take(p, owner, axis=writer.row_axis)) for p in pasts]

        starts = [choice.token, *choice.beams.states, *self.recorded(ctx, choice), *pasts]
        names = ["token", *Beams.STATE_NAMES, *(["scores"] if ctx.wants(2) else [])]
        names += [f"past_{i}" for i in range(len(pasts))]
        steps = sizes(np.array(dims.sub(self.new_tokens, 1), dtype=object))
        loop = Loop(ctx.node.op_type, steps, any_goes_on(choice.beams.is_done), starts, names, [], self.step)
        _, *states = iterate(writer.ctx, loop)[0]
        own = len(Beams.STATE_NAMES)
        texts = Beams.of(states[:own]).finished(ctx, rules)
        recorded = [states[own]] if ctx.wants(2) else []
        return [first(texts.tokens, self.returned), first(texts.scores, self.returned), *recorded]

    def step(self, scope: Scope, position: Expr, states: list[Expr]) -> Step:
        """Return what is after one more token."""
        own = 1 + len(Beams.STATE_NAMES)
        token, beams, record = states[0], Beams.of(states[1:own]), states[own : own + int(self.ctx.wants(2))]
        pasts = states[own + len(record) :]
        ctx = Context(self.ctx.importer, self.ctx.node, self.ctx.version, scope)
        rules = self.rules.inside(scope)
        logits, presents = self.writer.further(scope, position, token, pasts)
        choice = beams.chosen(ctx, rules, self.scores(ctx, self.words.inside(scope), logits, beams.text))
        presents = [choice.taken(ctx, rules, p, self.writer.row_axis) for p in presents]
        further = relay.add(position, constant(np.int64(1)))
        written = [_recorded(r, choice, further) for r in record]
        return Step([choice.token, *choice.beams.states, *written, *presents], [], any_goes_on(choice.beams.is_done))

    def scores(self, ctx: Context, rules: TokenRules, logits: Expr, text: Text) -> Expr:
        """Return the logarithms of the likelihoods of tokens after the rules, (rows, tokens)."""
        return rules.applied(ctx, typed(relay.nn.log_softmax(last_scores(ctx, logits, self.writer.vocabulary))), text)

    @property
    def new_tokens(self) -> Dim:
        """How many tokens a text gets at most."""
        return dims.sub(self.ctx.shape(self.places)[0], self.ctx.shape(self.writer.begun)[1])

    def recorded(self, ctx: Context, choice: Choice) -> list[Expr]:
        """Return a buffer for the scores at each step, with those of the first; nothing if they are not wanted."""
        if not ctx.wants(2):
            return []
        shape = [self.new_tokens, *ctx.shape(choice.totals)]
        buffer = build("buffer.create", shape=shape, dtype="float32")
        return [_recorded(buffer, choice, constant(np.int64(0)))]


def _writer(ctx: Context, given: Inputs, places: Expr, options: Options) -> Writer:
    ids, mask = given["source"], given["attention_mask"]
    assert ids is not None
    if options.encoder is None:
        prompt = Prompt.of(ctx, ids, mask, options.pad_token_id, places)
        return GptWriter(ctx, prompt, options.decoder, options.init_decoder, options.vocab_size)
    mask = encoded_mask(ctx, ids, mask, options.pad_token_id)
    begun = require_room(ctx, start_tokens(ctx, options.decoder_start_token_id, ids), places)
    return EncodedWriter(ctx, ids, mask, begun, options.encoder, options.decoder, options.vocab_size)


def _recorded(buffer: Expr, choice: Choice, step: Expr) -> Expr:
    return typed(build("buffer.write", buffer, choice.totals, step, axis=0))


def _with_enough_beams(ctx: Context, source: Expr, count: Dim, returned: Dim) -> Expr:
    """Return what is read after a check that no more texts are wanted than there are beams, and at least one."""
    if isinstance(count, int) and isinstance(returned, int):
        if not 1 <= returned <= count:
            ctx.fail(f"num_return_sequences is {returned}; it is at least 1 and at most num_beams, {count}")
        return source
    fits = dims.select((dims.as_expr(returned) >= 1) & (dims.as_expr(returned) <= dims.as_expr(count)), 1, 0)
    message = f"{ctx.node.op_type}: num_return_sequences must be at least 1 and at most num_beams"
    return typed(build("require", source, condition=fits, message=message))
