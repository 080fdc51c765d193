"""Counts of n-grams."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx.ml.models import F, agrees, onnx_node, texts


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(("least", "most", "skip"), [(1, 1, 0), (1, 2, 0), (2, 2, 99), (1, 3, 1), (2, 3, 2), (3, 3, 0)])
def test_ngrams_are_counted_as_in_onnxruntime(mode: str, least: int, most: int, skip: int) -> None:
    words = ["a", "bb", "c", "", "é"]
    random = np.random.default_rng(least * 10 + most)
    grams = [g for n in (1, 2, 3) for g in sorted({tuple(random.integers(0, 5, n).tolist()) for _ in range(6)})]
    counts = [0, sum(len(g) for g in grams if len(g) == 1), sum(len(g) for g in grams if len(g) < 3)]
    pool = [element for gram in grams for element in gram]
    indexes = random.permutation(len(grams)).tolist()
    shared = {
        "mode": mode, "min_gram_length": least, "max_gram_length": most, "max_skip_count": skip,
        "ngram_counts": counts, "ngram_indexes": indexes, "weights": [0.5 + k for k in range(len(grams))],
    }  # fmt: skip
    rows = random.integers(0, 6, (3, 7))
    for dtype in ("int32", "int64"):
        model = onnx_node("TfIdfVectorizer", {"x": (["n", "m"], dtype)}, [F], pool_int64s=pool, **shared)
        agrees(model, {"x": rows.astype(dtype)}, {"x": rows[:1, :2].astype(dtype)})
    strings = texts(*[[*words, "zz"][k] for k in rows[0]])
    model = onnx_node("TfIdfVectorizer", {"x": (["n"], object)}, [F], pool_strings=[words[k] for k in pool], **shared)
    agrees(model, {"x": strings}, {"x": strings[:2]})
