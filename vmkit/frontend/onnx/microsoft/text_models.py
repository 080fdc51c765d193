"""Models that write texts token by token, as the operators that search for texts see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import onnx

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..scope import Scope
from .language_model import GptDecoder
from .prompt import Prompt
from .token_scores import Text

__all__ = ["GptWriter", "Writer"]


class Writer(Protocol):
    """A model that gives logits for the next token of texts.

    Attributes
    ----------
    ctx : Context
        The node, seen with the weights of what runs for each token in scope.
    begun : Expr
        What texts begin with, int32 (prompts, tokens).
    row_axis : int
        The axis of pasts along which the texts are.
    vocabulary : int or None
        How many tokens are scored; None for all that the logits have.
    """

    ctx: Context
    begun: Expr
    row_axis: int
    vocabulary: int | None

    def begin(self) -> tuple[Expr, list[Expr]]:
        """Return the logits for the first new token of each prompt, and the pasts after it was read."""

    def repeat(self, rows: Expr) -> None:
        """Go on with texts of which each begins as the prompt of a number in `rows`."""

    def text(self, places: Expr, pad: int) -> Text:
        """Return the texts as they begin, with room for as many tokens as `places` has."""

    def further(self, scope: Scope, position: Expr, token: Expr, pasts: Sequence[Expr]) -> tuple[Expr, list[Expr]]:
        """Return the logits after one more token (rows,), and the pasts; in an iteration of a loop."""


class GptWriter:
    """A decoder in the form of GPT-2, which reads the prompt and goes on with it."""

    row_axis = 1

    def __init__(
        self,
        ctx: Context,
        prompt: Prompt,
        decoder: onnx.GraphProto,
        init_decoder: onnx.GraphProto | None,
        vocabulary: int,
    ) -> None:
        self.prompt, self.begun = prompt, prompt.ids
        self.later = GptDecoder(ctx, decoder, "decoder")
        self.first = self.later if init_decoder is None else GptDecoder(ctx, init_decoder, "init_decoder")
        self.ctx = self.later.ctx
        self.vocabulary = self.later.network.vocabulary(vocabulary)

    def begin(self) -> tuple[Expr, list[Expr]]:
        prompt, nothing = self.prompt, self.first.nothing(self.prompt.ids)
        return self.first.run(self.first.ctx.scope, prompt.ids, prompt.positions, prompt.mask, nothing)

    def repeat(self, rows: Expr) -> None:
        self.prompt = self.prompt.repeated(rows)

    def text(self, places: Expr, pad: int) -> Text:
        return self.prompt.text(places, pad)

    def further(self, scope: Scope, position: Expr, token: Expr, pasts: Sequence[Expr]) -> tuple[Expr, list[Expr]]:
        ctx, prompt = Context(self.ctx.importer, self.ctx.node, self.ctx.version, scope), self.prompt.inside(scope)
        at, mask = prompt.position_at(position), prompt.mask_after(ctx, pasts[0])
        return self.later.run(scope, relay.expand_dims(token, 1), at, mask, pasts)
