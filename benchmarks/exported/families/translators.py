"""Encoders and steps of decoders that read them: T5, Whisper."""

from __future__ import annotations

import torch
import transformers

from ..family import Tensors, family
from ..wrapped import Cached, Wrapped, cache_names, caches, ids

_LAYERS, _WORDS, _HEADS, _WIDTH = 2, 100, 4, 16
_PAST = cache_names(_LAYERS, crossed=True)
_OUTPUTS = ("logits", *cache_names(_LAYERS, prefix="present"))
_PAST_AXES = {n: {0: "batch", 2: "encoded" if "encoder" in n else "past"} for n in _PAST}


def _t5() -> transformers.T5ForConditionalGeneration:
    config = transformers.T5Config(
        vocab_size=_WORDS, d_model=64, d_kv=_WIDTH, d_ff=128, num_layers=_LAYERS, num_heads=_HEADS,
        relative_attention_num_buckets=8, relative_attention_max_distance=16,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)


def _text(batch: int, sequence: int) -> Tensors:
    mask = torch.ones(batch, sequence, dtype=torch.int64)
    mask[1:, sequence - sequence // 4 :] = 0
    return {"input_ids": ids(batch, sequence, _WORDS), "attention_mask": mask}


@family(
    inputs=_text,
    axes={"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "sequence"}},
    sizes=tuple({"batch": b, "sequence": s} for b, s in ((2, 12), (1, 7), (3, 30))),
)
def t5_encoder() -> torch.nn.Module:
    return Wrapped(_t5().get_encoder(), ("input_ids", "attention_mask"))


_T5_STEP = {
    "decoder_input_ids": {0: "batch"},
    "attention_mask": {0: "batch", 1: "encoded"},
    "encoder_hidden_states": {0: "batch", 1: "encoded"},
}
_STEP_SIZES = tuple({"batch": b, "past": p, "encoded": e} for b, p, e in ((2, 5, 7), (1, 1, 4), (3, 20, 12)))


def _t5_step(batch: int, past: int, encoded: int) -> Tensors:
    mask = torch.ones(batch, encoded, dtype=torch.int64)
    mask[1:, -1:] = 0
    return {
        "decoder_input_ids": ids(batch, 1, _WORDS),
        "attention_mask": mask,
        "encoder_hidden_states": torch.randn(batch, encoded, 64),
        **caches(_PAST, batch, _HEADS, past, _WIDTH, encoded),
    }


@family(inputs=_t5_step, axes={**_T5_STEP, **_PAST_AXES}, sizes=_STEP_SIZES, outputs=_OUTPUTS)
def t5_decoder() -> torch.nn.Module:
    return Cached(_t5(), tuple(_T5_STEP), crossed=True)


def _whisper() -> transformers.WhisperForConditionalGeneration:
    config = transformers.WhisperConfig(
        vocab_size=_WORDS, num_mel_bins=20, d_model=64, encoder_layers=_LAYERS, decoder_layers=_LAYERS,
        encoder_attention_heads=_HEADS, decoder_attention_heads=_HEADS, encoder_ffn_dim=128, decoder_ffn_dim=128,
        max_source_positions=30, max_target_positions=40, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1,
    )  # fmt: skip
    return transformers.WhisperForConditionalGeneration(config)


@family(
    inputs=lambda batch: {"input_features": torch.randn(batch, 20, 60)},
    axes={"input_features": {0: "batch"}},
    sizes=({"batch": 2}, {"batch": 1}, {"batch": 4}),
)
def whisper_encoder() -> torch.nn.Module:
    """Whisper always hears the same length."""
    return Wrapped(_whisper().get_encoder(), ("input_features",))


_WHISPER_STEP = {"decoder_input_ids": {0: "batch"}, "encoder_hidden_states": {0: "batch", 1: "encoded"}}


def _whisper_step(batch: int, past: int, encoded: int) -> Tensors:
    return {
        "decoder_input_ids": ids(batch, 1, _WORDS),
        "encoder_hidden_states": torch.randn(batch, encoded, 64),
        **caches(_PAST, batch, _HEADS, past, _WIDTH, encoded),
    }


@family(
    inputs=_whisper_step,
    axes={**_WHISPER_STEP, **_PAST_AXES},
    sizes=_STEP_SIZES,
    outputs=_OUTPUTS,
    without={"script": "tracing fixes the length of the causal mask"},
)
def whisper_decoder() -> torch.nn.Module:
    return Cached(_whisper(), tuple(_WHISPER_STEP), crossed=True)
