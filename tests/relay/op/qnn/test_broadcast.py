"""Quantised sums, differences and products are within one quantum of the real ones, and exact where defined so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.op.qnn.references import column, integers, requantized, saturated
from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.relay import const, var
from vmkit.relay.qnn import op as qnn

_OPERATIONS = {"add": np.add, "subtract": np.subtract, "mul": np.multiply}


def call(name: str, x: Any, y: Any, *numbers: Any, **axes: int) -> Any:
    dtypes = ("float32", "int32") * 3
    return getattr(qnn, name)(x, y, *[const(np.asarray(v, d)) for v, d in zip(numbers, dtypes, strict=True)], **axes)


def reference(
    name: str, x: np.ndarray, y: np.ndarray, xs: Any, xz: Any, ys: Any, yz: Any, s: float, z: int, xa: int, ya: int
) -> np.ndarray:
    """Return the exact result: operands by the result's quantisation, or the product requantised."""
    if name == "mul":
        product = (x.astype("int64") - column(xz, xa, x.ndim)) * (y.astype("int64") - column(yz, ya, y.ndim))
        return requantized(product, np.float32(xs) * np.float32(ys), 0, s, z, str(x.dtype), xa)
    a, b = requantized(x, xs, xz, s, z, "int32", xa), requantized(y, ys, yz, s, z, "int32", ya)
    return saturated(a.astype("int64") + b - z if name == "add" else a.astype("int64") - b + z, str(x.dtype))


_NUMBERS = [
    (0.125, 0, 0.125, 0, 0.125, 0),
    (0.0156863, 127, 0.0117647, 85, 0.0235294, 128),
    (0.5, 3, 0.5, 3, 0.5, 3),
    (1.5, -7, 0.01, 40, 0.3, -2),
]


@pytest.mark.parametrize("name", _OPERATIONS)
def test_results_are_exact_and_within_a_quantum_of_the_reals(name: str, dim: Any) -> None:
    params = [var("x", shape=(dim(4), dim(50)), dtype="uint8"), var("y", shape=(dim(1), dim(50)), dtype="uint8")]
    x, y = integers("uint8", 4, 50), integers("uint8", 1, 50, seed=1)
    results = compiled(params, *[call(name, *params, *n) for n in _NUMBERS])(x, y)
    assert_same(results, tuple(reference(name, x, y, *n, -1, -1) for n in _NUMBERS))
    for result, (xs, xz, ys, yz, s, z) in zip(results, _NUMBERS, strict=True):
        real = _OPERATIONS[name]((x - float(xz)) * xs, (y - float(yz)) * ys) / s + z
        quanta = np.abs(np.clip(real, 0, 255) - result)
        assert quanta.max() <= 1.001


@pytest.mark.parametrize("name", _OPERATIONS)
def test_vectors_lie_along_the_axis_of_their_operand(name: str) -> None:
    params = [var("x", shape=(3, relay.Any()), dtype="int8"), var("y", shape=(2, 3, relay.Any()), dtype="int8")]
    x, y = integers("int8", 3, 5), integers("int8", 2, 3, 5, seed=1)
    v, w, z = np.float32([0.5, 0.02, 1.0]), np.float32([0.1, 0.3, 0.04]), np.int32([1, -5, 9])
    both, one = (v, z, w, 4, 0.25, -3), (v, 1, 0.2, 3, 0.25, 0)
    run = compiled(
        params,
        call(name, *params, *both, lhs_axis=0, rhs_axis=1),
        call(name, *params, *one, lhs_axis=-2),
    )
    wide = np.broadcast_to(x, y.shape)
    expected = [reference(name, wide, y, *both, 1, 1), reference(name, wide, y, *one, 1, -1)]
    assert_same(run(x, y), tuple(expected))


def test_int32_sums_are_not_limited() -> None:
    x = var("x", shape=(2,), dtype="int32")
    data = np.int32([10**6, -5])
    assert_same(compiled([x], call("add", x, x, 0.5, 0, 0.5, 0, 0.5, 0))(data), data * 2)


def test_mistakes_are_named() -> None:
    x, y = var("x", shape=(2, 3), dtype="int8"), var("y", shape=(2, 3), dtype="uint8")
    pair, triple = np.ones(2), np.ones(3)
    assert "data types differ" in type_error([x, y], call("add", x, y, 1, 0, 1, 0, 1, 0))
    assert "lhs_scale must be one number or a vector of 3" in type_error([x], call("add", x, x, pair, 0, 1, 0, 1, 0))
    assert "output_scale must be one number" in type_error([x], call("mul", x, x, 1, 0, 1, 0, triple, 0))
    floats = var("f", shape=(2,))
    assert type_error([floats], call("add", floats, floats, 1, 0, 1, 0, 1, 0)).startswith("lhs must be one of int8")
    with pytest.raises(TypeCheckError, match="lie along different axes"):
        compiled([x], call("mul", x, x, pair, 0, triple, 0, 1, 0, lhs_axis=0, rhs_axis=1))
