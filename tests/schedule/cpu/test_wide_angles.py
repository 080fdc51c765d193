"""Sines and cosines of float64 are as near as the C library's, of angles of any size, also where sizes are unknown."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.kernels.vector_math.doubles import LARGEST_ANGLE

EXACT = {"sin": np.sin, "cos": np.cos}
ULPS = 2


def run(name: str, x: np.ndarray, *shape: Any) -> np.ndarray:
    variable = relay.var("x", shape=shape or x.shape, dtype="float64")
    program = vmkit.compile(relay.Function([variable], relay.op.build(name, variable)), "native")
    return vmkit.VirtualMachine(program, "cpu").run(x).numpy()


def assert_near(name: str, actual: np.ndarray, x: np.ndarray) -> None:
    expected = EXACT[name](x)
    np.testing.assert_array_less(np.abs(actual - expected), (ULPS + 0.5) * np.spacing(np.abs(expected)))


def angles(largest: float, count: int) -> np.ndarray:
    random = np.random.default_rng(0)
    near = np.round(random.uniform(-largest, largest, count) / (math.pi / 2)) * (math.pi / 2)
    sizes = largest ** random.uniform(-3, 1, count) * random.choice([-1, 1], count)
    whole = np.concatenate([random.uniform(-largest, largest, count), near, np.nextafter(near, 9e9), sizes])
    return whole[np.abs(whole) <= largest]


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("largest", [4.0, 1000.0, LARGEST_ANGLE])
def test_angles_that_vectors_take(name: str, largest: float) -> None:
    x = angles(largest, 100_000)
    assert_near(name, run(name, x, relay.Any()), x)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_large_angles_are_as_exact_wherever_they_are(name: str) -> None:
    x = angles(10.0, 250)
    x[[0, 255, 256, 700, -1]] = [
        1e300,
        6381956970095103.0 * 2.0**797,
        1e22,
        -(2.0**40),
        np.nextafter(LARGEST_ANGLE, 2e6),
    ]
    assert_near(name, run(name, x), x)
    assert_near(name, run(name, x, relay.Any()), x)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_what_is_no_angle_and_zeros(name: str) -> None:
    x = np.array([math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -1e-310, 1e-9])
    for given in (x, x[:1], x[3:], np.array([math.nan] * 40)):
        with np.errstate(invalid="ignore"):
            expected = EXACT[name](given)
        actual = run(name, given)
        np.testing.assert_array_equal(actual, expected)
        np.testing.assert_array_equal(np.signbit(actual[-2:]), np.signbit(expected[-2:]))


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (257,), (3, 5), (2, 3, 300), (70, 513), (33, 0, 4), ()])
def test_sizes(name: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).uniform(-9, 9, shape)
    x.flat[:1] = 1e10
    assert_near(name, run(name, x), x)
    assert_near(name, run(name, x, *[relay.Any() for _ in shape]), x)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_cores_look_at_angles_of_their_own(name: str) -> None:
    variable = relay.var("x", shape=(relay.Any(),), dtype="float64")
    program = vmkit.compile(relay.Function([variable], relay.op.build(name, variable)), "native")
    machine = vmkit.VirtualMachine(program, "cpu", num_threads=2)
    x = np.random.default_rng(3).uniform(-9, 9, 100_000)
    x[::700] = 1e12
    for _ in range(20):
        assert_near(name, machine.run(x).numpy(), x)


def test_angles_that_are_computed_and_several_in_one_kernel() -> None:
    x = relay.var("x", shape=(relay.Any(), 130), dtype="float64")
    two = relay.const(2.0, "float64")
    body = relay.sin(relay.cos(x)) + relay.sin(x * two) * relay.cos(x + two) + relay.sin(relay.exp(x))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], body), "native"), "cpu")
    for most in (3.0, 15.0):  # the exponential of which is a large angle
        given = np.random.default_rng(2).uniform(-1, most, (4, 130))
        expected = np.sin(np.cos(given)) + np.sin(given * 2) * np.cos(given + 2) + np.sin(np.exp(given))
        np.testing.assert_allclose(machine.run(given).numpy(), expected, rtol=0, atol=1e-9)
