"""Requantisation is exact in fixed-point numbers, wherever its parameters come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.op.qnn.references import integers, requantized, round_away, saturated
from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import OptionError, VMError
from vmkit.relay import const, var
from vmkit.relay.qnn import op as qnn

# scale, zero point, out_scale, out_zero_point, out_dtype: ratios below, above and at 1, halves, a ratio near 0 and 1.
_PARAMETERS = [
    (0.5, 0, 1.0, 0, "int8"),
    (0.1, -3, 0.25, 7, "uint8"),
    (3.7, 12, 0.9, -5, "int16"),
    (0.25, 4, 0.25, -2, "int8"),
    (1e-6, 0, 1.0, 1, "int32"),
    (1.0, 1, 1e-3, 0, "int32"),
    (0.99999994, 0, 1.0, 0, "int32"),
    (1e-12, 0, 1.0, 3, "int8"),
]


def call(x: Any, scale: Any, zero: Any, out_scale: Any, out_zero: Any, dtype: str, **options: Any) -> Any:
    def as_const(value: Any, dtype: str) -> Any:
        return value if isinstance(value, relay.Expr) else const(np.asarray(value, dtype))

    parameters = (
        as_const(v, d) for v, d in zip((scale, zero, out_scale, out_zero), ("float32", "int32") * 2, strict=True)
    )
    return qnn.requantize(x, *parameters, out_dtype=dtype, **options)


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
def test_every_ratio_and_data_type_is_exact(rounding: str, dim: Any) -> None:
    params = [var(d, shape=(dim(300),), dtype=d) for d in ("int8", "uint8", "int16", "int32")]
    data = [integers(d, 300, seed=k) for k, d in enumerate(("int8", "uint8", "int16"))]
    data.append(integers("int32", 300, low=-(10**5), high=10**5))
    rows = [*((k, _PARAMETERS[1]) for k in (0, 1, 2)), *((3, p) for p in _PARAMETERS)]
    results = compiled(params, *[call(params[k], *p, rounding=rounding) for k, p in rows])(*data)
    assert_same(results, tuple(requantized(data[k], *p, rounding=rounding) for k, p in rows))


def test_the_ends_of_int32_are_exact() -> None:
    x = var("x", shape=(4,), dtype="int32")
    data = np.int32([-(2**31), -(2**31) + 1, 2**31 - 1, 0])
    table = [(0.3, 0, 1.0, 0, "int32"), (1.0, 0, 3.0, 0, "int32"), (0.5, 0, 1.0, 0, "int32")]
    run = compiled([x], *[call(x, *row, rounding=r) for r in ("UPWARD", "TONEAREST") for row in table])
    expected = [requantized(data, *row, rounding=r) for r in ("UPWARD", "TONEAREST") for row in table]
    assert_same(run(data), tuple(expected))


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
def test_parameters_known_at_run_time_give_what_constants_give(rounding: str) -> None:
    x, n = var("x", shape=(4, relay.Any(), 3), dtype="int32"), relay.Any()
    scale, zero = var("scale", shape=(), dtype="float32"), var("zero", shape=(), dtype="int32")
    scales, zeros = var("scales", shape=(n,), dtype="float32"), var("zeros", shape=(n,), dtype="int32")
    out_scale = var("out_scale", shape=(), dtype="float32")
    run = compiled(
        [x, scale, zero, scales, zeros, out_scale],
        call(x, scale, zero, out_scale, zero, "int8", rounding=rounding),
        call(x, scales, zeros, out_scale, zero, "int16", axis=1, rounding=rounding),
        call(x, scales, zero, 0.3, 1, "int32", axis=-2, rounding=rounding),
    )
    vector, offsets = np.float32([0.1, 2.0, 1e-5, 0.75, 0.99999994]), np.int32([0, -7, 3, 100, 1])
    data = integers("int32", 4, 5, 3, low=-5000, high=5000)
    s, z, o = np.float32(0.37), np.int32(5), np.float32(0.01)
    expected = (
        requantized(data, s, z, o, 5, "int8", rounding=rounding),
        requantized(data, vector, offsets, o, 5, "int16", 1, rounding),
        requantized(data, vector, z, 0.3, 1, "int32", 1, rounding),
    )
    assert_same(run(data, s, z, vector, offsets, o), expected)
    with pytest.raises(VMError, match="5"):
        run(data, s, z, vector[:4], offsets, o)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
def test_vectors_lie_along_the_axis(axis: int, rounding: str, dim: Any) -> None:
    x = var("x", shape=(dim(3), dim(4), dim(5)), dtype="int32")
    data = integers("int32", 3, 4, 5, low=-2000, high=2000)
    size = data.shape[axis]
    scales, zeros = np.float32([0.5, 0.1, 2.5, 1.0, 3e-4][:size]), np.int32([1, 0, -9, 4, 100][:size])
    table = [(scales, zeros, 0.5, 3, "int8"), (scales, 2, 0.5, 0, "int32"), (0.25, zeros, 0.125, 0, "uint8")]
    # Vectors of one element are numbers.
    ones = call(x, np.float32([0.5]), np.int32([3]), np.float32([0.25]), np.int32([1]), "int16", axis=axis)
    run = compiled([x], *[call(x, *row, axis=axis, rounding=rounding) for row in table], ones)
    expected = [requantized(data, *row, axis, rounding) for row in table]
    assert_same(run(data), (*expected, requantized(data, 0.5, 3, 0.25, 1, "int16")))


@pytest.mark.parametrize("real", ["float32", "float64"])
def test_floats_round_as_asked(real: str) -> None:
    x, scale = var("x", shape=(2, 6), dtype="int32"), var("scale", shape=(), dtype="float32")
    data = np.array([[-5, -3, -1, 1, 3, 5], [1000, -1000, 7, -7, 2**30, -(2**30)]], "int32")
    run = compiled(
        [x, scale],
        call(x, 0.5, 0, 1.0, 10, "int8", rounding="UPWARD", compute_dtype=real),
        call(x, 0.5, 1, 1.0, 10, "int16", rounding="TONEAREST", compute_dtype=real),
        call(x, scale, 0, 1.0, 0, "int8", rounding="TONEAREST", compute_dtype=real),
        call(x, np.float32([0.5, 4.0]), 0, 1.0, 0, "int8", axis=0, rounding="UPWARD", compute_dtype=real),
    )
    upward = np.floor(data * 0.5 + 10 + 0.5)
    nearest = round_away((data - 1.0) * 0.5 + 10)
    expected = (
        saturated(upward, "int8"),
        saturated(nearest, "int16"),
        saturated(round_away(data * 0.5), "int8"),
        saturated(np.floor(data * np.float64([[0.5], [4.0]]) + 0.5), "int8"),
    )
    assert_same(run(data, np.float32(0.5)), expected)


def test_scalars_are_requantized() -> None:
    x = var("x", shape=(), dtype="int32")
    run = compiled([x], call(x, 0.5, 1, 1.0, 0, "int8"), call(x, 0.5, [1], 1.0, 0, "int8", rounding="TONEAREST"))
    assert_same(run(np.int32(-4)), (np.int8(-2), np.int8(-3)))


def test_a_configuration_says_what_attributes_leave_open() -> None:
    x = var("x", shape=(2,), dtype="int32")
    data = np.int32([-3, 3])
    given = call(x, 0.5, 0, 1.0, 0, "int8", rounding="UPWARD")
    with qnn.requantize_config(rounding="TONEAREST", compute_dtype="float32") as config:
        assert qnn.current_requantize_config() == config
        nearest = compiled([x], call(x, 0.5, 0, 1.0, 0, "int8"), given)(data)
    assert_same(nearest, (np.int8([-2, 2]), np.int8([-1, 2])))
    assert_same(compiled([x], call(x, 0.5, 0, 1.0, 0, "int8"))(data), np.int8([-1, 2]))
    with pytest.raises(OptionError, match="rounding is 'NEAREST'; it is one of UPWARD, TONEAREST"):
        qnn.requantize_config(rounding="NEAREST").__enter__()


def test_mistakes_are_named() -> None:
    x, f = var("x", shape=(2, 3), dtype="int32"), var("f", shape=(2, 3))
    ones = const(np.ones(2, "float32")), const(np.zeros(2, "int32"))
    assert type_error([f], call(f, 1.0, 0, 1.0, 0, "int8")).startswith("data must be one of int8, uint8, int16")
    assert type_error([x], call(x, 1.0, 0, 1.0, 0, "float32")).startswith("out_dtype must be one of int8, uint8")
    assert "input_scale must be one number or a vector of 3" in type_error([x], call(x, *ones, 1.0, 0, "int8"))
    assert "axis is 2, but the input has 2" in type_error([x], call(x, *ones, 1.0, 0, "int8", axis=2))
    assert "output_scale must be one number" in type_error([x], call(x, 1.0, 0, ones[0], 0, "int8"))
    assert "input_scale must be float32, not int32" in type_error([x], call(x, const(1), 0, 1.0, 0, "int8"))
    assert "output_zero_point must be int32" in type_error([x], call(x, 1.0, 0, 1.0, const(1.0), "int8"))
    assert "rounding is 'UP'" in type_error([x], call(x, 1.0, 0, 1.0, 0, "int8", rounding="UP"))
    assert "compute_dtype is 'int8'" in type_error([x], call(x, 1.0, 0, 1.0, 0, "int8", compute_dtype="int8"))
    with pytest.raises(TypeError, match=r"qnn\.requantize: the output scale is 0"):
        compiled([x], call(x, 1.0, 0, 0.0, 0, "int8"))
    with pytest.raises(TypeError, match="too large for int32"):
        compiled([x], call(x, 1e9, 0, 1e-9, 0, "int8"))
