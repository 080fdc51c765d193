"""Scores of the next token, and the rules that forbid tokens or make them less likely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Dim, Expr, dims
from ....relay.op import build
from ..context import Context
from ..known import constant, sizes
from ..operators.control_flow import scalar
from ..run_time_axes import pinned, positions_along, size_along
from ..scope import Scope
from ..typing import typed

__all__ = [
    "Inputs",
    "Text",
    "TokenRules",
    "any_goes_on",
    "before",
    "begun_text",
    "counted",
    "last_scores",
    "real_number",
    "whole_number",
    "without_repeated",
]

Inputs = Mapping[str, "Expr | None"]
"""The inputs of an operator by name, None for one that is left out."""

# The score of a token that is forbidden. Where all are, one of them is still chosen, so it is no infinity.
_LOWEST = float(np.finfo("float32").min)


@dataclass(frozen=True)
class Text:
    """Rows of tokens that are being written.

    Attributes
    ----------
    tokens : Expr
        int32 (rows, places).
    length : Expr or None
        How many places have been written, an int64 scalar; None for all of them.
    """

    tokens: Expr
    length: Expr | None = None

    def written(self, ctx: Context) -> Expr:
        """Return tokens (rows, places) of which those that have not been written repeat the first one."""
        if self.length is None:
            return self.tokens
        is_there = relay.less(positions_along(ctx, typed(self.tokens), 1), self.length)
        first = relay.strided_slice(self.tokens, [0], [1], [1], axes=[1])
        return typed(relay.where(relay.expand_dims(is_there, 0), self.tokens, first))

    def with_next(self, ctx: Context, token: Expr) -> Text:
        """Return the rows with one more token each; `token` is int32 (rows,)."""
        assert self.length is not None
        is_next = relay.equal(positions_along(ctx, typed(self.tokens), 1), self.length)
        tokens = relay.where(relay.expand_dims(is_next, 0), relay.expand_dims(token, 1), self.tokens)
        return Text(typed(tokens), typed(relay.add(self.length, constant(np.int64(1)))))


def begun_text(ids: Expr, length: Expr, places: Expr, pad: int) -> Text:
    """Return the text that begins with tokens (rows, length), with room for as many as there are `places`: padding."""
    own = relay.take(ids, before(places, length), axis=1)
    is_own = relay.expand_dims(relay.less(places, length), 0)
    return Text(typed(relay.where(is_own, own, constant(np.int32(pad)))), length)


def any_goes_on(ended: Expr) -> Expr:
    """Return whether there is a row, or a prompt, that has not ended; `ended` is bool (rows,)."""
    return typed(relay.logical_not(relay.all(ended)))


def before(places: Expr, end: Expr) -> Expr:
    """Return places, those from an end on replaced by the last one before it."""
    return relay.minimum(places, relay.subtract(end, constant(np.int64(1))))


@dataclass(frozen=True)
class TokenRules:
    """What changes the scores of the next token, in the order in which it does.

    Attributes
    ----------
    eos : int
        The token that ends a row.
    penalty : Expr or None
        A float32 scalar by which the scores of tokens that a row has become less likely: a negative score is
        multiplied by it, any other one divided.
    ngram_size : int
        So many tokens in a row do not come twice; 0 for no such rule.
    vocabulary, first_vocabulary : Expr or None
        Which tokens may come at all, int32 (tokens,), and which as the first new one, int32 (rows, tokens); 0 forbids.
    least : Expr or None
        The length before which no row ends, an int64 scalar.
    temperature : Expr or None
        What all scores are divided by in the end, a float32 scalar.
    """

    eos: int
    penalty: Expr | None = None
    ngram_size: int = 0
    vocabulary: Expr | None = None
    first_vocabulary: Expr | None = None
    least: Expr | None = None
    temperature: Expr | None = None

    @classmethod
    def of(cls, ctx: Context, given: Inputs, eos: int, ngram_size: int) -> TokenRules:
        """Return the rules that inputs of a node are, by their names; those that change nothing are left out."""
        masks = given["vocab_mask"], given["prefix_vocab_mask"]
        for rank, (name, mask) in enumerate(zip(("vocab_mask", "prefix_vocab_mask"), masks, strict=True), 1):
            if mask is not None and (ctx.rank(mask) != rank or ctx.dtype(mask) != "int32"):
                ctx.fail(f"{name} is {ctx.type(mask)}; expected int32 of {rank} dimensions, the last for all tokens")
        least = None if given["min_length"] is None else whole_number(ctx, given["min_length"], "min_length")
        if least is not None and (ctx.scalar(least) or 1) <= 0:
            least = None
        temperature = given.get("temperature")
        if temperature is not None:
            temperature = real_number(ctx, temperature, "temperature")
        return cls(eos, _penalty(ctx, given["repetition_penalty"]), ngram_size, *masks, least, temperature)

    def inside(self, scope: Scope) -> TokenRules:
        """Return the rules as they are seen inside a loop, for all tokens but the first."""

        def seen(value: Expr | None, name: str) -> Expr | None:
            return None if value is None else scope.take(value, name)

        return replace(
            self,
            penalty=seen(self.penalty, "penalty"),
            vocabulary=seen(self.vocabulary, "vocabulary"),
            first_vocabulary=None,
            least=seen(self.least, "least"),
            temperature=seen(self.temperature, "temperature"),
        )

    def applied(self, ctx: Context, scores: Expr, text: Text) -> Expr:
        """Return scores, float32 (rows, tokens), after the rules."""
        if self.penalty is not None:
            scores = _penalised(ctx, scores, text, self.penalty)
        if self.ngram_size:
            scores = without_repeated(ctx, text, scores, self.ngram_size, _LOWEST)
        lowest, shape = constant(np.float32(_LOWEST)), ctx.shape(typed(scores))
        for allowed in (self.vocabulary, self.first_vocabulary):
            if allowed is not None:
                allowed = pinned(ctx, allowed, shape[-ctx.rank(allowed) :])
                scores = relay.where(relay.equal(allowed, constant(np.int32(0))), lowest, scores)
        if self.least is not None:
            length = size_along(ctx, text.tokens, 1) if text.length is None else text.length
            is_end = relay.equal(positions_along(ctx, typed(scores), 1), constant(np.int64(self.eos)))
            scores = relay.where(relay.logical_and(is_end, relay.less(length, self.least)), lowest, scores)
        if self.temperature is not None:
            scores = relay.divide(scores, self.temperature)
        return typed(scores)


def _penalty(ctx: Context, given: Expr | None) -> Expr | None:
    """Return a penalty as a float32 scalar; None for 1, which changes no score."""
    if given is None or ctx.scalar(given) == 1:
        return None
    value, known = real_number(ctx, given, "repetition_penalty"), ctx.scalar(given)
    message = "repetition_penalty must be greater than 0"
    if known is not None:
        return value if known > 0 else ctx.fail(f"{message}, not {known}")
    is_right = relay.less(constant(np.float32(0)), value)
    return typed(build("dyn.require", value, is_right, message=f"{ctx.node.op_type}: {message}"))


def _penalised(ctx: Context, scores: Expr, text: Text, penalty: Expr) -> Expr:
    """Return scores of which those of the tokens in a row are made less likely, each once."""
    tokens = relay.cast(text.written(ctx), "int64")
    own = relay.gather(scores, 1, tokens)
    is_negative = relay.less(own, constant(np.float32(0)))
    changed = relay.where(is_negative, relay.multiply(own, penalty), relay.divide(own, penalty))
    return typed(relay.scatter_elements(scores, tokens, changed, 1, "update"))


def without_repeated(ctx: Context, text: Text, scores: Expr, ngram_size: int, lowest: float) -> Expr:
    """Return the scores with a lowest one for each token that would make of the last ones what has been there."""
    places = ctx.shape(text.tokens)[1]
    if ngram_size < 1 or dims.is_any(places):
        ctx.fail(
            f"the number of tokens that must not be repeated is {ngram_size}, at least 1, and the length of "
            f"{ctx.type(text.tokens)} must be known at import"
        )
    before = ngram_size - 1
    count = dims.maximum(dims.sub(places, before), 0)
    repeated = constant(np.array([[True]]))
    if text.length is not None:
        end = relay.subtract(text.length, constant(np.int64(before)))
        repeated = relay.expand_dims(relay.less(ctx.positions(count, "int64"), end), 0)
    for k in range(before):
        last = relay.take(text.tokens, _place_before(text, places, before - k), axis=1, mode="clip")
        there = relay.strided_slice(text.tokens, [k], [dims.add(count, k)], [1], axes=[1])
        repeated = relay.logical_and(repeated, relay.equal(there, last))
    tokens = relay.strided_slice(text.tokens, [before], [dims.add(count, before)], [1], axes=[1])
    least, most = (ctx.constant(v, ctx.dtype(scores)) for v in (lowest, np.inf))
    limits = relay.where(relay.broadcast_to_like(repeated, tokens), least, most)
    return typed(relay.scatter_elements(scores, relay.cast(tokens, "int64"), limits, 1, "min"))


def _place_before(text: Text, places: Dim, distance: int) -> Expr:
    """Return the place so far before the end of what has been written, as a vector of one."""
    if text.length is None:
        return sizes([dims.sub(places, distance)])
    return relay.reshape(relay.subtract(text.length, constant(np.int64(distance))), [1])


def last_scores(ctx: Context, logits: Expr, vocabulary: int | None) -> Expr:
    """Return the scores, float32, that the last step of logits (rows, steps, tokens) gives the tokens."""
    last = relay.subtract(size_along(ctx, logits, 1), constant(np.int64(1)))
    steps = ctx.shape(logits)[1]
    if not dims.is_any(steps):
        last = sizes(np.array(dims.sub(steps, 1), dtype=object))
    scores = typed(relay.take(logits, last, axis=1))
    if vocabulary is not None and ctx.shape(scores)[1] != vocabulary:
        scores = relay.strided_slice(scores, [0], [vocabulary], [1], axes=[1])
    return typed(relay.cast(scores, "float32"))


def whole_number(ctx: Context, value: Expr, name: str) -> Expr:
    """Return an input of one integer as an int64 scalar."""
    known = ctx.scalar(value)
    return typed(relay.cast(_one(ctx, value, name), "int64")) if known is None else constant(np.int64(known))


def real_number(ctx: Context, value: Expr, name: str) -> Expr:
    """Return an input of one number as a float32 scalar."""
    known = ctx.scalar(value)
    return typed(relay.cast(_one(ctx, value, name), "float32")) if known is None else constant(np.float32(known))


def _one(ctx: Context, value: Expr, name: str) -> Expr:
    if any(d != 1 for d in ctx.shape(value) if isinstance(d, int)):
        ctx.fail(f"{name} is {ctx.type(value)}; expected one number")
    return scalar(ctx, value)


def counted(ctx: Context, number: Expr) -> Expr:
    """Return a vector 0, 1, ... of so many elements, whose type has the number as a size.

    What is known only at run time is a size without a name; see ``with_named_sizes``.
    """
    known = ctx.scalar(number)
    if known is not None:
        return ctx.positions(max(int(known), 0), "int64")
    return typed(relay.arange(constant(np.int64(0)), number, constant(np.int64(1)), "int64"))
