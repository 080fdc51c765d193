"""Vector forms of functions stay near the C library's, at the ends of the range too."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import te, tirx, topi

import vmkit
from vmkit import relay
from vmkit.kernels.vector_math import exponential_up_to_one, sigmoid_quotient, tanh_quotient, with_vector_math

EXACT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


@pytest.mark.parametrize(("name", "error"), [("exp", 1.2e-7), ("tanh", 5e-7), ("erf", 5e-7), ("sigmoid", 4e-7)])
def test_the_relative_error_is_as_documented(name: str, error: float) -> None:
    x = np.concatenate([np.linspace(-80, 80, 40_001), np.linspace(-4, 4, 80_001), [1e-20, -1e-30]]).astype("float32")
    exact = EXACT[name](x.astype("float64"))
    np.testing.assert_allclose(run(name, x), exact, rtol=error, atol=1e-37)


def test_the_tangent_of_doubles_is_as_near_as_documented() -> None:
    random = np.random.default_rng(0)
    small = [random.normal(size=10_000) * 1e-5, 10.0 ** random.uniform(-300, 2, 10_000)]
    x = np.concatenate([np.linspace(-25, 25, 100_001), np.linspace(-0.6, 0.6, 100_001), *small])
    variable = relay.var("x", shape=(relay.Any(),), dtype="float64")
    program = vmkit.compile(relay.Function([variable], relay.tanh(variable)), "llvm")
    machine = vmkit.VirtualMachine(program, "cpu")
    np.testing.assert_allclose(machine.run(x).numpy(), np.tanh(x.astype(np.longdouble)), rtol=5e-16, atol=0)
    ends = machine.run(np.array([-math.inf, math.inf, math.nan, -0.0, 1e-310])).numpy()
    np.testing.assert_array_equal(ends, [-1, 1, math.nan, -0.0, 1e-310])
    assert np.signbit(ends[3])


@pytest.mark.parametrize(
    ("name", "ends"),
    [("exp", [0, math.inf, 0, 1]), ("tanh", [-1, 1, -1, 0]), ("erf", [-1, 1, -1, 0]), ("sigmoid", [0, 1, 0, 0.5])],
)
def test_infinities_and_nan_have_their_values(name: str, ends: list[float]) -> None:
    x = np.array([-math.inf, math.inf, -1e30, 0, math.nan], "float32")
    result = run(name, x)
    np.testing.assert_allclose(result[:4], ends, rtol=5e-7)
    assert np.isnan(result[4])


@pytest.mark.parametrize(("name", "exact"), [("log", np.log), ("log2", np.log2), ("log10", np.log10)])
def test_the_relative_error_of_logarithms_is_as_documented(
    name: str, exact: Callable[[np.ndarray], np.ndarray]
) -> None:
    near_one = 1 + np.linspace(-0.4, 0.6, 80_001)
    x = np.concatenate([np.logspace(-45, 38.5, 80_001), near_one, [1.4e-45, 3.4e38, 1]]).astype("float32")
    x = x[x > 0]
    np.testing.assert_allclose(run(name, x), exact(x.astype("float64")), rtol=3e-7, atol=0)
    ends = run(name, np.array([0, -0.0, -1, -math.inf, math.inf, math.nan], "float32"))
    np.testing.assert_array_equal(ends, [-math.inf, -math.inf, math.nan, math.nan, math.inf, math.nan])


RANGES = {
    "sin": np.concatenate([np.linspace(-50, 50, 100_001), np.logspace(-40, 38.5, 100_001), [0, -0.0]]),
    "tan": np.concatenate([np.linspace(-50, 50, 100_001), np.logspace(-40, 38.5, 100_001), [0, -0.0]]),
    "cos": np.concatenate([np.linspace(-50, 50, 100_001), -np.logspace(-40, 38.5, 100_001), [0, -0.0]]),
    "asin": np.concatenate([np.linspace(-1, 1, 100_001), np.logspace(-40, 0, 10_001), [0, -0.0, 1.1, -2]]),
    "acos": np.concatenate([np.linspace(-1, 1, 100_001), np.logspace(-40, 0, 10_001), [1.1, -2]]),
    "atan": np.concatenate([np.linspace(-5, 5, 100_001), np.logspace(-40, 38, 100_001), [-1e30, -0.0]]),
    "sinh": np.concatenate([np.linspace(-89.4, 89.4, 100_001), np.logspace(-40, 1, 100_001), [-0.0, 90, -1e3]]),
    "cosh": np.concatenate([np.linspace(-89.4, 89.4, 100_001), np.logspace(-40, 1, 10_001), [90, -1e3]]),
    "asinh": np.concatenate([np.linspace(-5, 5, 100_001), -np.logspace(-40, 38.5, 100_001), [-0.0]]),
    "acosh": np.concatenate([1 + np.logspace(-7, 1, 100_001), np.logspace(0, 38.5, 100_001), [1, 0.9, -3]]),
    "atanh": np.concatenate([np.linspace(-1, 1, 100_001), np.logspace(-40, 0, 100_001), [-0.0, 1.1, -2]]),
}


@pytest.mark.parametrize(
    ("name", "error"),
    [
        *(("sin", 2e-7), ("cos", 2e-7), ("tan", 4e-7), ("asin", 3e-7), ("acos", 3e-7), ("atan", 3e-7)),
        *(("sinh", 5e-7), ("cosh", 5e-7), ("asinh", 5e-7), ("acosh", 5e-7), ("atanh", 5e-7)),
    ],
)
def test_angles_and_hyperbolic_functions_are_as_near_as_documented(name: str, error: float) -> None:
    x = np.concatenate([RANGES[name], [math.inf, -math.inf, math.nan]]).astype("float32")
    exact = getattr(np, {"a": "arc"}.get(name[0], name[0]) + name[1:])
    with np.errstate(all="ignore"):
        expected = exact(x.astype("float64"))
        inside = abs(expected) < np.finfo("float32").max
        expected[~inside] = expected[~inside].astype("float32")
    result = run(name, x)
    np.testing.assert_allclose(result, expected, rtol=error, atol=1e-44)
    np.testing.assert_array_equal(np.signbit(result[expected == 0]), np.signbit(expected[expected == 0]))


def test_the_largest_exponential_is_no_infinity() -> None:
    x = np.array([88.7, 88.73, 89.5], "float32")
    result = run("exp", x)
    np.testing.assert_allclose(result[0], np.exp(np.float64(x[0])), rtol=3e-7)
    assert np.isinf(result[1:]).all()


def test_exponentials_end_in_zeros() -> None:
    least = np.float32(-125.4 * math.log(2))
    x = np.concatenate([np.linspace(least, -80, 100), [-87.4, -87.5, -87.6, -1e3, -1e30, -np.inf]]).astype("float32")
    result = run("exp", x)
    np.testing.assert_allclose(result[:100], np.exp(x[:100].astype("float64")), rtol=1.3e-7)
    assert result[100:].tolist() == [0.0] * 6 and not np.signbit(result[100:]).any()


@pytest.mark.parametrize(
    ("name", "quotient", "error"), [("tanh", tanh_quotient, 5e-7), ("sigmoid", sigmoid_quotient, 2e-7)]
)
def test_quotients_are_near_what_they_stand_for_and_nan_stays(
    name: str, quotient: Callable[..., Any], error: float
) -> None:
    x = np.concatenate([np.linspace(-30, 30, 60_001), [-math.inf, math.inf, math.nan]]).astype("float32")
    data = te.placeholder(x.shape, "float32", name="x")
    result = evaluated([data, te.compute(x.shape, lambda i: quotient(data(i), operator.truediv))], x)
    np.testing.assert_allclose(result[:-1], EXACT[name](x[:-1].astype("float64")), rtol=0, atol=error)
    assert np.isnan(result[-1])


def test_other_data_types_are_left_to_the_library() -> None:
    x = te.placeholder((4,), "float64", name="x")
    kernel = te.create_prim_func([x, topi.exp(x)])
    assert tvm_ffi.structural_equal(with_vector_math(kernel), kernel)


def test_exponentials_up_to_one_are_as_exact_and_end_at_zero() -> None:
    x = np.concatenate([np.linspace(-87, 0, 80_001), np.linspace(-1e-3, 0, 1001), [-1e-30, -0.0]]).astype("float32")
    data = te.placeholder(x.shape, "float32", name="x")
    made = te.compute(x.shape, lambda i: exponential_up_to_one(data[i]))
    np.testing.assert_allclose(evaluated([data, made], x), np.exp(x.astype("float64")), rtol=1.2e-7, atol=1e-37)
    ends = np.resize(np.array([-math.inf, -1e30, -88, math.nan], "float32"), x.shape)
    np.testing.assert_array_equal(evaluated([data, made], ends)[:4], [0, 0, 0, math.nan])


def test_exponentials_up_to_one_of_functions_are_calls() -> None:
    data = te.placeholder((4,), "float32", name="x")
    inside = te.compute((4,), lambda i: exponential_up_to_one(tirx.Let(tirx.Var("v", "float32"), data[i], data[i])))
    assert "T.exp(" in with_vector_math(te.create_prim_func([data, inside])).script()


def run(name: str, x: np.ndarray) -> np.ndarray:
    data = te.placeholder(x.shape, "float32", name="x")
    return evaluated([data, getattr(topi, name)(data)], x)


def evaluated(tensors: list[te.Tensor], x: np.ndarray) -> np.ndarray:
    kernel = with_vector_math(te.create_prim_func(tensors))
    result = tvm.runtime.tensor(np.zeros_like(x))
    tvm.compile(tvm.IRModule({"main": kernel}), "llvm")["main"](tvm.runtime.tensor(x), result)
    return result.numpy()


def test_functions_of_functions_compile_soon_and_keep_their_values() -> None:
    x = relay.var("x", shape=(64,))
    chain = x
    for _ in range(6):
        chain = relay.tanh(relay.erf(relay.sigmoid(relay.exp(chain))))
    values = np.linspace(-3, 3, 64, dtype="float32")
    result = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], chain), target="native")).run(values).numpy()
    expected = values.astype("float64")
    for _ in range(6):
        expected = np.tanh(np.vectorize(math.erf)(1 / (1 + np.exp(-np.exp(expected)))))
    np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_a_limit_that_is_reached_is_exact(name: str) -> None:
    x = relay.var("x", shape=(4,))
    function = relay.Function([x], relay.op.build(name, x))
    result = vmkit.VirtualMachine(vmkit.compile(function, target="native")).run([-1000.0, -20.0, 20.0, np.inf])
    np.testing.assert_array_equal(result.numpy(), [-1, -1, 1, 1])


def test_remainders_are_exact_of_any_quotient() -> None:
    random, size = np.random.default_rng(0), 20_000
    ends = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 3.4e38, -3.4e38, 1e-45, -1e-45, 0.5, 5.5], "float32")
    anything, divisors = (random.integers(0, 2**32, size, dtype=np.uint32).view("float32") for _ in range(2))
    whole, factors = (random.integers(-(2**12), 2**12, size).astype("float32") for _ in range(2))
    subnormal = random.integers(1, 2**23, size, dtype=np.uint32).view("float32")
    x = np.concatenate([np.repeat(ends, len(ends)), anything, anything, whole * factors, whole])
    y = np.concatenate([np.tile(ends, len(ends)), divisors, subnormal, factors, np.float32(0.3) * factors])
    a, b = (relay.var(name, shape=(relay.Any(),)) for name in "ab")
    result = vmkit.VirtualMachine(vmkit.compile(relay.Function([a, b], relay.mod(a, b)), "native")).run(x, y).numpy()
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
    np.testing.assert_array_equal(result, expected)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[is_number]), np.signbit(expected[is_number]))


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_waves_compile_in_about_the_time_of_an_exponential(name: str) -> None:
    """TVM writes out what a name stands for: of choices by choices, that grew out of bounds."""
    x = relay.var("x", shape=(20,))

    def seconds(operator: str) -> float:
        start = time.process_time()
        vmkit.compile(relay.Function([x], relay.op.build(operator, x)), target="llvm")
        return time.process_time() - start

    seconds("abs")  # what is imported with the first
    assert seconds(name) < 12 * min(seconds("exp") for _ in range(3))
