"""Products of com.microsoft, at several sizes of one compilation."""

from __future__ import annotations

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import array, check


def test_products() -> None:
    nodes = [
        ms("FusedMatMul", "a b", "d", transB=1, alpha=0.5), ms("FusedMatMul", "a b", "e", transA=1),
        ms("FusedMatMul", "a w", "f", alpha=2.0), ms("TransposeMatMul", "a u", "g", transB=1),
        ms("FusedMatMul", "a c", "h", transBatchA=1),
        ms("FusedGemm", "m w v", "i", activation="LeakyRelu", activation_alpha=0.3, alpha=0.5, beta=2.0),
        ms("FusedGemm", "m w v", "j", activation="HardSigmoid", activation_alpha=0.1, activation_beta=0.4),
    ]  # fmt: skip
    stacks = {n: (["n", 2, "s", 4], "float32") for n in "ab"}
    inputs = stacks | {"c": ([2, "s", 4, 5], "float32"), "m": (["n", 4], "float32")}
    feeds = [
        {"a": array(n, 2, s, 4), "b": array(n, 2, s, 4, seed=1), "c": array(2, s, 4, 5, seed=2), "m": array(n, 4)}
        for n, s in ((1, 3), (3, 2))
    ]
    check(microsoft(nodes, inputs, "d e f g h i j", {"w": array(4, 3), "u": array(3, 4), "v": array(3)}), *feeds)
