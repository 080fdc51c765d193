"""A pool over what a mask leaves, over one to three axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import array, check

WINDOWS: list[tuple[tuple[int, ...], dict[str, list[int]]]] = [
    ((7,), {"kernel_shape": [3], "strides": [2], "pads": [1, 0]}),
    ((5, 6), {"kernel_shape": [3, 2], "strides": [1, 2], "pads": [1, 0, 1, 1]}),
    ((4, 3, 5), {"kernel_shape": [2, 2, 3], "strides": [1, 1, 2], "pads": [0, 1, 1, 0, 0, 1]}),
]


@pytest.mark.parametrize(("sizes", "window"), WINDOWS)
def test_masks_of_all_channels_and_of_one(sizes: tuple[int, ...], window: dict[str, list[int]]) -> None:
    kernel = window["kernel_shape"]
    nodes = [
        ms("MaxpoolWithMask", "x m", "a", **window), ms("MaxpoolWithMask", "x one", "b", **window),
        ms("MaxpoolWithMask", "x m", "c", kernel_shape=kernel, auto_pad="SAME_UPPER"),
    ]  # fmt: skip
    names = ["d", "h", "w"][: len(sizes)]
    inputs: dict[str, Any] = {
        "x": (["n", "c", *names], "float32"), "m": (["n", "c", *names], "int32"), "one": ([1, 1, *names], "int32")
    }  # fmt: skip
    random = np.random.default_rng(0)
    feeds = [
        {
            "x": array(n, 3, *sizes), "m": (random.random((n, 3, *sizes)) > 0.3).astype("int32"),
            "one": (random.random((1, 1, *sizes)) > 0.3).astype("int32"),
        }
        for n in (1, 2)
    ]  # fmt: skip
    check(microsoft(nodes, inputs, "a b c"), *feeds)
