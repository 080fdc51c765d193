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
