"""Quantised functions of one number agree with the real ones on all 256 elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.relay.op.qnn.references import dequantized, quantized
from tests.relay.programs import compiled, type_error
from vmkit import relay
from vmkit.relay import const, var
from vmkit.relay.qnn import op as qnn

_FUNCTIONS: dict[str, Any] = {
    "abs": np.abs,
    "erf": lambda x: np.array([math.erf(v) for v in x], "float32"),
    "exp": np.exp,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "log": np.log,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}
# The smallest element that has a defined value.
_POSITIVE = {"log": 1, "rsqrt": 1, "sqrt": 0}


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_every_element_is_the_rounded_real(dtype: str, dim: Any) -> None:
    x = var("x", shape=(2, dim(128)), dtype=dtype)
    info = np.iinfo(dtype)
    data = np.arange(info.min, info.max + 1).astype(dtype)
    numbers = (0.125, 0, 0.0625, -3), (0.02, 0, 0.01, 100)
    calls = [
        getattr(qnn, name)(x, *[const(v, d) for v, d in zip(row, ("float32", "int32") * 2, strict=True)])
        for name in _FUNCTIONS
        for row in numbers
    ]
    results = iter(compiled([x], *calls)(data.reshape(2, 128)))
    for name, function in _FUNCTIONS.items():
        for scale, zero, out_scale, out_zero in numbers:
            is_defined = data.astype(int) >= _POSITIVE.get(name, info.min)
            reals = function(dequantized(data[is_defined], scale, zero)).astype("float32")
            result = next(results)
            assert result.dtype == dtype and result.shape == (2, 128)
            np.testing.assert_array_equal(
                result.reshape(-1)[is_defined], quantized(reals, out_scale, out_zero, dtype), err_msg=name
            )


def test_scales_may_come_at_run_time() -> None:
    x, scale, zero = var("x", shape=(relay.Any(),), dtype="int8"), var("s", shape=()), var("z", "int32")
    run = compiled([x, scale, zero], *[getattr(qnn, n)(x, scale, zero, const(0.05), zero) for n in _FUNCTIONS])
    data = np.arange(2, 128, dtype="int8")
    results = run(data, np.float32(0.1), np.int32(1))
    for result, (name, function) in zip(results, _FUNCTIONS.items(), strict=True):
        expected = quantized(function(dequantized(data, 0.1, 1)), 0.05, 1, "int8")
        # Kernels and numpy may differ in the last bit of a float.
        assert np.abs(result.astype(int) - expected).max() <= 1, name


def test_mistakes_are_named() -> None:
    x, wide = var("x", shape=(2,), dtype="int8"), var("w", shape=(2,), dtype="int16")
    one, zero = const(1.0), const(0)
    assert type_error([wide], qnn.tanh(wide, one, zero, one, zero)) == "x must be one of int8, uint8, not int16"
    assert type_error([x], qnn.exp(x, zero, zero, one, zero)) == "scale must be float32, not int32"
    pair = const([1, 2])
    assert "output_zero_point must be one number" in type_error([x], qnn.log(x, one, zero, one, pair))
