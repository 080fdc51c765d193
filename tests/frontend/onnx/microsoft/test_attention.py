"""Attention as com.microsoft has it, at several sizes of one compilation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.microsoft.models import ROWS, WIDTH, X, microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, assert_agrees, check, node
from vmkit.errors import ModelError
from vmkit.relay.frontend import from_onnx


def test_attention_with_every_kind_of_mask() -> None:
    nodes = [
        ms("Attention", "x w c", "a", num_heads=2), ms("Attention", "x w c m", "d", num_heads=2),
        ms("Attention", "x w c m", "e", num_heads=2, unidirectional=1), ms("Attention", "x w c n", "f", num_heads=2),
        ms("Attention", "x w c o", "g", num_heads=2, scale=0.3), ms("Attention", "x w c q", "h", num_heads=2),
        ms("Attention", "x v u", "i", num_heads=2, qkv_hidden_sizes=[4, 4, 6]),
    ]  # fmt: skip
    inputs = X | {
        "m": (["b", "s"], "int32"), "n": (["b"], "int32"), "o": (["twice"], "int32"), "q": (["b", "s", "s"], "int32"),
    }  # fmt: skip
    constants = {"w": array(8, 24), "c": array(24, seed=1), "v": array(8, 14, seed=2), "u": array(14, seed=3)}
    feeds = []
    for feed in ROWS:
        b, s, _ = feed["x"].shape
        ends = (s - np.arange(b)).astype("int32")
        mask = (np.arange(s) < ends[:, None]).astype("int32")
        starts = np.concatenate([ends, np.arange(b, dtype="int32")])
        feeds.append(feed | {"m": mask, "n": ends, "o": starts, "q": np.repeat(mask[:, None], s, 1)})
    check(microsoft(nodes, inputs, "a d e f g h i", constants), *feeds)


def test_attention_of_rows_that_nobody_counted() -> None:
    nodes = [
        node("Concat", "size width", "whole", axis=0), node("Reshape", "all whole", "x"),
        ms("Attention", "x w c", "a", num_heads=2), ms("Attention", "x w c n", "d", num_heads=2),
        ms("Attention", "x w c m", "e", num_heads=2, unidirectional=1),
        ms("MultiHeadAttention", "x x x", "f", num_heads=4),
    ]  # fmt: skip
    inputs: dict[str, Any] = {
        "all": (["count"], "float32"), "size": ([2], "int64"), "m": (["mb", "ms"], "int32"), "n": (["ends"], "int32"),
    }  # fmt: skip
    feeds = []
    for feed, with_starts in zip(ROWS, (False, True), strict=True):
        b, s, _ = feed["x"].shape
        ends = (s - np.arange(b)).astype("int32")
        limits = np.concatenate([ends, np.arange(b, dtype="int32")]) if with_starts else ends
        mask = (np.arange(s) < ends[:, None]).astype("int32")
        feeds.append({"all": feed["x"].ravel(), "size": np.array([b, s]), "m": mask, "n": limits})
    constants = {"w": array(8, 24), "c": array(24, seed=1), "width": np.array([WIDTH])}
    check(microsoft(nodes, inputs, "a d e f", constants), *feeds)


def test_attention_with_a_past() -> None:
    nodes = [ms("Attention", "x w c m p", "a r", num_heads=2, unidirectional=1)]
    inputs = X | {"p": ([2, "b", 2, "past", 4], "float32"), "m": (["b", "total"], "int32")}
    feeds = [
        {"x": array(b, s, WIDTH), "p": array(2, b, 2, p, 4, seed=3), "m": np.ones((b, s + p), "int32")}
        for b, s, p in ((1, 3, 2), (2, 1, 4))
    ]
    check(microsoft(nodes, inputs, "a r", {"w": array(8, 24), "c": array(24, seed=1)}), *feeds)


def test_attention_of_projected_inputs() -> None:
    nodes = [
        ms("MultiHeadAttention", "q k v c", "d", num_heads=2), ms("MultiHeadAttention", "q k v c m", "e", num_heads=2),
        ms("MultiHeadAttention", "q k v _ m a", "f", num_heads=2, mask_filter_value=-50.0),
        ms("MultiHeadAttention", "q pk pv", "g", num_heads=2),
        ms("MultiHeadAttention", "q q q _ _ _ pk pv", "h i j", num_heads=2, unidirectional=1),
    ]  # fmt: skip
    inputs = {
        "q": (["b", "s", 8], "float32"), "k": (["b", "t", 8], "float32"), "v": (["b", "t", 8], "float32"),
        "m": (["b", "t"], "int32"), "a": (["b", 1, "s", "t"], "float32"), "pk": (["b", 2, "p", 4], "float32"),
        "pv": (["b", 2, "p", 4], "float32"),
    }  # fmt: skip
    feeds = [
        {
            "q": array(b, s, 8), "k": array(b, t, 8, seed=1), "v": array(b, t, 8, seed=2),
            "m": (np.arange(t) < (t - np.arange(b))[:, None]).astype("int32"), "a": array(b, 1, s, t, seed=9),
            "pk": array(b, 2, p, 4, seed=3), "pv": array(b, 2, p, 4, seed=4),
        }
        for b, s, t, p in ((1, 3, 4, 2), (2, 5, 5, 1))
    ]  # fmt: skip
    check(microsoft(nodes, inputs, "d e f g h i j", {"c": array(24, seed=7)}), *feeds)


def test_attention_of_packed_inputs() -> None:
    nodes = [ms("MultiHeadAttention", "p", "y", num_heads=2), ms("MultiHeadAttention", "q k", "z", num_heads=2)]
    inputs = {
        "p": (["b", "s", 2, 3, 4], "float32"), "q": (["b", "s", 8], "float32"), "k": (["b", "t", 2, 2, 4], "float32"),
    }  # fmt: skip
    packed, keys = array(2, 3, 2, 3, 4), array(2, 5, 2, 2, 4, seed=1)
    query = array(2, 3, 8, seed=2)

    def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        scores = np.einsum("bshd,bthd->bhst", q, k) / 2
        powers = np.exp(scores)
        return np.einsum("bhst,bthd->bshd", powers / powers.sum(-1, keepdims=True), v).reshape(2, 3, 8)

    results = Compiled(microsoft(nodes, inputs, "y z"))(p=packed, q=query, k=keys)
    first = expected(*(packed[:, :, :, i] for i in range(3)))
    second = expected(query.reshape(2, 3, 2, 4), keys[:, :, :, 0], keys[:, :, :, 1])
    assert_agrees(results, [first, second], ["y", "z"])


def test_what_is_not_supported_says_so() -> None:
    def refused(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Any]) -> str:
        with pytest.raises(ModelError) as caught:
            from_onnx(microsoft(nodes, inputs, "y", {"w": array(8, 24), "c": array(24)}))
        return str(caught.value)

    assert "do_rotary" in refused([ms("Attention", "x w", "y", num_heads=2, do_rotary=1)], X)
    assert "key and value are missing" in refused([ms("MultiHeadAttention", "q", "y", num_heads=2)], {
        "q": (["b", 2, "s", 4], "float32")
    })  # fmt: skip
    gemm = [ms("FusedGemm", "x w", "y", activation="Cosine")]
    assert "the activation 'Cosine' is not supported" in refused(gemm, {"x": (["n", 8], "float32")})
