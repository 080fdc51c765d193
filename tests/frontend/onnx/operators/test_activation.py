"""Activations, against onnxruntime and exact values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx.feeds import MATRIX, SIZES
from tests.frontend.onnx.programs import (
    Compiled,
    array,
    assert_agrees,
    check,
    model,
    node,
    outputs_of,
    results_of,
)


def test_what_is_dropped_in_training_is_known_by_the_seed() -> None:
    inputs = {"x": (["n", 8], "float32"), "ratio": ([], "float32"), "trains": ([], "bool")}
    compiled = Compiled(model([node("Dropout", "x ratio trains", "y mask", seed=3)], inputs, "y mask"))
    for rows, ratio, trains in ((2, 0.5, False), (2, 0.0, True), (2, 0.25, True), (50, 1.0, True)):
        x = array(rows, 8)
        kept = np.random.RandomState(3).uniform(0, 1, x.shape) >= (ratio if trains else 0)
        expected = np.where(kept, x / (1 - ratio if trains and ratio < 1 else 1), 0).astype("float32")
        made = compiled(x=x, ratio=np.array(ratio, "float32"), trains=np.array(trains))
        assert_agrees(made, [expected, kept], ["y", "mask"])


def test_softplus_and_mish_keep_the_digits_of_small_results() -> None:
    for dtype, tolerance in (("float32", 1e-5), ("float64", 1e-13)):
        x = np.array([-80, -20, -10, -9.97, -4, -1, 0, 1, 30, 100], dtype)
        softplus, mish = results_of([node("Softplus", "x", "a"), node("Mish", "x", "b")], x=x)
        expected = np.logaddexp(0, x.astype("float64"))
        np.testing.assert_allclose(softplus, expected, rtol=tolerance)
        np.testing.assert_allclose(mish, x * np.tanh(expected), rtol=tolerance)


ACTIVATIONS = [
    node("Relu", "x", "relu"),
    node("LeakyRelu", "x", "leaky_relu", alpha=0.2),
    node("Elu", "x", "elu", alpha=1.5),
    node("Selu", "x", "selu"),
    node("Celu", "x", "celu", alpha=0.7),
    node("Softplus", "x", "softplus"),
    node("Softsign", "x", "softsign"),
    node("HardSigmoid", "x", "hard_sigmoid", alpha=0.3),
    node("HardSwish", "x", "hard_swish"),
    node("ThresholdedRelu", "x", "thresholded_relu", alpha=0.5),
    node("Softmax", "x", "softmax", axis=-1),
    node("Softmax", "x", "softmax_of_columns", axis=0),
    node("LogSoftmax", "x", "log_softmax"),
    node("Hardmax", "x", "hardmax"),
    node("Shrink", "x", "shrink", lambd=0.5, bias=0.1),
    node("PRelu", "x slope", "prelu"),
    node("Clip", "x low high", "clip"),
    node("Clip", "x _ high", "clip_from_above"),
]


def test_activations() -> None:
    constants = {"slope": array(4), "low": np.float32(-1), "high": np.float32(0.5)}
    proto = model(ACTIVATIONS, MATRIX, outputs_of(ACTIVATIONS), constants)
    check(proto, *[{"x": array(n, 4)} for n in SIZES])


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate: str) -> None:
    check(model([node("Gelu", "x", "y", approximate=approximate)], MATRIX, "y", opset=20), {"x": array(3, 4)})


def test_softmax_before_opset_13_is_of_the_flattened_matrix() -> None:
    nodes = [node("Softmax", "x", "a"), node("LogSoftmax", "x", "b", axis=0), node("Hardmax", "x", "c", axis=1)]
    proto = model(nodes, {"x": (["n", 2, 3], "float32")}, "a b c", opset=11)
    check(proto, {"x": array(1, 2, 3)}, {"x": array(4, 2, 3)})


def test_dropout_keeps_the_input() -> None:
    nodes = [node("Dropout", "x", "y mask")]
    check(model(nodes, MATRIX, "y mask", opset=13), {"x": array(2, 4)})


def test_softplus_and_mish_keep_their_digits_far_below_zero() -> None:
    x = np.array([-12, -5, -1, 0, 1, 5, 30, 200], "float32")
    a, b = Compiled(
        model([node("Softplus", "x", "a"), node("Mish", "x", "b")], {"x": ([8], "float32")}, "a b", opset=18)
    )(x=x)
    exact = np.log1p(np.exp(-np.abs(x.astype("float64")))) + np.maximum(x, 0)
    np.testing.assert_allclose(a, exact, rtol=1e-5)
    np.testing.assert_allclose(b, x * np.tanh(exact), rtol=1e-5)
