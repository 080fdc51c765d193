"""What positions add to scores: onnxruntime has it for other devices only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, assert_agrees
from vmkit.errors import ModelError
from vmkit.relay.frontend import from_onnx


def bucket(distance: int, count: int, most: int, is_bidirectional: bool) -> int:
    """Return the bucket of a key at a distance behind its query, as transformers' T5 computes it."""
    start = 0
    if is_bidirectional:
        count //= 2
        start, distance = (count if distance > 0 else 0), abs(distance)
    else:
        distance = max(-distance, 0)
    exact = count // 2
    if distance < exact:
        return start + distance
    return start + min(exact + int(math.log(distance / exact) / math.log(most / exact) * (count - exact)), count - 1)


@pytest.mark.parametrize("attributes", [{"max_distance": 20}, {"max_distance": 50, "is_bidirectional": 1}])
def test_buckets_of_distances(attributes: dict[str, Any]) -> None:
    inputs = {"q": ([1], "int64"), "k": ([], "int64")}
    table = array(16, 3)
    # As onnxruntime's fusion of T5 writes it: head by head, and still called (buckets, heads).
    constants = {"t": table.T.reshape(table.shape)}
    compiled = Compiled(microsoft([ms("RelativePositionBias", "t q k", "y", **attributes)], inputs, "y", constants))
    for rows, columns in ((1, 1), (70, 75), (3, 9)):
        both_ways = bool(attributes.get("is_bidirectional"))
        at = [[bucket(j - i, 16, attributes["max_distance"], both_ways) for j in range(columns)] for i in range(rows)]
        expected = table[np.array(at)].transpose(2, 0, 1)[None]
        assert_agrees(compiled(q=np.array([rows]), k=np.array(columns)), [expected], ["y"])


def test_a_bias_with_gates() -> None:
    names = "q b r w v a"
    inputs = {"q": (["n", "s", 8], "float32"), "r": ([1, 2, "s", "s"], "float32")}
    constants = {"b": array(8, seed=1), "w": array(4, 6, seed=2), "v": array(6, seed=3), "a": array(1, 2, 1, 1, seed=4)}
    compiled = Compiled(microsoft([ms("GatedRelativePositionBias", names, "y", num_heads=2)], inputs, "y", constants))
    for n, s in ((1, 3), (2, 5)):
        q, r = array(n, s, 8, seed=5), array(1, 2, s, s, seed=6)
        heads = (q + constants["b"]).reshape(n, s, 2, 4).transpose(0, 2, 1, 3)
        sums = (heads @ constants["w"] + constants["v"]).reshape(n, 2, s, 2, 3).sum(-1)
        update, reset = (g[..., None] for g in np.moveaxis(1 / (1 + np.exp(-sums)), -1, 0))
        expected = (update * (reset * constants["a"] - 1) + 2) * r
        assert_agrees(compiled(q=q, r=r), [expected.astype("float32")], ["y"])


def test_a_table_needs_buckets() -> None:
    node = ms("RelativePositionBias", "t q q", "y", max_distance=9)
    with pytest.raises(ModelError, match="bias_table has 1 buckets"):
        from_onnx(microsoft([node], {"q": ([1], "int64")}, "y", {"t": array(1, 3)}))
