"""Distinct elements, and determinants."""

from __future__ import annotations

import numpy as np

from tests.frontend.onnx.programs import Compiled, array, check, model, node, outputs_of


def test_distinct_elements_and_rows() -> None:
    nodes = [
        node("Unique", "x", "a b c d"),
        node("Unique", "x", "e f g h", axis=0),
        node("Unique", "x", "i j k l", axis=-1),
        node("Unique", "x", "m o p q", sorted=0),
        node("Unique", "v", "r s t u"),
    ]
    inputs = {"x": (["n", 3], "int64"), "v": (["k"], "float32")}
    proto = model(nodes, inputs, outputs_of(nodes), opset=11)
    values = np.array([2, 1, np.inf, 1, -0.5], "float32")
    rows = np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4], [0, 9, 9], [2, 3, 4]])
    check(proto, {"x": rows, "v": values}, {"x": rows[:1], "v": values[:1]})


def test_determinants() -> None:
    compiled = Compiled(model([node("Det", "x", "y")], {"x": (["n", 2, "k", "k"], "float32")}, "y"))
    for size in (1, 2, 5):
        x = array(3, 2, size, size)
        np.testing.assert_allclose(compiled(x=x)[0], np.linalg.det(x), rtol=1e-4, atol=1e-4)
