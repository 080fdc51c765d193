"""Sampling: a text goes on with tokens that are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import onnx

from ....errors import UnsupportedOperatorError
from ....relay.ir import Expr
from ..context import Context
from ..registry import AttributeGroup, converter


@dataclass(frozen=True)
class Drawing(AttributeGroup):
    """The attributes of Sampling."""

    decoder: onnx.GraphProto
    eos_token_id: int
    pad_token_id: int
    custom: int = 0
    decoder_start_token_id: int = -1
    encoder: onnx.GraphProto | None = None
    filter_value: float = -1e20
    init_decoder: onnx.GraphProto | None = None
    min_tokens_to_keep: int = 0
    model_type: int = 0
    no_repeat_ngram_size: int = 0
    presence_penalty: float = 0.0
    temperature: float = 1.0
    top_p: float = 0.0
    vocab_size: int = -1


@converter("Sampling", domain="com.microsoft")
def sampling(ctx: Context, *inputs: Expr | None, options: Drawing) -> NoReturn:
    """What is drawn depends on onnxruntime's random numbers, so there is nothing to agree with."""
    raise UnsupportedOperatorError(
        "it draws tokens at random; export the model with GreedySearch or BeamSearch, or export its decoder alone and "
        "draw tokens from the logits"
    )
