"""Sums over segments."""

from __future__ import annotations

import numpy as np
import pytest

from tests.relay.programs import assert_same, compiled
from vmkit import relay

IDS = np.array([2, 0, 2, 4, 0], "int32")


def reference(data: np.ndarray, count: int) -> np.ndarray:
    result = np.zeros((count, *data.shape[1:]), data.dtype)
    np.add.at(result, IDS, data)
    return result


@pytest.mark.parametrize("rows", [5, relay.Any()], ids=["static", "any"])
@pytest.mark.parametrize(("shape", "dtype"), [((), "float32"), ((3,), "int64"), ((2, 2), "float64")])
def test_rows_of_the_same_number_are_added(rows: object, shape: tuple[int, ...], dtype: str) -> None:
    data, ids = relay.var("data", shape=(rows, *shape), dtype=dtype), relay.var("ids", shape=(rows,), dtype="int32")
    values = np.arange(5 * int(np.prod(shape)), dtype=dtype).reshape(5, *shape)
    counts = (None, 6, relay.const([7], "int64"))
    run = compiled([data, ids], *[relay.segment_sum(data, ids, count) for count in counts])
    assert_same(run(values, IDS), tuple(reference(values, count) for count in (5, 6, 7)))
    assert relay.reverse_reshape(data, (0, -1)).op == relay.op.get("contrib_reverse_reshape")
