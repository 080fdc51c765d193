"""Elementwise and broadcast operators agree with numpy for data types that have special rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, assert_table, compiled
from vmkit import relay
from vmkit.relay import var


def test_sign_of_unsigned_integers(dim: Any) -> None:
    x = var("x", shape=(dim(4),), dtype="uint8")
    assert_same(compiled([x], relay.sign(x))(np.array([0, 1, 7, 255], "uint8")), np.array([0, 1, 1, 1], "uint8"))


def test_special_values_of_bfloat16_are_recognised() -> None:
    x = var("x", shape=(4,))
    short = relay.cast(x, "bfloat16")
    run = compiled([x], relay.isnan(short), relay.isinf(short), relay.isfinite(short))
    values = np.array([1, np.nan, np.inf, -np.inf], "float32")
    assert_same(run(values), (np.isnan(values), np.isinf(values), np.isfinite(values)))


def test_bool_is_ordered_with_false_first(dim: Any) -> None:
    x, y = var("x", shape=(dim(2), 1), dtype="bool"), var("y", shape=(dim(2),), dtype="bool")
    names = ("less", "less_equal", "greater", "greater_equal", "maximum", "minimum")
    table = {n: (relay.op.build(n, x, y), getattr(np, n)) for n in names}
    assert_table([x, y], table, (np.array([[False], [True]]), np.array([False, True])))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_integers_are_divided_by_anything_without_harm(dim: Any, dtype: str) -> None:
    limits = np.iinfo(dtype)
    x, y = var("x", shape=(dim(5), 1), dtype=dtype), var("y", shape=(dim(4),), dtype=dtype)
    a = np.array([limits.min, limits.max, 7, 0, limits.max // 3], dtype)[:, None]
    b = np.array([0, limits.max if dtype == "uint8" else -1, 3, limits.min], dtype)

    def quotient(rounded: Any) -> Any:
        def divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            exact = [[rounded(int(p), int(q)) if q else 0 for q in y] for p in x[:, 0]]
            return (np.array(exact, object) & (limits.max - limits.min)).astype("uint64").astype(dtype)

        return divide

    def truncated(p: int, q: int) -> int:
        return abs(p) // abs(q) * (-1 if (p < 0) != (q < 0) else 1)

    table = {
        "divide": (relay.divide(x, y), quotient(truncated)),
        "trunc_divide": (relay.trunc_divide(x, y), quotient(truncated)),
        "floor_divide": (relay.floor_divide(x, y), quotient(lambda p, q: p // q)),
        "floor_mod": (relay.floor_mod(x, y), quotient(lambda p, q: p % q)),
        "mod": (relay.mod(x, y), quotient(lambda p, q: p - truncated(p, q) * q)),
    }
    assert_table([x, y], table, (a, b))


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("float16", -128000.0, 128000.0),
        ("float16", -1.0, 128000.0),
        ("float16", float("-inf"), 2.0),
        ("int8", -300.0, 5.0),
        ("int8", -300.0, 300.0),
        ("uint8", -1.0, 20.0),
    ],
)
def test_bounds_that_a_data_type_cannot_hold_limit_nothing(dim: Any, dtype: str, low: float, high: float) -> None:
    x = var("x", shape=(dim(5),), dtype=dtype)
    limits = [np.inf, -np.inf] if dtype == "float16" else [np.iinfo(dtype).min, np.iinfo(dtype).max]
    values = np.array([0, 1, 50, *limits], dtype)
    with np.errstate(over="ignore"):
        expected = np.clip(values.astype("float64"), low, high).astype(dtype)
    assert_same(compiled([x], relay.clip(x, low, high))(values), expected)


def test_bounds_beyond_all_values_leave_the_nearest_one() -> None:
    x = var("x", shape=(2,), dtype="int8")
    run = compiled([x], relay.clip(x, 300.0, 400.0), relay.clip(x, -400.0, -300.0))
    assert_same(run(np.array([-5, 5], "int8")), (np.full(2, 127, "int8"), np.full(2, -128, "int8")))
