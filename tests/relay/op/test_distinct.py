"""The distinct rows of matrices, beside numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import compiled
from vmkit import relay
from vmkit.relay import var
from vmkit.relay.op import build

_NUMBERS = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
)


def distinct(x: np.ndarray, is_sorted: bool, shape: Any = None) -> list[np.ndarray]:
    """Return what contrib.unique_rows finds in a matrix."""
    parameter = var("x", shape=shape or x.shape, dtype=str(x.dtype))
    made = build("contrib.unique_rows", parameter, is_sorted).astuple()
    return list(compiled([parameter], made)(x))


def check(x: np.ndarray, shape: Any = None) -> None:
    """Compare with numpy, in order and as the rows first appear."""
    keys = x[:, 0] if x.shape[1] == 1 else x
    axis = None if x.shape[1] == 1 else 0
    _, first, inverse, counts = np.unique(keys, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    for actual, expected in zip(distinct(x, True, shape), (first, inverse, counts), strict=True):
        np.testing.assert_array_equal(actual, expected)
    order = np.argsort(first)
    place = np.argsort(order)
    for actual, expected in zip(distinct(x, False, shape), (first[order], place[inverse], counts[order]), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("dtype", _NUMBERS)
def test_numbers_of_all_types_in_order(dtype: str) -> None:
    random = np.random.default_rng(0)
    bits = random.integers(0, 256, (700, np.dtype(dtype).itemsize), "uint8")
    x = bits % 2 == 1 if dtype == "bool" else bits.view(dtype)
    if dtype.startswith("float"):
        x = np.where(np.abs(x) < 1, x, np.sign(x).astype(dtype))
        x[::9], x[1::9], x[2::9] = np.nan, np.inf, -np.inf
        x[3::9], x[4::9] = 0.0, -0.0
    check(np.concatenate([x, x[::3]]).astype(dtype))


@pytest.mark.sweep
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("rows", [1, 2, 129, 5000])
def test_few_and_many_distinct_rows_of_unknown_number(rows: int, columns: int) -> None:
    random = np.random.default_rng(rows)
    for largest in (2, 1 << 40):
        check(random.integers(-largest, largest, (rows, columns)), (relay.Any(), columns))


def test_numbers_whose_slots_are_the_same() -> None:
    check((np.arange(3000, dtype="int64") << 32).reshape(-1, 1))


def test_no_rows_and_rows_without_columns() -> None:
    for part in distinct(np.zeros((0, 1), "float32"), True, (relay.Any(), 1)):
        assert part.shape == (0,)
    first, inverse, counts = distinct(np.zeros((4, 0), "int64"), True, (4, relay.Any()))
    assert (first.tolist(), inverse.tolist(), counts.tolist()) == ([0], [0, 0, 0, 0], [4])
