"""Texts of different lengths without padding, compared with numpy: onnxruntime has these operators on GPUs alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, assert_agrees
from vmkit.errors import VMError

LENGTHS = [(4, [1, 2, 4]), (3, [3]), (5, [2, 5])]
INT = 6  # int32 of ONNX


def packed(lengths: Sequence[int], longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets and the ends of texts."""
    used = np.arange(longest) < np.array(lengths)[:, None]
    places = np.arange(used.size)
    offsets = np.concatenate([places[used.ravel()], places[~used.ravel()]]).astype("int32")
    return offsets.reshape(used.shape), np.concatenate([[0], np.cumsum(lengths)]).astype("int32")


def test_padding_goes_and_comes_back() -> None:
    nodes = [ms("RemovePadding", "x n", "rows offsets ends longest"), ms("RestorePadding", "rows offsets", "y")]
    integers = dict.fromkeys(("offsets", "ends", "longest"), INT)
    inputs = {"x": (["b", "s", 3], "float32"), "n": (["b"], "int32")}
    compiled = Compiled(microsoft(nodes, inputs, "rows offsets ends longest y", integers=integers))
    for longest, lengths in LENGTHS:
        x, used = array(len(lengths), longest, 3), np.arange(longest) < np.array(lengths)[:, None]
        offsets, ends = packed(lengths, longest)
        expected = [x[used], offsets, ends, np.array([max(lengths)], "int32"), np.where(used[..., None], x, 0)]
        actual = compiled(x=x, n=np.array(lengths, "int32"))
        assert_agrees(actual, [e.astype(a.dtype) for e, a in zip(expected, actual, strict=True)], ["y"] * 5)


def attended(q: Any, k: Any, v: Any, ends: np.ndarray, heads: int, scale: float, added: Any = 0) -> np.ndarray:
    """Return the attention of each text by itself; what is added is for (heads, rows, columns)."""
    made = []
    for start, end in pairwise(ends):
        parts = [part[start:end].reshape(end - start, heads, -1).transpose(1, 0, 2) for part in (q, k, v)]
        scores = parts[0] @ parts[1].transpose(0, 2, 1) * scale
        scores += added if np.isscalar(added) else added[:, : end - start, : end - start]
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        rows = (powers / powers.sum(-1, keepdims=True)) @ parts[2]
        made.append(rows.transpose(1, 0, 2).reshape(end - start, -1))
    return np.concatenate(made)


def test_attention_of_packed_rows() -> None:
    nodes = [
        ms("PackedAttention", "x w c o e", "a", num_heads=2),
        ms("PackedAttention", "x w c o e m", "b", num_heads=2, scale=0.3, qkv_hidden_sizes=[4, 4, 4]),
        ms("PackedMultiHeadAttention", "x x x c o e", "d", num_heads=2),
        ms("PackedMultiHeadAttention", "p _ _ _ o e m", "f", num_heads=2, scale=0.5),
    ]
    inputs = {
        "x": (["t", 4], "float32"), "p": (["t", 2, 3, 2], "float32"), "o": (["b", "s"], "int32"),
        "e": (["ends"], "int32"), "m": ([1, 2, "s", "s"], "float32"),
    }  # fmt: skip
    constants = {"w": array(4, 12), "c": array(12, seed=1)}
    compiled = Compiled(microsoft(nodes, inputs, "a b d f", constants))
    for longest, lengths in LENGTHS:
        offsets, ends = packed(lengths, longest)
        x, p, m = array(ends[-1], 4, seed=2), array(ends[-1], 2, 3, 2, seed=3), array(1, 2, longest, longest, seed=4)
        parts = np.split(x @ constants["w"] + constants["c"], 3, 1)
        biased = [x + c for c in np.split(constants["c"], 3)]
        apart = [p[:, :, k].reshape(-1, 4) for k in range(3)]
        expected = [
            attended(*parts, ends, 2, 0.5**0.5), attended(*parts, ends, 2, 0.3, m[0]),
            attended(*biased, ends, 2, 0.5**0.5), attended(*apart, ends, 2, 0.5, m[0]),
        ]  # fmt: skip
        assert_agrees(compiled(x=x, p=p, o=offsets, e=ends, m=m), expected, list("abdf"))
    with pytest.raises(VMError, match="one number more than there are texts"):
        compiled(x=x, p=p, o=offsets, e=ends[:-1], m=m)
