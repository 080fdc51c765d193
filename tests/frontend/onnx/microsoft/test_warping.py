"""Dynamic time warping, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, check
from vmkit.errors import ModelError


def costs(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 4, shape).astype("float32")


@pytest.mark.parametrize("shape", [["m", "n"], [1, "m", "n"]])
def test_the_cheapest_path_also_where_ways_cost_the_same(shape: list[int | str]) -> None:
    proto = microsoft(
        [ms("DynamicTimeWarping", "x", "y")], {"x": (shape, "float32")}, "y", integers={"y": TensorProto.INT32}
    )
    feeds = [{"x": costs(*shape[:-2], m, n, seed=m)} for m, n in ((1, 1), (1, 5), (6, 1), (4, 4), (7, 12), (20, 9))]
    check(proto, *feeds)


def test_costs_that_are_no_matrix_are_refused() -> None:
    proto = microsoft([ms("DynamicTimeWarping", "x", "y")], {"x": ([2, 3, 4], "float32")}, "y")
    with pytest.raises(ModelError, match="the costs are a matrix, or a batch of one"):
        Compiled(proto)
