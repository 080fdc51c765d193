"""Functions that become arithmetic for vectors are as exact as documented, also at the ends of their range."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.tophub.rules.functions import RELATIVE_ERROR

FUNCTIONS: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "tanh": math.tanh,
    "erf": math.erf,
}
SPREAD = np.logspace(-30, 2, 3001)
POINTS = np.concatenate([np.linspace(-87, 88, 40_001), np.linspace(-2, 2, 10_001), SPREAD[SPREAD < 88], -SPREAD])
POINTS = POINTS[POINTS > -87].astype("float32")


def results(points: np.ndarray) -> dict[str, np.ndarray]:
    x = relay.var("x", shape=points.shape)
    body = relay.Tuple([getattr(relay, name)(x) for name in FUNCTIONS])
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], body), target="llvm"), vmkit.device("cpu"))
    return {name: value.numpy() for name, value in zip(FUNCTIONS, machine.run(points), strict=True)}


def test_functions_are_exact_to_the_documented_error() -> None:
    for name, actual in results(POINTS).items():
        expected = np.array([FUNCTIONS[name](float(x)) for x in POINTS])
        np.testing.assert_allclose(actual, expected, rtol=RELATIVE_ERROR, atol=1e-38, err_msg=name)


def test_functions_go_to_their_limits() -> None:
    points = np.array([np.inf, -np.inf, np.nan, 0.0, 89.0, -104.5, -100.0], "float32")
    tiny = np.exp(np.float64(-100))
    expected = {
        "exp": [np.inf, 0, np.nan, 1, np.inf, 0, tiny],
        "sigmoid": [1, 0, np.nan, 0.5, 1, 0, 0],
        "tanh": [1, -1, np.nan, 0, 1, -1, -1],
        "erf": [1, -1, np.nan, 0, 1, -1, -1],
    }
    for name, actual in results(points).items():
        np.testing.assert_allclose(actual, np.array(expected[name], "float32"), rtol=1e-6, atol=2e-45, err_msg=name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_functions_are_compiled_in_little_time(name: str) -> None:
    x = relay.var("x", shape=(relay.Any(),))
    function = getattr(relay, name)
    machine = vmkit.VirtualMachine(
        vmkit.compile(relay.Function([x], function(function(function(x)))), target="llvm"), vmkit.device("cpu")
    )
    points = np.linspace(-1, 0.5, 17).astype("float32")
    expected = [FUNCTIONS[name](FUNCTIONS[name](FUNCTIONS[name](float(p)))) for p in points]
    np.testing.assert_allclose(machine.run(points).numpy(), expected, rtol=1e-5, atol=1e-7)
