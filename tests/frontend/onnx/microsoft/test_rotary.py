"""Rotary embeddings of com.microsoft."""

from __future__ import annotations

import numpy as np

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import array, check


def test_rotary_embeddings() -> None:
    nodes = [
        ms("RotaryEmbedding", "x p co si", "a"), ms("RotaryEmbedding", "x p co si", "c", interleaved=1),
        ms("RotaryEmbedding", "x o co si", "d"), ms("RotaryEmbedding", "z p co si", "e"),
        ms("RotaryEmbedding", "x p cp sj", "f", num_heads=2, rotary_embedding_dim=4),
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
    check(microsoft(nodes, inputs, "a c d e f", tables), *feeds)
