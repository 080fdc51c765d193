"""Beams: the likeliest ways for each of several texts to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Dim, Expr, dims
from ..context import Context
from ..known import constant, sizes
from ..run_time_axes import pinned
from ..scope import Scope
from ..typing import typed
from .hypotheses import Hypotheses, first, normalised
from .token_scores import Text

__all__ = ["BeamRules", "Beams", "Choice"]

_NO_BEAM = np.float32(-1e9)  # what all beams but one begin with, so that they do not all go the same way


@dataclass(frozen=True)
class BeamRules:
    """How beams go on and when they stop.

    Attributes
    ----------
    batch, count : Dim
        The numbers of prompts and of beams for each.
    eos, pad : int
        The token that ends a text, and what is written after it.
    penalty : Expr
        The power of its length by which the score of a text is divided, a float32 scalar.
    stops_early : bool
        Whether a prompt is done with as many texts as there are beams, however good others may become.
    """

    batch: Dim
    count: Dim
    eos: int
    pad: int
    penalty: Expr
    stops_early: bool

    def inside(self, scope: Scope) -> BeamRules:
        """Return the rules as they are seen inside a loop."""
        return replace(self, penalty=scope.take(self.penalty, "length_penalty"))

    @property
    def rows(self) -> Dim:
        """The number of all beams."""
        return dims.mul(self.batch, self.count)

    def prompts(self, ctx: Context) -> Expr:
        """Return the number of the prompt of each beam, int64 (rows,)."""
        return typed(relay.floor_divide(ctx.positions(self.rows, "int64"), _number(self.count)))


@dataclass(frozen=True)
class Beams:
    """All beams after some tokens.

    Attributes
    ----------
    sums : Expr
        The logarithms of their likelihoods, float32 (prompts, beams).
    text : Text
        Their tokens, (rows, places).
    ended : Hypotheses
        The texts that have ended.
    is_done : Expr
        Which prompts are done with, bool (prompts,).
    """

    sums: Expr
    text: Text
    ended: Hypotheses
    is_done: Expr

    @classmethod
    def at_start(cls, ctx: Context, rules: BeamRules, text: Text) -> Beams:
        """Return the beams of a text, in which only the first beam of each prompt counts."""
        is_first = relay.equal(ctx.positions(rules.count, "int64"), constant(np.int64(0)))
        begin = relay.where(is_first, constant(np.float32(0)), constant(_NO_BEAM))
        sums = relay.broadcast_to(relay.expand_dims(begin, 0), [rules.batch, rules.count])
        ended = Hypotheses.none([rules.batch, rules.count, ctx.shape(text.tokens)[1]], rules.pad)
        return cls(typed(sums), text, ended, typed(relay.full(constant(np.array(False)), [rules.batch], "bool")))

    @classmethod
    def of(cls, states: Sequence[Expr]) -> Beams:
        """Return the beams whose states a loop carries."""
        sums, tokens, length, texts, scores, count, is_done = states
        return cls(sums, Text(tokens, length), Hypotheses(texts, scores, count), is_done)

    @property
    def states(self) -> list[Expr]:
        """The values, for a loop to carry."""
        assert self.text.length is not None
        return [self.sums, self.text.tokens, self.text.length, *self.ended.states, self.is_done]

    STATE_NAMES = ("sums", "tokens", "length", "texts", "text_scores", "text_count", "is_done")

    def chosen(self, ctx: Context, rules: BeamRules, scores: Expr) -> Choice:
        """Return how the beams go on; `scores` are the logarithms of the likelihoods of tokens, (rows, tokens)."""
        assert self.text.length is not None
        words = ctx.shape(scores)[1]
        totals = relay.add(relay.reshape(scores, [rules.batch, rules.count, words]), relay.expand_dims(self.sums, 2))
        sums, token, row = _best(ctx, rules, typed(totals), words)
        is_end = relay.equal(token, constant(np.int32(rules.eos)))

        # Texts that end now. One that ends in other than the best places is forgotten.
        open_ = relay.logical_not(self.is_done)
        length = self.text.length
        ends = relay.logical_and(first(is_end, rules.count), relay.expand_dims(open_, 1))
        texts = relay.take(self.text.tokens, first(row, rules.count), axis=0)
        score = normalised(first(sums, rules.count), length, rules.penalty)
        ended = self.ended.with_more(ctx, typed(texts), score, typed(ends))

        # The others in their order, of which there are enough: no beam ends in two ways.
        order = first(relay.argsort(relay.cast(is_end, "int32"), axis=1, dtype="int64"), rules.count)
        wide = relay.expand_dims(open_, 1)
        on, token, row = (
            relay.where(wide, relay.gather(x, 1, order), relay.full_like(relay.gather(x, 1, order), nothing))
            for x, nothing in (
                (sums, constant(np.float32(0))), (token, constant(np.int32(rules.pad))), (row, constant(np.int64(0)))
            )
        )  # fmt: skip
        is_done = relay.logical_or(self.is_done, self._cannot_improve(ctx, rules, ended, sums))
        token, row = (typed(relay.reshape(x, [rules.rows])) for x in (token, row))
        text = Text(typed(relay.take(self.text.tokens, row, axis=0)), length).with_next(ctx, token)
        return Choice(Beams(typed(on), text, ended, typed(is_done)), token, row, typed(totals))

    def _cannot_improve(self, ctx: Context, rules: BeamRules, ended: Hypotheses, sums: Expr) -> Expr:
        """Return for which prompts no beam can become better than the texts that there are, bool (prompts,)."""
        assert self.text.length is not None
        is_full = relay.greater_equal(ended.count, _number(rules.count))
        if rules.stops_early:
            return is_full
        last = sizes(np.array(dims.sub(rules.count, 1), dtype=object))
        hope = normalised(_hoped(ctx, rules, sums), self.text.length, rules.penalty)
        return relay.logical_and(is_full, relay.greater_equal(relay.take(ended.scores, last, axis=1), hope))

    def finished(self, ctx: Context, rules: BeamRules) -> Hypotheses:
        """Return the best texts, of those that ended and those that would go on."""
        assert self.text.length is not None
        shape = [rules.batch, rules.count, ctx.shape(self.text.tokens)[1]]
        score = normalised(self.sums, self.text.length, rules.penalty)
        open_ = relay.broadcast_to(relay.expand_dims(relay.logical_not(self.is_done), 1), shape[:2])
        return self.ended.with_more(ctx, typed(relay.reshape(self.text.tokens, shape)), score, typed(open_))


@dataclass(frozen=True)
class Choice:
    """How beams go on.

    Attributes
    ----------
    beams : Beams
        The beams with one more token.
    token : Expr
        That token, int32 (rows,).
    row : Expr
        Which beam each one goes on from, int64 (rows,).
    totals : Expr
        The scores of all tokens that might have come, float32 (prompts, beams, tokens).
    """

    beams: Beams
    token: Expr
    row: Expr
    totals: Expr

    def taken(self, ctx: Context, rules: BeamRules, x: Expr, axis: int) -> Expr:
        """Return of a tensor for all beams the parts that the beams go on from."""
        if rules.count == 1:
            return x
        row = self.row
        if not isinstance(rules.count, int):
            is_one = relay.equal(_number(rules.count), constant(np.int64(1)))
            row = relay.where(is_one, ctx.positions(rules.rows, "int64"), row)
        return typed(relay.take(x, row, axis=axis))


def _best(ctx: Context, rules: BeamRules, totals: Expr, words: Dim) -> tuple[Expr, Expr, Expr]:
    """Return the best scores for each prompt, twice as many as beams, from the best on: (prompts, 2 * beams).

    With them come their tokens, int32, and the beams that they follow, counted over all prompts, int64.
    """
    twice = dims.mul(rules.count, 2)
    flat = relay.reshape(totals, [rules.batch, dims.mul(rules.count, words)])
    k = twice if isinstance(twice, int) else _number(twice)
    found = relay.topk(flat, k, 1, "both", False, "int64").astuple()
    pair = [typed(relay.TupleGetItem(typed(found), i)) for i in range(2)]
    sums, place = (pinned(ctx, p, [rules.batch, twice]) for p in pair)
    size = _number(words)
    start = relay.multiply(ctx.positions(rules.batch, "int64"), _number(rules.count))
    row = relay.add(relay.floor_divide(place, size), relay.expand_dims(start, 1))
    return typed(sums), typed(relay.cast(relay.floor_mod(place, size), "int32")), typed(row)


def _hoped(ctx: Context, rules: BeamRules, sums: Expr) -> Expr:
    """Return the best score that each prompt is taken to reach, (prompts,), of scores (prompts, 2 * beams).

    onnxruntime takes the best of as many scores from the place prompt * beams on, where those of the first prompt alone
    begin: with several prompts it may go on for longer, and find other texts. So that the texts are the same, it is
    done so here.
    """
    twice = dims.mul(rules.count, 2)
    flat = relay.reshape(sums, [dims.mul(rules.batch, twice)])
    start = relay.multiply(ctx.positions(rules.batch, "int64"), _number(rules.count))
    window = relay.add(relay.expand_dims(start, 1), relay.expand_dims(ctx.positions(twice, "int64"), 0))
    return typed(relay.max(relay.take(flat, window, axis=0), [1]))


def _number(dim: Dim) -> Expr:
    return sizes(np.array(dim, dtype=object))
