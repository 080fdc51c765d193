"""Quantised leaky_relu and softmax follow their integer algorithms, and stay near the reals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.op.qnn.references import dequantized, fixed_point_product, integers, requantized, saturated
from tests.relay.programs import assert_same, compiled, type_error
from vmkit.relay import const, var
from vmkit.relay.qnn import op as qnn


def numbers(*values: float) -> list[Any]:
    return [const(v, d) for v, d in zip(values, ("float32", "int32") * 2, strict=True)]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_leaky_relu_is_exact(dtype: str, dim: Any) -> None:
    x = var("x", shape=(dim(256),), dtype=dtype)
    data = np.arange(256, dtype="uint8").view(dtype)
    table = [(0.9, 0.125, 60, 0.125, 60), (0.1, 0.5, 20, 0.25, -3), (0.25, 0.01, 0, 0.02, 90), (0.0, 1.0, 5, 1.0, 5)]
    results = compiled([x], *[qnn.leaky_relu(x, alpha, *numbers(*row)) for alpha, *row in table])(data)
    for result, (alpha, scale, zero, out_scale, out_zero) in zip(results, table, strict=True):
        q = requantized(data, scale, zero, out_scale, out_zero, "int32")
        offset = fixed_point_product(out_zero, 1 - alpha, "UPWARD")
        scaled = np.array([fixed_point_product(int(v), alpha, "UPWARD") + offset for v in q])
        assert_same(result, saturated(np.where(data.astype(int) < zero, scaled, q), dtype))
        reals = dequantized(data, scale, zero)
        real = np.where(reals < 0, alpha * reals, reals) / out_scale + out_zero
        info = np.iinfo(dtype)
        assert np.abs(np.clip(real, info.min, info.max) - result).max() <= 2


@pytest.mark.parametrize(("scale", "axis"), [(0.1, -1), (0.02, 1), (1.0, 0), (6.0, 2)])
def test_softmax_is_near_the_real_one(scale: float, axis: int, dim: Any) -> None:
    x = var("x", shape=(dim(3), dim(4), dim(10)), dtype="int8")
    data = integers("int8", 3, 4, 10)
    # The algorithm takes log2(e) for 1.4375, and gives results in units of 1 / 128.
    run = compiled([x], qnn.softmax(x, *numbers(scale, 5, 1 / 128, 0), axis=axis))
    reals = (data.astype("float64") - 5) * scale
    powers = np.exp(reals - reals.max(axis, keepdims=True))
    real = powers / powers.sum(axis, keepdims=True)
    assert np.abs(run(data) / 128 - real).max() < 0.06
    if dim(3) != 3:
        assert_same(run(data[:1, :1, :1]), np.full((1, 1, 1), 127, "int8"))


def test_softmax_follows_the_algorithm() -> None:
    x, data = var("x", shape=(20, 7), dtype="int8"), integers("int8", 20, 7, low=-100, high=-60)
    one, q = round(1 / 0.1), data.astype("int64") + 3
    q = q - q.max(1, keepdims=True)
    power = q + (q >> 1) - (q >> 4)
    quotient, remainder = -power // one, -(-power % one)
    exponentials = ((remainder >> 1) + one << 8) >> quotient
    result = (2**30 // exponentials.sum(1, keepdims=True)) * exponentials >> 23
    run = compiled([x], qnn.softmax(x, *numbers(0.1, -3, 1 / 256, -128)))
    assert_same(run(data), requantized(result, 1 / 128, 0, 1 / 256, -128, "int8"))


def test_softmax_by_a_tiny_scale_is_even() -> None:
    x, data = var("x", shape=(2, 2), dtype="int8"), np.int8([[-128, 127], [0, 1]])
    # Here 1 / scale in units of 2**-8 is 2**32, which is 0 in an int32.
    run = compiled([x], qnn.softmax(x, *numbers(2.0**-24, 0, 1 / 128, 0)))
    assert np.abs(run(data).astype(int) - 64).max() <= 1


def test_mistakes_are_named() -> None:
    x, u = var("x", shape=(2, 3), dtype="int8"), var("u", shape=(2, 3), dtype="uint8")
    row = numbers(1, 0, 1, 0)
    assert type_error([u], qnn.softmax(u, *row)) == "x must be one of int8, not uint8"
    assert "axis is 2" in type_error([x], qnn.softmax(x, *row, axis=2))
    assert "scale must be float32" in type_error([x], qnn.leaky_relu(x, 0.5, row[1], *row[1:]))
