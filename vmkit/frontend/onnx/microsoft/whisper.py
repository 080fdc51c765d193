"""WhisperBeamSearch: texts of what is said in sounds."""

from __future__ import annotations

from ...._dataclasses import dataclass
from ....relay.ir import Expr
from ..context import Context
from ..registry import converter
from ..run_time_axes import pinned
from ..typing import typed
from .beam_search import Options, searched
from .encoder_decoder import EncodedWriter, start_tokens
from .prompt import require_room
from .token_scores import Inputs


@dataclass(frozen=True)
class WhisperOptions(Options):
    """The attributes of WhisperBeamSearch; those that name tokens are for the rules of timestamps."""

    model_type: int = 2
    beginning_timestamp_token_id: int = -1
    decoder_output_cross_qk: int = 0
    no_speech_token_id: int = -1
    no_timestamps_token_id: int = -1
    start_of_lm_token_id: int = -1
    transcribe_token_id: int = -1
    translate_token_id: int = -1


@converter("WhisperBeamSearch", domain="com.microsoft")
def whisper_beam_search(
    ctx: Context,
    features: Expr,
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
    cross_qk_layer_head: Expr | None = None,
    extra_decoding_ids: Expr | None = None,
    temperature: Expr | None = None,
    *,
    options: WhisperOptions,
) -> list[Expr]:
    """The best texts for each sound, their scores, and the scores of all tokens that might have come."""
    if options.model_type != 2 or options.encoder is None:
        ctx.fail(f"model_type is {options.model_type}; it is 2, with an encoder: for other models take BeamSearch")
    if options.decoder_output_cross_qk or cross_qk_layer_head is not None or ctx.wants(3) or ctx.wants(4):
        ctx.fail("cross_qk and non_speech_probs are not supported; export without them")
    if logits_processor is not None and ctx.scalar(logits_processor) != 0:
        ctx.fail("the rules of timestamps are not supported; make logits_processor the constant 0, or leave it out")
    if extra_decoding_ids is not None or attention_mask is not None:
        ctx.fail("extra_decoding_ids and attention_mask are not supported; leave them out")
    if ctx.rank(features) != 3:
        ctx.fail(f"the features are {ctx.type(features)}; expected (sounds, features, frames)")
    given = {
        "source": features, "min_length": min_length, "length_penalty": length_penalty,
        "repetition_penalty": repetition_penalty, "vocab_mask": vocab_mask, "prefix_vocab_mask": prefix_vocab_mask,
        "decoder_input_ids": decoder_input_ids, "temperature": temperature,
    }  # fmt: skip
    return searched(ctx, (max_length, num_beams, num_return_sequences), given, options, _writer)


def _writer(ctx: Context, given: Inputs, places: Expr, options: Options) -> EncodedWriter:
    source, begun, encoder = given["source"], given["decoder_input_ids"], options.encoder
    assert source is not None and encoder is not None
    if begun is None:
        begun = start_tokens(ctx, options.decoder_start_token_id, source)
    elif ctx.rank(begun) != 2 or ctx.dtype(begun) != "int32":
        ctx.fail(f"decoder_input_ids is {ctx.type(begun)}; expected int32 (sounds, tokens)")
    begun = typed(pinned(ctx, begun, [ctx.shape(source)[0], ctx.shape(begun)[1]]))
    begun = require_room(ctx, begun, places)
    return EncodedWriter(ctx, source, None, begun, encoder, options.decoder, options.vocab_size)
