"""Tables of quantised functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vmkit import relay
from vmkit.errors import UnsupportedOperatorError
from vmkit.relay import const
from vmkit.relay.qnn.op.canonicalizations import create_integer_lookup_op, create_integer_lookup_table, run_const_expr


def looked_up(q: np.ndarray, function: Any, *parameters: float, dtype: str) -> np.ndarray:
    scale, zero, out_scale, out_zero = (const(p) for p in parameters)
    expr = create_integer_lookup_op(const(q), function, scale, zero, out_scale, out_zero,
                                    in_dtype=str(q.dtype), out_dtype=dtype)  # fmt: skip
    return run_const_expr(expr)


@pytest.mark.parametrize("source", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_every_integer_has_its_own_result(source: str, dtype: str) -> None:
    limits, wanted = np.iinfo(source), np.iinfo(dtype)
    q = np.arange(limits.min, limits.max + 1).astype(source).reshape(2, -1)
    expected = np.clip(np.round(np.tanh((q.astype("float32") - 5) * np.float32(0.02)) / np.float32(0.01)) + 7,
                       wanted.min, wanted.max)  # fmt: skip
    made = looked_up(q, np.tanh, 0.02, 5, 0.01, 7, dtype=dtype)
    assert made.dtype == dtype and made.shape == q.shape
    assert np.abs(made.astype("int64") - expected).max() <= 1


def test_halves_go_away_from_zero_and_what_is_no_number_is_zero() -> None:
    made = looked_up(np.int8([-3, -1, 0, 1, 3]), lambda x: x, 0.5, 0, 1.0, 0, dtype="int8")
    assert made.tolist() == [-2, -1, 0, 1, 2]
    made = looked_up(np.int8([-1, 0, 4]), np.log, 1.0, 0, 0.1, 3, dtype="int8")
    assert made.tolist() == [3, -128, 17]


def test_what_no_table_is_made_of_is_an_error() -> None:
    one, zero = const(1.0), const(0)
    with pytest.raises(ValueError, match="one of integers, not from float32 to int8"):
        create_integer_lookup_table(np.abs, one, zero, one, zero, in_dtype="float32", out_dtype="int8")
    with pytest.raises(UnsupportedOperatorError, match=r"2\*\*32 elements"):
        create_integer_lookup_table(np.abs, one, zero, one, zero, in_dtype="int32", out_dtype="int8")
    for scale in (relay.var("s", shape=()), const(np.float32([1, 2]))):
        with pytest.raises(UnsupportedOperatorError, match="one constant number as its input_scale"):
            create_integer_lookup_table(np.abs, scale, zero, one, zero)
