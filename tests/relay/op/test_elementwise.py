"""Elementwise and broadcast operators agree with numpy for data types that have special rules."""

from __future__ import annotations

from typing import Any

import numpy as np

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
