"""Inputs that models of several families have, and values to feed them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontend.onnx.programs import array, check, model

# Tensors of three axes, of which the first is of any size.
X = {"x": (["n", 3, 4], "float32")}
FEEDS = [{"x": array(n, 3, 4)} for n in (1, 2, 5)]

# Rows of any number, and numbers of them.
MATRIX = {"x": (["n", 4], "float32")}
SIZES = (1, 3, 6)

# Images of four channels, and of two.
IMAGE = {"x": (["n", 4, "h", "w"], "float32")}
IMAGES = [{"x": array(n, 4, h, w)} for n, h, w in ((1, 7, 6), (2, 9, 9), (3, 12, 5))]
MAPS = {"x": (["n", 2, "h", "w"], "float32")}

# What the body of a loop is given, how often it runs, and whether it runs at all.
ITERATION = {"i": ([], "int64"), "go": ([], "bool")}
COUNT = {"n": ([], "int64")}
START = {"c": ([], "bool")}


def count(n: int) -> dict[str, Any]:
    return {"n": np.array(n)}


def vector(*values: int) -> np.ndarray:
    return np.array(values, "int64")


def four(b: int, h: int, s: int, d: int, seed: int) -> np.ndarray:
    return array(b, h, s, d, seed=seed)


def check_image(nodes: list, constants: dict[str, Any], outputs: str = "y", opset: int = 17) -> None:
    """Assert that a model of an image of four channels agrees with onnxruntime."""
    check(model(nodes, IMAGE, outputs, constants, opset), *IMAGES)
