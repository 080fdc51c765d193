"""GreedySearch: the likeliest token, again and again, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vmkit
from tests.frontend.onnx.microsoft.generation import (
    PAD,
    VOCABULARY,
    assert_same_until_all_end,
    feed,
    gpt_decoder,
    greedy_search,
    search,
)
from tests.frontend.onnx.programs import Compiled, session
from vmkit.errors import ModelError, UnsupportedOperatorError, VMError
from vmkit.relay.frontend import from_onnx

LONGEST = 14


def agrees(proto: Any, *feeds: dict[str, Any]) -> Compiled:
    """Assert that one compilation of a model agrees with onnxruntime on every feed."""
    compiled, peer = Compiled(proto), session(proto)
    for given in feeds:
        assert_same_until_all_end(compiled(**given)[0], peer.run(None, given)[0])
    return compiled


def test_rules_and_a_first_decoder_of_its_own() -> None:
    constants = {"max_length": LONGEST, "min_length": 7, "repetition_penalty": 1.3}
    decoders = {"decoder": gpt_decoder(2, 1), "init_decoder": gpt_decoder(2, 2, "init_decoder")}
    masks = {"vocab_mask": None, "prefix_vocab_mask": None, "attention_mask": None}
    random = np.random.default_rng(0)
    feeds = [feed(random, rows, tokens, **masks) for rows, tokens in ((1, 1), (3, 4), (2, 7), (4, 2), (3, 13))]
    agrees(greedy_search(constants, list(masks), no_repeat_ngram_size=2, **decoders), *feeds)


def test_lengths_and_penalty_of_the_run() -> None:
    random, feeds = np.random.default_rng(1), []
    for rows, tokens, most, least, penalty in ((1, 1, 2, 0, 1), (3, 4, 20, 9, 0.6), (2, 3, 9, 12, 2), (4, 2, 30, 0, 1)):
        feeds.append(feed(random, rows, tokens, max_length=most, min_length=least, repetition_penalty=penalty))
    alone = {"max_length": 30, "min_length": 0, "repetition_penalty": 1}
    feeds += [feed(random, 1, tokens, **alone) for tokens in range(2, 8)]
    decoder = gpt_decoder(1, 3, is_fused=False)
    proto = greedy_search({}, ["max_length", "min_length", "repetition_penalty"], decoder, no_repeat_ngram_size=3)
    compiled = agrees(proto, *feeds)
    assert any((compiled(**given)[0][:, -3:] == PAD).all() for given in feeds), "in none did all rows end"
    for name, value in (("max_length", 4), ("repetition_penalty", 0)):
        with pytest.raises(VMError, match=f"GreedySearch: {name} must be greater than"):
            compiled(**feed(random, 2, 4, **alone | {name: value}))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"model_type": 1}, "take BeamSearch with num_beams 1"),
        ({"vocab_size": VOCABULARY + 1}, "vocab_size is 14, and the decoder scores 13 tokens"),
    ],
)
def test_what_is_refused(attributes: dict[str, Any], message: str) -> None:
    proto = greedy_search({"max_length": LONGEST}, **attributes)
    with pytest.raises(ModelError, match=message):
        from_onnx(proto)
    assert message in str(vmkit.check(proto).problem)


def test_a_decoder_of_one_buffer_for_past_and_present_is_refused() -> None:
    decoder = gpt_decoder()
    decoder.input.append(decoder.input[3])
    decoder.input[-1].name = "past_sequence_length"
    with pytest.raises(ModelError, match="without past_present_share_buffer"):
        from_onnx(greedy_search({"max_length": LONGEST}, decoder=decoder))


def test_a_prompt_as_long_as_the_longest_text_is_refused() -> None:
    with pytest.raises(ModelError, match="max_length is 4; it must be greater than the length of the prompt, 4"):
        from_onnx(greedy_search({"max_length": 4}), shape={"input_ids": (1, 4)})


def test_tokens_that_are_drawn_are_refused() -> None:
    proto = search("Sampling", ["input_ids", "max_length"], {"max_length": 9}, [], "sequences", decoder=gpt_decoder())
    with pytest.raises(UnsupportedOperatorError, match="draws tokens at random; export the model with GreedySearch"):
        from_onnx(proto)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(12))
def test_random_models(seed: int) -> None:
    random = np.random.default_rng(seed)
    constants: dict[str, Any] = {"max_length": int(random.integers(8, 30))}
    if random.random() < 0.5:
        constants["min_length"] = int(random.integers(0, 20))
    if random.random() < 0.5:
        constants["repetition_penalty"] = random.choice([0.5, 1.0, 1.7])
    free = [n for n in ("vocab_mask", "prefix_vocab_mask", "attention_mask") if random.random() < 0.5]
    layers, is_fused = int(random.integers(1, 3)), bool(random.integers(2))
    attributes: dict[str, Any] = {"no_repeat_ngram_size": int(random.integers(0, 4))}
    if random.random() < 0.3:
        attributes["init_decoder"] = gpt_decoder(layers, seed + 100, "init_decoder")
    if random.random() < 0.3:
        attributes["vocab_size"] = VOCABULARY
    feeds = [feed(random, *random.integers(1, [5, 8]), **dict.fromkeys(free)) for _ in range(20)]
    agrees(greedy_search(constants, free, gpt_decoder(layers, seed, is_fused=is_fused), **attributes), *feeds)
