"""Products of com.microsoft, at several sizes of one compilation."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, assert_agrees, check


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


def test_products_with_an_activation() -> None:
    nodes = [
        ms("FusedMatMulActivation", "a b", "d", activation="Softmax", transB=1, alpha=0.5),
        ms("FusedMatMulActivation", "a b", "e", activation="Softmax", activation_axis=1, transB=1),
        ms("FusedMatMulActivation", "a w", "f", activation="HardSigmoid", activation_alpha=0.1, activation_beta=0.4),
        ms("FusedMatMulActivation", "a w", "g", activation="Relu"),
    ]
    inputs = {n: (["n", "s", 4], "float32") for n in "ab"}
    a, b, w = array(2, 3, 4), array(2, 3, 4, seed=1), array(4, 5)
    product = a @ b.transpose(0, 2, 1)
    halves, whole = np.exp(product / 2), np.exp(product)
    expected = [
        halves / halves.sum(-1, keepdims=True), whole / whole.sum(1, keepdims=True), np.clip(0.1 * (a @ w) + 0.4, 0, 1),
        np.maximum(a @ w, 0),
    ]  # fmt: skip
    results = Compiled(microsoft(nodes, inputs, "d e f g", {"w": w}))(a=a, b=b)
    assert_agrees(results, [e.astype("float32") for e in expected], list("defg"))


def test_product_of_16_bits() -> None:
    inputs = {"x": (["b", 3, 4], "int16"), "y": ([4, 5], "int16")}
    proto = microsoft([ms("MatMulInteger16", "x y", "z")], inputs, "z", integers={"z": TensorProto.INT32})
    check(proto, {"x": array(2, 3, 4, dtype="int16") * 900, "y": array(4, 5, dtype="int16", seed=1) * 900})
