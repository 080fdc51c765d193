"""Rotary embeddings of com.microsoft."""

from __future__ import annotations

import numpy as np

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, assert_agrees, check


def test_rotary_embeddings() -> None:
    nodes = [
        ms("RotaryEmbedding", "x p co si", "a"), ms("RotaryEmbedding", "x p co si", "c", interleaved=1),
        ms("RotaryEmbedding", "x o co si", "d"), ms("RotaryEmbedding", "z p co si", "e"),
        ms("RotaryEmbedding", "x p cp sj", "f", num_heads=2, rotary_embedding_dim=4),
        ms("RotaryEmbedding", "x p co si", "g", scale=2.0),
        ms("RotaryEmbedding", "x p co si", "h", is_packed_batching=1),
    ]  # fmt: skip
    inputs = {
        "x": (["b", "s", 16], "float32"), "z": (["b", 2, "s", 8], "float32"), "p": (["b", "s"], "int64"),
        "o": ([1], "int64"),
    }  # fmt: skip
    tables = {"co": array(10, 4), "si": array(10, 4, seed=1), "cp": array(10, 2), "sj": array(10, 2, seed=1)}
    feeds = [
        {"x": array(b, s, 16), "z": array(b, 2, s, 8), "p": np.arange(b * s).reshape(b, s), "o": np.array([2])}
        for b, s in ((1, 3), (2, 4))
    ]
    check(microsoft(nodes, inputs, "a c d e f g h", tables), *feeds)


def test_positions_in_time_and_space() -> None:
    nodes = [
        ms("MRotaryEmbedding", "x p co si", "a", num_heads=2, mrope_section=[2, 1, 1]),
        ms("MRotaryEmbedding", "x p co si", "c", num_heads=2, mrope_section=[2, 1, 1], mrope_layout=1, interleaved=1),
        ms("MRotaryEmbedding", "z p co si", "d", mrope_section=[0, 1, 3]),
        ms("MRotaryEmbedding", "x p cp sj", "e", mrope_section=[1, 1, 0], num_heads=2, rotary_embedding_dim=4),
    ]
    inputs = {"x": (["b", "s", 16], "float32"), "z": (["b", 2, "s", 8], "float32"), "p": ([3, "b", "s"], "int64")}
    tables = {"co": array(10, 4), "si": array(10, 4, seed=1), "cp": array(10, 2), "sj": array(10, 2, seed=1)}
    random = np.random.default_rng(0)
    feeds = [
        {"x": array(b, s, 16), "z": array(b, 2, s, 8), "p": random.integers(0, 10, (3, b, s))}
        for b, s in ((1, 3), (2, 4))
    ]
    check(microsoft(nodes, inputs, "a c d e", tables), *feeds)


def test_heads_whose_halves_come_turned() -> None:
    inputs = {"e": (["b", "s", 4], "float32")} | {n: (["b", 2, "s", 4], "float32") for n in ("q", "qt", "k", "kt")}
    compiled = Compiled(microsoft([ms("GemmaRotaryEmbedding", "e q qt k kt", "a c")], inputs, "a c"))
    feed = {"e": array(2, 3, 4)} | {n: array(2, 2, 3, 4, seed=i) for i, n in enumerate(("q", "qt", "k", "kt"))}
    cosine, sine = (of(feed["e"])[:, None] for of in (np.cos, np.sin))
    expected = [feed["q"] * cosine + feed["qt"] * sine, feed["k"] * cosine + feed["kt"] * sine]
    assert_agrees(compiled(**feed), expected, ["a", "c"])
