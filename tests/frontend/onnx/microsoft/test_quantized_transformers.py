"""Attention and embeddings on quantised tensors, at several sizes of one compilation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import array, check
from tests.frontend.onnx.quantized import f32, i8, integers, u8, weights


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [("", {}), ("m z v", {"unidirectional": 1}), ("m _ _", {"scale": 0.3, "mask_filter_value": -50.0})],
)
@pytest.mark.parametrize("by_column", [False, True])
def test_attention(inputs: str, attributes: dict[str, Any], by_column: bool) -> None:
    scale = np.linspace(0.01, 0.03, 24, dtype="float32") if by_column else f32(0.02)
    constants = {
        "w": weights(8, 24), "b": array(24), "sx": f32(0.02), "sw": scale, "z": u8(120),
        "v": i8(*range(24)) if by_column else i8(3),
    }  # fmt: skip
    names = f"x w b sx sw {inputs}"
    used = {n: v for n, v in constants.items() if n in names.split()}
    given = {"x": (["b", "s", 8], "uint8")} | ({"m": (["b", "s"], "int32")} if inputs else {})
    feeds = [{"x": integers(b, s, 8)} for b, s in ((1, 3), (2, 5))]
    if inputs:
        feeds = [
            f | {"m": (np.arange(f["x"].shape[1]) < 3).astype("int32")[None].repeat(len(f["x"]), 0)} for f in feeds
        ]
    check(microsoft([ms("QAttention", names, "y", num_heads=2, **attributes)], given, "y", used), *feeds)


def test_attention_with_a_past() -> None:
    constants = {"w": weights(8, 24), "b": array(24), "s": f32(0.02), "z": u8(120), "v": i8(3)}
    nodes = [ms("QAttention", "x w b s s _ z v p", "y r", num_heads=2, unidirectional=1)]
    given = {"x": (["b", "s", 8], "uint8"), "p": ([2, "b", 2, "past", 4], "float32")}
    feeds = [{"x": integers(b, s, 8), "p": array(2, b, 2, p, 4)} for b, s, p in ((1, 3, 2), (2, 1, 4))]
    check(microsoft(nodes, given, "y r", constants), *feeds)


@pytest.mark.parametrize("has_segments", [True, False])
def test_embeddings(has_segments: bool) -> None:
    tables = {"w": integers(20, 8), "p": integers(9, 8), "q": integers(2, 8), "g": integers(8), "b": integers(8)}
    scales = {f"s{n}": f32(0.01 + i / 100) for i, n in enumerate(tables)}
    zeros = {f"z{n}": u8(100 + 9 * i) for i, n in enumerate(tables)}
    names = ["i", "t", "w", "p", "q", "g", "b", "m", "sw", "sp", "sq", "sg", "sb", "zw", "zp", "zq", "zg", "zb"]
    if not has_segments:
        names = ["_" if n in ("t", "q", "sq", "zq") else n for n in names]
    constants = {n: v for n, v in (tables | scales | zeros).items() if n in names}
    given = {n: (["b", "s"], "int32") for n in "itm" if n in names}
    feeds = []
    for b, s in ((1, 3), (2, 5)):
        words = (np.arange(b * s).reshape(b, s) * 7 % 20).astype("int32")
        feed = {"i": words, "t": words % 2, "m": (words % 3 > 0).astype("int32")}
        feeds.append({n: feed[n] for n in given})
    node = ms("QEmbedLayerNormalization", " ".join(names), "y k", epsilon=1e-5)
    check(microsoft([node], given, "y k", constants, {"k": TensorProto.INT32}), *feeds)
