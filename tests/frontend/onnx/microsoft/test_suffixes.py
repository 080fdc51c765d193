"""Aggressive decoding, over sources in which the last tokens are nowhere, once, or several times."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, check, outputs_of
from vmkit.errors import ModelError, VMError

INPUTS: dict[str, Any] = {
    "s": (["n"], "int64"), "t": (["m"], "int64"), "at": ([1], "int64"), "p": (["k"], "int64")
}  # fmt: skip


def model(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    return microsoft(nodes, INPUTS, outputs_of(nodes), integers={o: 7 for n in nodes for o in n.output})


def feeds() -> list[dict[str, np.ndarray]]:
    random, made = np.random.default_rng(0), []
    for source, tokens, vocabulary in ((1, 1, 2), (6, 3, 3), (9, 4, 2), (12, 7, 3), (5, 2, 9), (7, 1, 4), (20, 5, 2)):
        for differs in (False, True, False, True):
            own, at = random.integers(0, vocabulary, source), random.integers(0, source + 1)
            predicted = np.append(own[at:], 1)
            predicted[random.integers(0, len(predicted))] += differs
            made.append({"s": own, "t": random.integers(0, vocabulary, tokens), "at": np.array([at]), "p": predicted})
    return made


def test_tokens_and_where_they_go_on() -> None:
    nodes = [
        ms("BifurcationDetector", "s t at", "a b"), ms("BifurcationDetector", "s t at p", "c d"),
        ms("BifurcationDetector", "s t at p", "e f", min_ngram_size=2, max_ngram_size=4),
    ]  # fmt: skip
    check(model(*nodes), *feeds())


def test_what_does_not_fit() -> None:
    compiled = Compiled(model(ms("BifurcationDetector", "s t at p", "c d")))
    given = {"s": np.arange(4), "t": np.arange(2)}
    for at, count in ((5, 0), (-1, 6), (1, 3)):
        with pytest.raises(VMError, match="pred_tokens are one more than the source has from there"):
            compiled(**given, at=np.array([at]), p=np.zeros(count, "int64"))
    with pytest.raises(ModelError, match="min_ngram_size is 3 and max_ngram_size 2"):
        Compiled(model(ms("BifurcationDetector", "s t at", "c d", min_ngram_size=3, max_ngram_size=2)))
