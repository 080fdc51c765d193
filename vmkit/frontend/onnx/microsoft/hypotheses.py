"""The best texts that beams have ended with: for each prompt, as many as there are beams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Dim, Expr
from ..context import Context
from ..known import constant
from ..run_time_axes import positions_along, size_along
from ..typing import typed

__all__ = ["Hypotheses", "first", "normalised"]


@dataclass(frozen=True)
class Hypotheses:
    """Texts from the best to the worst.

    Attributes
    ----------
    tokens : Expr
        int32 (prompts, beams, places), padded.
    scores : Expr
        float32 (prompts, beams).
    count : Expr
        How many there are so far, int64 (prompts,); what comes after them has no meaning.
    """

    tokens: Expr
    scores: Expr
    count: Expr

    @classmethod
    def none(cls, shape: Sequence[Dim], pad: int) -> Hypotheses:
        """Return no texts; `shape` is that of the tokens."""
        parts = [(pad, "int32", shape), (0, "float32", shape[:2]), (0, "int64", shape[:1])]
        return cls(*(typed(relay.full(constant(np.asarray(v, d)), list(s), d)) for v, d, s in parts))

    @property
    def states(self) -> list[Expr]:
        """The values, for a loop to carry."""
        return [self.tokens, self.scores, self.count]

    def with_more(self, ctx: Context, tokens: Expr, scores: Expr, is_text: Expr) -> Hypotheses:
        """Return the best of these and of as many others, those of them that `is_text` marks.

        Of equal scores the older is better. A score may be infinite: what is no text comes after all that are.
        """
        most = ctx.shape(self.scores)[1]
        place = relay.expand_dims(positions_along(ctx, self.scores, 1), 0)
        is_there = relay.concatenate([relay.less(place, relay.expand_dims(self.count, 1)), is_text], 1)
        whole = typed(relay.concatenate([self.scores, scores], 1))
        by_score = relay.argsort(whole, axis=1, is_ascend=False, dtype="int64")
        missing = relay.cast(relay.logical_not(relay.gather(is_there, 1, by_score)), "int32")
        there_first = relay.argsort(missing, axis=1, dtype="int64")
        best = first(relay.gather(by_score, 1, there_first), most)
        texts = relay.take(relay.concatenate([self.tokens, tokens], 1), best, axis=1, batch_dims=1)
        count = relay.minimum(relay.sum(relay.cast(is_there, "int64"), [1]), size_along(ctx, self.scores, 1))
        return Hypotheses(typed(texts), typed(relay.gather(whole, 1, best)), typed(count))


def first(x: Expr, count: Dim) -> Expr:
    """Return the first elements along axis 1."""
    return typed(relay.strided_slice(x, [0], [count], [1], axes=[1]))


def normalised(sums: Expr, length: Expr, penalty: Expr) -> Expr:
    """Return scores of texts of a length: sums of logarithms over the length to the power of a penalty."""
    return typed(relay.divide(sums, relay.power(relay.cast(length, "float32"), penalty)))
