"""WhisperBeamSearch: texts of what sounds were encoded to, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.microsoft.generation import FEATURES, VOCABULARY, whisper, whisper_beam_search
from tests.frontend.onnx.microsoft.test_beam_search import NUMBERS, agrees, numbers
from tests.frontend.onnx.programs import array
from vmkit.errors import ModelError
from vmkit.relay.frontend import from_onnx

TEMPERATURE = {"temperature": 0.7}


def sounds(random: np.random.Generator, rows: int, frames: int, tokens: int, **more: float) -> dict[str, Any]:
    """Return sounds, what their texts begin with, and more inputs, which are numbers."""
    ids = random.integers(0, VOCABULARY, (rows, tokens)).astype("int32")
    made: dict[str, Any] = {"input_features": array(rows, FEATURES, frames), "decoder_input_ids": ids}
    for name, given in more.items():
        made[name] = np.array([given], "float32" if "penalty" in name or name == "temperature" else "int32")
    return made


def test_numbers_and_beginnings_of_the_run() -> None:
    random = np.random.default_rng(0)
    free = [*NUMBERS, "decoder_input_ids", "temperature"]
    proto = whisper_beam_search({}, free, no_repeat_ngram_size=3, **whisper(1, 0, takes_hidden=True))
    sizes = ((1, 1, 1), (3, 4, 2), (2, 7, 4), (4, 2, 1), (3, 8, 3))
    agrees(proto, *(sounds(random, *size, **numbers(random, **TEMPERATURE)) for size in sizes))


@pytest.mark.parametrize(
    ("changed", "attributes", "message"),
    [
        ({"logits_processor": 1}, {}, "the rules of timestamps are not supported"),
        ({}, {"decoder_output_cross_qk": 1}, "cross_qk and non_speech_probs are not supported"),
        ({}, {"decoder_start_token_id": -1}, "decoder_start_token_id is -1; it is the token that texts begin with"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], attributes: dict[str, Any], message: str) -> None:
    constants = {"max_length": 9, "num_beams": 2, "num_return_sequences": 1, **changed}
    with pytest.raises(ModelError, match=message):
        from_onnx(whisper_beam_search(constants, **whisper(1, 0, takes_hidden=False), **attributes))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(6))
def test_random_models(seed: int) -> None:
    random = np.random.default_rng(seed)
    constants: dict[str, Any] = {} if seed % 2 else numbers(random, **TEMPERATURE)
    free = [*([*NUMBERS, "temperature"] if seed % 2 else []), "decoder_input_ids"]
    attributes = {"no_repeat_ngram_size": int(random.integers(0, 4)), "early_stopping": int(random.integers(2))}
    proto = whisper_beam_search(constants, free, **attributes, **whisper(1 + seed % 2, seed, bool(random.integers(2))))
    feeds = []
    for _ in range(20):
        more: dict[str, Any] = numbers(random, **TEMPERATURE) if seed % 2 else {}
        feeds.append(sounds(random, *random.integers(1, 6, 3), **more))
    agrees(proto, *feeds)
