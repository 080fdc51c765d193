"""BeamSearch: texts, their scores and those of all tokens, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.microsoft.generation import VOCABULARY, beam_search, feed, gpt_decoder, t5_decoder, t5_encoder
from tests.frontend.onnx.programs import ATOL, RTOL, Compiled, session
from vmkit.errors import ModelError, VMError
from vmkit.relay.frontend import from_onnx

NUMBERS = [
    "max_length", "min_length", "num_beams", "num_return_sequences", "length_penalty", "repetition_penalty",
]  # fmt: skip


def assert_same_texts(compiled: Compiled, expected: list[np.ndarray], given: dict[str, Any]) -> None:
    """Assert that all outputs agree; after the last step onnxruntime leaves the scores of tokens as memory was.

    Beams that do not count yet are equal, so that which of them goes on is not compared.
    """
    texts, scores, tokens = compiled(**given)
    np.testing.assert_array_equal(texts, expected[0])
    np.testing.assert_allclose(scores, expected[1], RTOL, ATOL)
    assert tokens.shape == expected[2].shape
    steps = int(np.flatnonzero(tokens.any(axis=(1, 2, 3)))[-1]) + 1
    counts = np.broadcast_to(expected[2][:steps].max(axis=-1, keepdims=True) > -1e8, tokens[:steps].shape)
    np.testing.assert_allclose(tokens[:steps][counts], expected[2][:steps][counts], RTOL, ATOL)


def agrees(proto: onnx.ModelProto, *feeds: dict[str, Any]) -> Compiled:
    compiled, peer = Compiled(proto), session(proto)
    for given in feeds:
        assert_same_texts(compiled, peer.run(None, given), given)
    return compiled


def numbers(random: np.random.Generator, **given: float) -> dict[str, float]:
    """Return values of all inputs that are numbers, random but for those that are given."""
    beams = int(random.integers(1, 6))
    made = {
        "max_length": int(random.integers(9, 20)), "min_length": int(random.choice([0, 0, 5, 8])), "num_beams": beams,
        "num_return_sequences": int(random.integers(1, beams + 1)),
        "length_penalty": float(random.choice([-1, 0, 0.5, 1, 2])),
        "repetition_penalty": float(random.choice([0.5, 1, 1.3])),
    }  # fmt: skip
    return made | given


def test_numbers_and_masks_of_the_run() -> None:
    random, masks = np.random.default_rng(0), {"vocab_mask": None, "prefix_vocab_mask": None, "attention_mask": None}
    proto = beam_search({}, [*NUMBERS, *masks], no_repeat_ngram_size=3)
    sizes = ((1, 1), (3, 4), (2, 7), (4, 2), (3, 8), (2, 3), (3, 3), (2, 5))
    compiled = agrees(proto, *(feed(random, *size, **numbers(random), **masks) for size in sizes))
    for wrong, message in (({"max_length": 4}, "max_length"), ({"num_return_sequences": 6}, "num_return_sequences")):
        with pytest.raises(VMError, match=f"BeamSearch: {message} must be"):
            compiled(**feed(random, 2, 4, **numbers(random, **wrong), **masks))


def test_fixed_numbers_and_a_first_decoder_of_its_own() -> None:
    random = np.random.default_rng(1)
    constants = {"max_length": 14, "num_beams": 4, "num_return_sequences": 3, "length_penalty": 0.7}
    constants |= {"min_length": 7, "repetition_penalty": 1.3}
    decoders = {"decoder": gpt_decoder(2, 4), "init_decoder": gpt_decoder(2, 5, "init_decoder")}
    proto = beam_search(constants, early_stopping=1, **decoders)
    agrees(proto, *(feed(random, rows, tokens) for rows, tokens in ((1, 1), (3, 4), (2, 7), (4, 2), (1, 13))))


def encoder_decoder(layers: int, seed: int, is_new: bool, takes_hidden: bool = False) -> dict[str, Any]:
    """Return the attributes of a model of T5's form, in which the encoder's graph makes the first step or not."""
    encoder, decoder = t5_encoder(layers, seed, not is_new), t5_decoder(layers, seed + 50, takes_hidden)
    return {"model_type": 1, "encoder": encoder, "decoder": decoder, "decoder_start_token_id": 1}


def test_an_encoder_that_makes_the_first_step() -> None:
    random = np.random.default_rng(2)
    model = encoder_decoder(1, 6, is_new=False, takes_hidden=True)
    proto = beam_search({}, NUMBERS, no_repeat_ngram_size=3, **model)
    agrees(
        proto, *(feed(random, *size, **numbers(random)) for size in ((1, 1), (3, 4), (2, 7), (4, 2), (3, 8), (2, 3)))
    )


def test_an_encoder_alone() -> None:
    random = np.random.default_rng(3)
    constants = {"max_length": 14, "num_beams": 3, "num_return_sequences": 3, "length_penalty": 1.0}
    constants |= {"min_length": 0, "repetition_penalty": 1.0}
    proto = beam_search(constants, ["attention_mask"], **encoder_decoder(2, 7, is_new=True))
    feeds = [feed(random, *size, attention_mask=None) for size in ((1, 1), (3, 4), (2, 7), (4, 2), (2, 20))]
    agrees(proto, *feeds)


@pytest.mark.parametrize(
    ("changed", "attributes", "message"),
    [
        ({"num_return_sequences": 3}, {}, "num_return_sequences is 3; it is at least 1 and at most num_beams, 2"),
        ({}, {"vocab_size": VOCABULARY + 1}, "vocab_size is 14, and the decoder scores 13 tokens"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], attributes: dict[str, Any], message: str) -> None:
    constants = {"max_length": 9, "num_beams": 2, "num_return_sequences": 1, **changed}
    with pytest.raises(ModelError, match=message):
        from_onnx(beam_search(constants, **attributes))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(12))
def test_random_models(seed: int) -> None:
    random = np.random.default_rng(seed)
    masks = [n for n in ("vocab_mask", "prefix_vocab_mask", "attention_mask") if random.random() < 0.5]
    layers, is_fused = int(random.integers(1, 3)), bool(random.integers(2))
    attributes: dict[str, Any] = {"no_repeat_ngram_size": int(random.integers(0, 4))}
    attributes["early_stopping"] = int(random.integers(2))
    attributes["decoder"] = gpt_decoder(layers, seed, is_fused=is_fused)
    if seed % 3 == 0:
        attributes |= encoder_decoder(layers, seed, is_fused)
        masks = [m for m in masks if m != "attention_mask"]
    elif random.random() < 0.3:
        attributes["init_decoder"] = gpt_decoder(layers, seed + 100, "init_decoder")
    constants, free = (numbers(random), []) if seed % 2 else ({}, NUMBERS)
    proto = beam_search(constants, [*free, *masks], **attributes)
    feeds = []
    for _ in range(20):
        more: dict[str, Any] = numbers(random) if free else {}
        feeds.append(feed(random, *random.integers(1, [5, 8]), **more, **dict.fromkeys(masks)))
    agrees(proto, *feeds)
