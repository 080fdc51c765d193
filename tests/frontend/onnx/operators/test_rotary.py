"""Rotary embeddings, at sizes that the compilation does not know."""

from __future__ import annotations

import numpy as np

from tests.frontend.onnx.feeds import four
from tests.frontend.onnx.programs import (
    agrees_with_reference,
    array,
    model,
    node,
)


def test_rotary_embeddings() -> None:
    nodes = [
        node("RotaryEmbedding", "x c s p", "a", num_heads=2, interleaved=1),
        node("RotaryEmbedding", "z c s p", "d"),
        node("RotaryEmbedding", "z e f", "g", rotary_embedding_dim=4),
    ]
    inputs = {
        "x": (["b", "n", 16], "float32"), "z": (["b", 2, "n", 8], "float32"), "p": (["b", "n"], "int64"),
        "e": (["b", "n", 2], "float32"), "f": (["b", "n", 2], "float32"),
    }  # fmt: skip
    feeds = [
        {
            "x": array(b, n, 16), "z": four(b, 2, n, 8, 1), "p": np.arange(b * n).reshape(b, n),
            "e": array(b, n, 2, seed=2), "f": array(b, n, 2, seed=3),
        }
        for b, n in ((1, 3), (2, 5))
    ]  # fmt: skip
    agrees_with_reference(
        model(nodes, inputs, "a d g", {"c": array(10, 4), "s": array(10, 4, seed=1)}, opset=23), *feeds
    )
