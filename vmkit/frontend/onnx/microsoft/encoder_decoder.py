"""Models of an encoder and a decoder in the form of T5 or Whisper, which write a text from what was encoded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from .... import relay
from ....relay.ir import Any as AnyDim
from ....relay.ir import Expr, TensorType, dims
from ..context import Context
from ..known import constant
from ..run_time_axes import pinned, size_along
from ..scope import Scope
from ..typing import typed
from .language_model import SHARED, Network
from .prompt import require_rows
from .token_scores import Text, begun_text

__all__ = ["EncodedWriter", "encoded_mask", "start_tokens"]


class EncodedWriter:
    """An encoder and a decoder.

    The encoder gives the keys and values of what it reads, to which every layer of the decoder attends: alone, or after
    the logits of the first new token, its hidden states, and the decoder's keys and values of what texts begin with.

    Parameters
    ----------
    source, begun : Expr
        What the encoder reads, with an axis of prompts, and what texts begin with, int32 (prompts, tokens).
    mask : Expr or None
        Which tokens of the source are attended to, int32 (prompts, tokens); None for models without.
    """

    row_axis = 0

    def __init__(
        self,
        ctx: Context,
        source: Expr,
        mask: Expr | None,
        begun: Expr,
        encoder: onnx.GraphProto,
        decoder: onnx.GraphProto,
        vocabulary: int,
    ) -> None:
        self.begun = begun
        self.masks = [] if mask is None else [mask]
        self.inputs = [source, *self.masks]
        self.encoder, self.decoder = Network(ctx, encoder, "encoder"), Network(ctx, decoder, "decoder")
        self.ctx = self.decoder.ctx
        self.layers, self.takes_hidden = self._form(ctx, encoder, decoder)
        self.vocabulary = self.decoder.vocabulary(vocabulary)
        self.seen: list[Expr] = []

    def _form(self, ctx: Context, encoder: onnx.GraphProto, decoder: onnx.GraphProto) -> tuple[int, bool]:
        """Return how many layers the decoder has, and whether it takes hidden states of the encoder."""
        layers, odd = divmod(len(decoder.output) - 1, 2)
        hidden = len(decoder.input) - 4 * layers - 1 - len(self.masks)
        masks = "encoder_attention_mask, " if self.masks else ""
        if odd or layers < 1 or hidden not in (0, 1):
            ctx.fail(
                f"decoder has {len(decoder.input)} inputs and {len(decoder.output)} outputs; it takes input_ids, "
                f"{masks}encoder_hidden_states if it wants, and for each layer the keys and values of the text and of "
                "what was encoded; it gives logits and for each layer the new keys and values"
                + (f"; {SHARED}" if hidden > 1 else "")
            )
        first_step, alone = len(self.inputs) + 1, len(self.inputs) if self.masks and not hidden else -1
        expected = {first_step: 2 + 4 * layers, alone: 2 * layers}.get(len(encoder.input))
        if len(encoder.output) != expected:
            ctx.fail(
                f"encoder has {len(encoder.input)} inputs and {len(encoder.output)} outputs; for {layers} layers it "
                f"takes encoder_input_ids, {masks}decoder_input_ids and gives logits, hidden states and {4 * layers} "
                "keys and values"
                + (f", or takes no decoder_input_ids and gives {2 * layers} keys and values" if self.masks else "")
            )
        if self.decoder.declared(decoder.input[0]).shape[-1] != 1:
            ctx.fail("decoder declares input_ids of more than one token; export it for one token, with a past")
        return layers, hidden == 1

    def begin(self) -> tuple[Expr, list[Expr]]:
        own = 2 * self.layers
        begin = [*self.inputs, self.begun][: len(self.encoder.graph.input)]
        given = self.encoder.run(self.encoder.ctx.scope, begin)
        if len(begin) > len(self.inputs):
            logits, hidden, *presents = given
            self.seen = [*self.masks, *([hidden] if self.takes_hidden else []), *presents[own:]]
            return logits, presents[:own]
        self.seen = [*self.masks, *given]
        return self._run(self.ctx.scope, self.begun, self.seen, self._nothing())

    def _nothing(self) -> list[Expr]:
        """Return the keys and values of no token."""
        first = 1 + len(self.masks) + int(self.takes_hidden)
        declared = [self.decoder.declared(i) for i in self.decoder.graph.input[first : first + 2 * self.layers]]
        for past in declared:
            if len(past.shape) != 4 or any(dims.is_any(past.shape[k]) for k in (1, 3)):
                self.ctx.fail(f"a past of decoder is {past}; expected (rows, heads, tokens, size), 2 of them known")
        return [typed(self._empty(past)) for past in declared]

    def _empty(self, past: TensorType) -> Expr:
        shape = [self.ctx.shape(self.begun)[0], past.shape[1], 0, past.shape[3]]
        return relay.full(self.ctx.constant(0, past.dtype), shape, past.dtype)

    def repeat(self, rows: Expr) -> None:
        self.seen = [typed(relay.take(s, rows, axis=0)) for s in self.seen]
        self.begun = typed(relay.take(self.begun, rows, axis=0))

    def text(self, places: Expr, pad: int) -> Text:
        return begun_text(self.begun, size_along(self.ctx, self.begun, 1), places, pad)

    def further(self, scope: Scope, position: Expr, token: Expr, pasts: Sequence[Expr]) -> tuple[Expr, list[Expr]]:
        seen = [scope.take(s, f"encoded_{i}") for i, s in enumerate(self.seen)]
        return self._run(scope, typed(relay.expand_dims(token, 1)), seen, pasts)

    def _run(self, scope: Scope, tokens: Expr, seen: Sequence[Expr], pasts: Sequence[Expr]) -> tuple[Expr, list[Expr]]:
        before = len(seen) - 2 * self.layers
        logits, *presents = self.decoder.run(scope, [tokens, *seen[:before], *pasts, *seen[before:]])
        rows = self.ctx.shape(tokens)[0]
        longer = []
        for new, past in zip(presents, pasts, strict=True):
            _, heads, length, size = self.ctx.shape(past)
            longer.append(typed(pinned(self.ctx, new, [rows, heads, dims.add(length, 1), size])))
        return typed(pinned(self.ctx, logits, [rows, 1, AnyDim()])), longer


def encoded_mask(ctx: Context, ids: Expr, mask: Expr | None, pad: int) -> Expr:
    """Return which tokens of a prompt are attended to, int32: all but padding before the first, if no mask is given."""
    require_rows(ctx, ids, mask)
    if mask is None:
        words = relay.cast(relay.not_equal(ids, constant(np.int32(pad))), "int32")
        return typed(relay.minimum(relay.cumsum(words, axis=1), constant(np.int32(1))))
    return typed(pinned(ctx, mask, ctx.shape(ids)))


def start_tokens(ctx: Context, start: int, source: Expr) -> Expr:
    """Return the token that the text of each prompt begins with, int32 (prompts, 1)."""
    if start < 0:
        ctx.fail(f"decoder_start_token_id is {start}; it is the token that texts begin with, at least 0")
    return typed(relay.full(constant(np.int32(start)), [ctx.shape(source)[0], 1], "int32"))
