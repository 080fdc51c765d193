"""Quantising and dequantising agree with numpy, by numbers and along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.op.qnn.references import dequantized, integers, quantized
from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import const, var
from vmkit.relay.qnn import op as qnn

_DTYPES = ("int8", "uint8", "int16", "uint16", "int32")
_SCALES, _ZEROS = np.float32([0.5, 0.1, 3.0]), np.int32([1, -4, 20])


def reals(*shape: int) -> np.ndarray:
    drawn = np.random.default_rng(0).normal(0, 40, shape).astype("float32")
    drawn.flat[:8] = [0.25, -0.25, 0.75, -0.75, 1e9, -1e9, 1e20, np.nan]
    return drawn


def test_quantize_rounds_away_and_saturates(dim: Any) -> None:
    x = var("x", shape=(dim(4), dim(3)))
    table = [(0.5, 3, d, -1) for d in _DTYPES] + [(_SCALES, _ZEROS, "int8", 1), (_SCALES, 2, "uint8", -1)]
    calls = [qnn.quantize(x, const(np.float32(s)), const(np.int32(z)), axis=a, out_dtype=d) for s, z, d, a in table]
    data = reals(4, 3)
    results = compiled([x], *calls)(data)
    expected = [quantized(data, s, z, d, a) for s, z, d, a in table]
    # No float32 between 2**31 - 128 and 2**31 is left to saturate to.
    expected[4] = np.where(expected[4] == 2**31 - 1, 2**31 - 128, expected[4]).astype("int32")
    assert_same(results, tuple(expected))


def test_dequantize_is_the_product_with_the_scale(dim: Any) -> None:
    params = [var(d, shape=(dim(4), dim(3)), dtype=d) for d in _DTYPES]
    data = [integers(d, 4, 3, low=0 if d == "int32" else None, high=10**6 if d == "int32" else None) for d in _DTYPES]
    rows = [(k, 0.37, 5, -1) for k in range(5)] + [(0, _SCALES, _ZEROS, 1), (1, 2.0, _ZEROS, -1)]
    calls = [qnn.dequantize(params[k], const(np.float32(s)), const(np.int32(z)), axis=a) for k, s, z, a in rows]
    half = qnn.dequantize(params[2], const(50.0), const(0), out_dtype="float16")
    expected = [dequantized(data[k], s, z, a) for k, s, z, a in rows]
    limited = np.clip(data[2] * np.float32(50), -65504, 65504).astype("float16")
    assert_same(compiled(params, *calls, half)(*data), (*expected, limited))


def test_parameters_may_come_at_run_time() -> None:
    n = relay.Any()
    x, q = var("x", shape=(2, n)), var("q", shape=(n, 2), dtype="int8")
    scales, zero = var("s", shape=(n,)), var("z", shape=(), dtype="int32")
    run = compiled([x, q, scales, zero], qnn.quantize(x, scales, zero), qnn.dequantize(q, scales, zero, axis=0))
    data, codes = reals(2, 6), integers("int8", 3, 2)
    expected = quantized(data[:, :3], _SCALES, 7, "int8"), dequantized(codes, _SCALES, 7, 0)
    assert_same(run(data[:, :3], codes, _SCALES, np.int32(7)), expected)
    with pytest.raises(VMError, match=r"6 in one input and 3 in another|3 in one input and 6 in another"):
        run(data, codes, _SCALES, np.int32(7))


def test_scalars_and_empty_tensors() -> None:
    x, none = var("x", shape=()), var("none", shape=(0, 3))
    one = qnn.quantize(x, const([0.5]), const([1]))
    run = compiled([x, none], one, qnn.dequantize(one, const(0.5), const(1)), qnn.quantize(none, const(1.0), const(0)))
    expected = np.int8(7), np.float32(3), np.zeros((0, 3), "int8")
    assert_same(run(np.float32(3), np.zeros((0, 3), "float32")), expected)


def test_mistakes_are_named() -> None:
    x, q = var("x", shape=(2, 3)), var("q", shape=(2, 3), dtype="int8")
    one, zero, pair = const(1.0), const(0), const([1.0, 1.0])
    assert type_error([q], qnn.quantize(q, one, zero)) == "data must be one of float32, not int8"
    assert "out_dtype must be one of int8" in type_error([x], qnn.quantize(x, one, zero, out_dtype="int64"))
    assert "must be one number or a vector of 3" in type_error([x], qnn.quantize(x, pair, zero))
    assert "axis is 5" in type_error([x], qnn.quantize(x, pair, zero, axis=5))
    assert "output_zero_point must be int32, not float32" in type_error([x], qnn.quantize(x, one, one))
    assert "out_dtype must be one of float16, float32" in type_error([q], qnn.dequantize(q, one, zero, -1, "int8"))
    assert type_error([x], qnn.dequantize(x, one, zero)).startswith("data must be one of int8")
    # An axis that no vector lies along does not matter, as in Relay.
    assert_same(compiled([x], qnn.quantize(x, one, zero, axis=5))(np.ones((2, 3), "float32")), np.ones((2, 3), "int8"))
