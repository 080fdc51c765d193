"""Powers and remainders in vectors are those of the C library, of every kind of number."""

from __future__ import annotations

import time

import numpy as np
import pytest
import tvm
from tvm import te, tirx

import vmkit
from tests.schedule.cpu.kernels import called
from vmkit import relay
from vmkit.relay.op import build
from vmkit.schedule.cpu import schedule_kernels

ENDS = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 2.5, -2.5, 1e3, -1e3, 1.001, 0.999, 6e4, -6e4]


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of numbers at the ends, ordinary ones, and any bits."""
    random, size = np.random.default_rng(0), 40_000
    ends = np.array([*ENDS, *np.finfo(dtype).tiny * np.array([1, -1, 2**-6]), np.finfo(dtype).max], dtype)
    bits = f"uint{8 * ends.itemsize}"
    x, y = (random.integers(0, np.iinfo(bits).max, size, dtype=bits).view(dtype) for _ in range(2))
    bases, exponents = random.uniform(0.01, 20, size).astype(dtype), random.uniform(-3, 3, size).astype(dtype)
    whole = random.integers(-5, 6, size).astype(dtype)
    first = [np.repeat(ends, len(ends)), x, np.abs(x), bases, -bases, 1 + bases / 1000]
    second = [np.tile(ends, len(ends)), y, y, exponents, whole, 100 * exponents]
    return np.concatenate(first), np.concatenate(second)


def made(name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    a, b = (relay.var(each, shape=(relay.Any(),), dtype=str(x.dtype)) for each in "ab")
    program = vmkit.compile(relay.Function([a, b], build(name, a, b)), "native")
    return vmkit.VirtualMachine(program, "cpu").run(x, y).numpy()


@pytest.mark.parametrize(("dtype", "error", "smallest"), [("float32", 1.2e-7, 1.5e-45), ("float16", 1e-3, 6e-8)])
def test_powers_are_as_exact_as_their_type(dtype: str, error: float, smallest: float) -> None:
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        expected = np.power(x.astype("float64"), y.astype("float64")).astype(dtype)
    result = made("power", x, y)
    np.testing.assert_allclose(result, expected, rtol=error, atol=smallest)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[is_number]), np.signbit(expected[is_number]))


def test_remainders_of_halves_are_exact() -> None:
    x, y = pairs("float16")
    with np.errstate(all="ignore"):
        expected = np.fmod(x.astype("float32"), y.astype("float32")).astype("float16")
    result = made("mod", x, y)
    np.testing.assert_array_equal(result, expected)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[is_number]), np.signbit(expected[is_number]))


def test_a_power_that_only_one_case_computes_is_right() -> None:
    x, y = relay.var("x", shape=(3, 40)), relay.var("y", shape=(40,))
    padded = relay.nn.pad(relay.power(relay.abs(x), y), ((0, 0), (1, 2)), 7.0)
    random = np.random.default_rng(0)
    one, other = random.uniform(-4, 4, (3, 40)).astype("float32"), random.uniform(-3, 3, 40).astype("float32")
    result = vmkit.VirtualMachine(vmkit.compile(relay.Function([x, y], padded), "native"), "cpu").run(one, other)
    expected = np.pad(np.abs(one) ** other, ((0, 0), (1, 2)), constant_values=7)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


def test_a_power_of_what_has_names_is_the_library_s() -> None:
    x, name = te.placeholder((40,), name="x"), tirx.Var("v", "float32")
    named = te.compute((40,), lambda i: tirx.power(tirx.Let(name, x(i), name * name), tirx.const(1.5)))
    made = schedule_kernels(tvm.IRModule({"main": te.create_prim_func([x, named])}), tvm.target.Target("llvm"))["main"]
    values = np.random.default_rng(0).uniform(-4, 4, 40).astype("float32")
    np.testing.assert_allclose(called(made, [values], (40,)), np.abs(values.astype("float64")) ** 3, rtol=1e-6)


def test_a_power_of_one_number_is_rounded_as_those_of_vectors_are() -> None:
    x = relay.var("x", shape=(2, 3))
    norm = relay.power(relay.sum(x * x), relay.const(0.5))
    data = np.random.default_rng(0).standard_normal((2, 3)).astype("float32")
    result = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], norm), "native"), "cpu").run(data)
    np.testing.assert_allclose(result.numpy(), np.sqrt((data * data).sum()), rtol=1e-6)


@pytest.mark.parametrize("name", ["power", "mod"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_they_compile_in_about_the_time_of_a_hyperbolic_sine(name: str, dtype: str) -> None:
    """TVM writes out what a name stands for: of choices by choices, that grew out of bounds."""

    def seconds(operator: str, dtype: str, count: int) -> float:
        given = [relay.var(each, shape=(relay.Any(),), dtype=dtype) for each in "ab"[:count]]
        start = time.process_time()
        vmkit.compile(relay.Function(given, build(operator, *given)), "native")
        return time.process_time() - start

    seconds("abs", dtype, 1)  # what is imported with the first
    assert seconds(name, dtype, 2) < 5 * seconds("sinh", "float32", 1)
