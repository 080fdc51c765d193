"""Gates and the normalisations beside them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, assert_agrees, check
from vmkit.errors import ModelError

X = {"x": (["b", "s", 12], "float32"), "g": (["b", "s", 12], "float32"), "h": (["b", "s", 1], "float32")}
FEEDS = [{"x": array(b, s, 12), "g": array(b, s, 12, seed=1), "h": array(b, s, 1, seed=2)} for b, s in ((1, 3), (2, 1))]


def test_gates_and_norms() -> None:
    nodes = [
        ms("GatedRMSNorm", "x w4 g", "a"), ms("GatedRMSNorm", "x w12 g", "c", activation="sigmoid", epsilon=1e-3),
        ms("BranchwiseRMSNorm", "x w12", "d", num_branches=3), ms("BranchwiseRMSNorm", "x w4", "e", num_branches=3),
        ms("BranchwiseRMSNorm", "x", "f", num_branches=2, epsilon=1e-3), ms("BranchwiseRMSNorm", "z w24", "i"),
        ms("GatedAdd", "x g h", "j"), ms("ScaledSiLU", "x", "k", alpha=1.7), ms("ScaledSiLU", "x two", "l"),
        ms("LinearAttentionGate", "x w12 v12 g", "m n"), ms("LinearAttentionGate", "x w12 v12", "o"),
    ]  # fmt: skip
    constants = {"w4": array(4), "w12": array(12), "v12": array(12, seed=3), "w24": array(2, 4), "two": np.float32(2)}
    feeds = [feed | {"z": array(3, 2, 4, seed=4)} for feed in FEEDS]
    check(microsoft(nodes, X | {"z": (["n", 2, 4], "float32")}, "a c d e f i j k l m n o", constants), *feeds)


def test_halves_that_gate_each_other() -> None:
    nodes = [
        ms("SwiGLU", "x", "a"), ms("SwiGLU", "x g", "c", activation_alpha=1.7, activation_beta=1.0, limit=0.8),
    ]  # fmt: skip
    compiled = Compiled(microsoft(nodes, X, "a c"))
    for feed in FEEDS:
        left, right = np.split(feed["x"], 2, -1)
        gate, linear = np.minimum(feed["x"], 0.8), np.clip(feed["g"], -0.8, 0.8)
        expected = [left / (1 + np.exp(-left)) * right, gate / (1 + np.exp(-1.7 * gate)) * (linear + 1)]
        assert_agrees(compiled(**feed), [e.astype("float32") for e in expected], ["a", "c"])


def test_gates_that_cannot_be_are_refused() -> None:
    with pytest.raises(ModelError, match="activation is 'relu'; it is silu, swish or sigmoid"):
        Compiled(microsoft([ms("GatedRMSNorm", "x w g", "a", activation="relu")], X, "a", {"w": array(4)}))
