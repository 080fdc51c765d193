"""Attention of which a query sees only some blocks of keys, beside the formula.

onnxruntime gives the same where the lengths of a batch are equal; where they differ, its heads behind the first read
keys of other places.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, array

BLOCK, HEADS, SHARED, WIDTH, ROOM = 16, 4, 2, 8, 64
LAYOUTS = np.array([
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]],
    [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1]],
])  # fmt: skip
COLUMNS = np.array([[0, 0, 1, 1, 2, 1, 2, 3, -1], [0, 0, 1, 0, 1, 2, 0, 2, 3]], "int32")
ROWS = np.array([[0, 1, 3, 5, 8], [0, 1, 3, 6, 9]], "int32")
INPUTS: dict[str, Any] = {
    "q": (["b", "s", HEADS * WIDTH], "float32"), "k": (["b", "s", SHARED * WIDTH], "float32"),
    "v": (["b", "s", SHARED * WIDTH], "float32"), "pk": (["b", SHARED, ROOM, WIDTH], "float32"),
    "pv": (["b", SHARED, ROOM, WIDTH], "float32"), "total": ([1], "int32"), "lengths": (["b"], "int32"),
}  # fmt: skip


def feed(batch: int, steps: int, lengths: list[int]) -> dict[str, np.ndarray]:
    made = {n: array(batch, steps, INPUTS[n][0][2], seed=i) for i, n in enumerate("qkv")}
    caches = {n: array(batch, SHARED, ROOM, WIDTH, seed=5 + i) for i, n in enumerate(("pk", "pv"))}
    return made | caches | {"total": np.array([max(lengths)], "int32"), "lengths": np.array(lengths, "int32")}


def expected(given: dict[str, np.ndarray]) -> list[np.ndarray]:
    batch, steps, _ = given["q"].shape
    key, value = given["pk"].copy(), given["pv"].copy()
    result = np.zeros((batch, steps, HEADS, WIDTH))
    for b, length in enumerate(given["lengths"]):
        before = max(length - steps, 0)
        for cache, new in ((key, given["k"]), (value, given["v"])):
            cache[b, :, before : before + steps] = new[b].reshape(steps, SHARED, WIDTH).swapaxes(0, 1)
        for h in range(HEADS):
            for row in range(steps):
                at = before + row
                seen = [c for c in range(at + 1) if LAYOUTS[h % 2, at // BLOCK, c // BLOCK]]
                scores = key[b, h // 2, seen] @ given["q"][b, row].reshape(HEADS, WIDTH)[h] / np.sqrt(WIDTH)
                powers = np.exp(scores - scores.max())
                result[b, row, h] = powers / powers.sum() @ value[b, h // 2, seen]
    return [result.reshape(batch, steps, -1), key, value]


@pytest.mark.parametrize("known", [True, False])
def test_blocks_that_are_seen(known: bool) -> None:
    masks = {"rows": ROWS, "columns": COLUMNS}
    inputs = INPUTS if known else INPUTS | {"rows": (["l", "n"], "int32"), "columns": (["l", "z"], "int32")}
    nodes = [ms("SparseAttention", "q k v pk pv rows columns total lengths", "y ck cv", num_heads=HEADS,
                kv_num_heads=SHARED, sparse_block_size=BLOCK)]  # fmt: skip
    compiled = Compiled(microsoft(nodes, inputs, "y ck cv", masks if known else None))
    for batch, steps, lengths in ((2, 40, [40, 40]), (2, 1, [37, 64]), (1, 1, [1]), (1, 64, [64])):
        given = feed(batch, steps, lengths)
        for actual, wanted in zip(compiled(**given, **({} if known else masks)), expected(given), strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)
