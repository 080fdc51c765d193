"""Sums over segments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, compiled
from vmkit import relay
from vmkit.relay import var

IDS = np.array([2, 0, 2, 4, 0], "int32")


def reference(data: np.ndarray, count: int) -> np.ndarray:
    result = np.zeros((count, *data.shape[1:]), data.dtype)
    np.add.at(result, IDS, data)
    return result


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [5, relay.Any()], ids=["static", "any"])
@pytest.mark.parametrize(("shape", "dtype"), [((), "float32"), ((3,), "int64"), ((2, 2), "float64")])
def test_rows_of_the_same_number_are_added(rows: object, shape: tuple[int, ...], dtype: str) -> None:
    data, ids = relay.var("data", shape=(rows, *shape), dtype=dtype), relay.var("ids", shape=(rows,), dtype="int32")
    values = np.arange(5 * int(np.prod(shape)), dtype=dtype).reshape(5, *shape)
    counts = (None, 6, relay.const([7], "int64"))
    run = compiled([data, ids], *[relay.segment_sum(data, ids, count) for count in counts])
    assert_same(run(values, IDS), tuple(reference(values, count) for count in (5, 6, 7)))
    assert relay.reverse_reshape(data, (0, -1)).op == relay.op.get("contrib_reverse_reshape")


@pytest.mark.parametrize(
    ("rows", "ids", "count"),
    [
        (np.array([5, 1, 7, 2], "float32"), np.array([0, 1, 1, 0], "int32"), None),
        (np.arange(12, dtype="int64").reshape(3, 4), np.array([0, 2]), 4),
        (np.random.default_rng(1).normal(size=(5, 2, 3)), np.array([1, 0, 1, 7, -9], "int32"), 2),
    ],
    ids=["vector", "fewer ids than rows", "ids outside"],
)
def test_segment_sum_adds_the_rows_of_each_segment(dim: Any, rows: Any, ids: Any, count: int | None) -> None:
    x = var("x", shape=[dim(n) for n in rows.shape], dtype=str(rows.dtype))
    i = var("i", shape=(dim(len(ids)),), dtype=str(ids.dtype))
    expected = np.zeros((count or ids.max() + 1, *rows.shape[1:]), rows.dtype)
    for row, segment in zip(rows, ids, strict=False):
        if 0 <= segment < len(expected):
            expected[segment] += row
    assert_same(compiled([x, i], relay.segment_sum(x, i, count))(rows, ids), expected)
    many = relay.segment_sum(x, i, relay.const([len(expected)], "int64"))
    assert_same(compiled([x, i], many)(rows, ids), expected)
