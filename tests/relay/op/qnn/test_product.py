"""Quantised dense and batch_matmul are exact in int32, whatever the zero points are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.op.qnn.references import integers
from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import const, var
from vmkit.relay.qnn import op as qnn

_SCALE = const(0.5)


def wide(values: np.ndarray, zero: Any) -> np.ndarray:
    return values.astype("int64") - np.asarray(zero, "int64")


@pytest.mark.parametrize("dtypes", [("uint8", "int8"), ("int8", "uint8"), ("int16", "int8"), ("uint16", "uint8")])
def test_dense_subtracts_zero_points(dtypes: tuple[str, str], dim: Any) -> None:
    x, w = var("x", shape=(dim(3), dim(40)), dtype=dtypes[0]), var("w", shape=(dim(5), 40), dtype=dtypes[1])
    zero, zeros = var("zero", shape=(), dtype="int32"), var("zeros", shape=(dim(5),), dtype="int32")
    a, b = integers(dtypes[0], 3, 40), integers(dtypes[1], 5, 40, seed=1)
    vector = np.int32([0, 3, -7, 120, 1])
    known = [(0, 0), (4, 0), (0, -3), (100, 7), (-200, vector), (3, 1 << 20)]
    calls = [qnn.dense(x, w, const(z), const(np.int32(k)), _SCALE, _SCALE, units=5) for z, k in known]
    late = qnn.dense(x, w, zero, zeros, _SCALE, var("s", shape=(5,)), units=None)
    run = compiled([x, w, zero, zeros, late.args[5]], *calls, late)
    expected = [wide(a, z) @ wide(b, np.reshape(k, (-1, 1))).T for z, k in [*known, (9, vector)]]
    results = run(a, b, np.int32(9), vector, np.ones(5, "float32"))
    assert_same(results, tuple(e.astype("int32") for e in expected))


def test_dense_of_more_dimensions_and_to_int64() -> None:
    x, w = var("x", shape=(2, relay.Any(), 8), dtype="int16"), integers("int8", 4, 8)
    a = integers("int16", 2, 3, 8)
    zeros = const(np.int32([1, 2, 3, 4]))
    call = qnn.dense(x, const(w), const(3), zeros, _SCALE, _SCALE, 4, out_dtype="int64")
    assert_same(compiled([x], call)(a), wide(a, 3) @ wide(w, [[1], [2], [3], [4]]).T)


def test_sums_do_not_saturate() -> None:
    x, w = var("x", shape=(1, 4096), dtype="uint8"), var("w", shape=(1, 4096), dtype="int8")
    a, b = np.full((1, 4096), 255, "uint8"), np.full((1, 4096), -128, "int8")
    run = compiled([x, w], qnn.dense(x, w, const(0), const(127), _SCALE, _SCALE, 1))
    assert_same(run(a, b), np.full((1, 1), -4096 * 255 * 255, "int32"))


def test_batch_matmul_subtracts_zero_points(dim: Any) -> None:
    x, y = var("x", shape=(dim(2), dim(3), dim(6)), dtype="int8"), var("y", shape=(dim(1), dim(4), 6), dtype="uint8")
    zero = var("zero", shape=(), dtype="int32")
    a, b = integers("int8", 2, 3, 6), integers("uint8", 1, 4, 6)
    known = [(0, 0), (-123, 0), (0, 17), (5, 128)]
    calls = [qnn.batch_matmul(x, y, const(i), const(j), _SCALE, _SCALE) for i, j in known]
    run = compiled([x, y, zero], *calls, qnn.batch_matmul(x, y, zero, zero, _SCALE, _SCALE))
    expected = [wide(a, i) @ wide(b, j).transpose(0, 2, 1) for i, j in [*known, (7, 7)]]
    assert_same(run(a, b, np.int32(7)), tuple(e.astype("int32") for e in expected))


def test_mistakes_are_named() -> None:
    x, w = var("x", shape=(2, 3), dtype="int8"), var("w", shape=(4, 3), dtype="int8")
    zero, pair = const(0), const(np.zeros(2, "int32"))
    floats = var("f", shape=(2, 3))
    assert type_error([floats, w], qnn.dense(floats, w, zero, zero, _SCALE, _SCALE, 4)).startswith("data must be one")
    assert "input_zero_point must be one number" in type_error([x, w], qnn.dense(x, w, pair, zero, _SCALE, _SCALE, 4))
    message = type_error([x, w], qnn.dense(x, w, zero, pair, _SCALE, _SCALE, 4))
    assert message == "kernel_zero_point must be one number or a vector of 4, not Tensor[(2), int32]"
    assert "kernel_scale must be float32" in type_error([x, w], qnn.dense(x, w, zero, zero, _SCALE, zero, 4))
    assert "out_dtype must be one of int32" in type_error(
        [x, w], qnn.dense(x, w, zero, zero, _SCALE, _SCALE, 4, "int8")
    )
    narrow = var("n", shape=(4, 2), dtype="int8")
    assert "inner dimensions differ" in type_error([x, narrow], qnn.dense(x, narrow, zero, zero, _SCALE, _SCALE, 4))
    late = var("late", shape=(relay.Any(),), dtype="int32")
    run = compiled([x, w, late], qnn.dense(x, w, zero, late, _SCALE, _SCALE, 4))
    with pytest.raises(VMError, match="is 2 in one input"):
        run(np.ones((2, 3), "int8"), np.ones((4, 3), "int8"), np.ones(2, "int32"))
