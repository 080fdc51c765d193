"""Normalisations of com.microsoft, at several sizes of one compilation."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.frontend.onnx.microsoft.models import ROWS, WIDTH, X, microsoft, ms
from tests.frontend.onnx.programs import array, check, node


def test_normalisations_of_sums() -> None:
    nodes = [
        ms("SkipLayerNormalization", "x x g b c", "a _ _ s", epsilon=1e-5), ms("SkipLayerNormalization", "x k g", "d"),
        ms("SkipSimplifiedLayerNormalization", "x x g c", "e _ _ f"), node("SimplifiedLayerNormalization", "x g", "h"),
    ]  # fmt: skip
    constants = {n: array(WIDTH, seed=i) for i, n in enumerate("gbc")}
    inputs = X | {"k": ([1, "s", WIDTH], "float32")}
    feeds = [f | {"k": array(1, f["x"].shape[1], WIDTH, seed=4)} for f in ROWS]
    check(microsoft(nodes, inputs, "a s d e f h", constants), *feeds)


def test_layer_normalization_before_it_was_of_onnx() -> None:
    nodes = [node("LayerNormalization", "x g b", "a m i")]
    check(microsoft(nodes, X, "a m i", {"g": array(WIDTH, seed=1), "b": array(WIDTH, seed=2)}, opset=13), *ROWS)


def test_embeddings() -> None:
    nodes = [
        ms("EmbedLayerNormalization", "i t w p q g b m", "y k e", epsilon=1e-5),
        ms("EmbedLayerNormalization", "i _ w p _ g b", "z l"),
    ]
    tables = {
        "w": array(20, WIDTH), "p": array(9, WIDTH, seed=1), "q": array(2, WIDTH, seed=2), "g": array(WIDTH, seed=3),
        "b": array(WIDTH, seed=4),
    }  # fmt: skip
    inputs = {n: (["b", "s"], "int32") for n in "itm"}
    feeds = []
    for b, s in ((1, 3), (2, 5)):
        words = (np.arange(b * s).reshape(b, s) * 7 % 20).astype("int32")
        for mask in (np.arange(s) < (s - np.arange(b))[:, None], np.arange(s) != np.arange(b)[:, None]):
            feeds.append({"i": words, "t": words % 2, "m": mask.astype("int32")})
        # Only a 1 is a word.
        feeds.append({"i": words, "t": words % 2, "m": (words % 3 - 1).astype("int32")})
    integers = {"k": TensorProto.INT32, "l": TensorProto.INT32}
    check(microsoft(nodes, inputs, "y k e z l", tables, integers), *feeds)
