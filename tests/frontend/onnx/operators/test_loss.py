"""Losses, as ONNX's reference computes them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx.programs import (
    agrees_with_reference,
    array,
    model,
    node,
)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_losses(reduction: str) -> None:
    nodes = [
        node("SoftmaxCrossEntropyLoss", "x t w", "a c", reduction=reduction, ignore_index=1),
        node("SoftmaxCrossEntropyLoss", "x t", "d", reduction=reduction),
        node("NegativeLogLikelihoodLoss", "x t w", "e", reduction=reduction),
    ]
    inputs = {"x": (["n", 4, "d"], "float32"), "t": (["n", "d"], "int64")}
    feeds = [{"x": array(n, 4, d), "t": np.arange(n * d).reshape(n, d) % 4} for n, d in ((1, 2), (3, 5))]
    agrees_with_reference(model(nodes, inputs, "a c d e", {"w": array(4, seed=1) + 3}, opset=22), *feeds)


@pytest.mark.parametrize("kind", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
def test_classes_whose_number_only_the_run_knows(kind: str) -> None:
    nodes = [node("Reshape", "all shape", "x"), node(kind, "x t", "y", reduction="none")]
    inputs = {"all": (["size"], "float32"), "shape": ([2], "int64"), "t": (["n"], "int64")}
    feeds = [
        {"all": array(n * c), "shape": np.array([n, c], "int64"), "t": np.arange(n) % c} for n, c in ((1, 3), (4, 2))
    ]
    agrees_with_reference(model(nodes, inputs, "y", opset=22), *feeds)
