"""What is computed between casts from and to bfloat16 is float32, rounded once, whatever names kernels have in it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from ml_dtypes import bfloat16

import vmkit
from vmkit import relay

VALUES = (np.abs(np.random.default_rng(0).normal(size=(3, 4, 200))) + 0.1).astype(bfloat16)
CURVES: dict[str, tuple[Callable[..., relay.Expr], Callable[[np.ndarray], np.ndarray]]] = {
    "exp": (relay.exp, np.exp),
    "log": (relay.log, np.log),
    "tanh": (relay.tanh, np.tanh),
    "sigmoid": (relay.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "softmax": (relay.nn.softmax, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "log_softmax": (relay.nn.log_softmax, lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
}


def compiled(result: Callable[[relay.Expr], relay.Expr], target: str) -> np.ndarray:
    """Return what a program of one input with a free axis computes of the values."""
    x = relay.var("x", shape=(relay.Any(), 4, 200), dtype="bfloat16")
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], result(x)), target), "cpu")
    made = machine.run(VALUES).numpy()
    assert made.dtype == bfloat16
    return made.astype("float32")


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["native", "llvm"])
@pytest.mark.parametrize("name", sorted(CURVES))
def test_curves_between_casts(name: str, target: str) -> None:
    curve, expected = CURVES[name]
    made = compiled(lambda x: relay.cast(curve(relay.cast(x, "float32")), "bfloat16"), target)
    np.testing.assert_allclose(made, expected(VALUES.astype("float32")), rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize("name", sorted(CURVES))
def test_curves_of_sums_and_in_products(name: str) -> None:
    curve, expected = CURVES[name]

    def steps(x: relay.Expr) -> relay.Expr:
        value = relay.cast(relay.add(x, x), "float32")  # which bfloat16 holds
        return relay.multiply(relay.cast(curve(value), "bfloat16"), x)

    wide = VALUES.astype("float32")
    np.testing.assert_allclose(compiled(steps, "native"), expected(wide + wide) * wide, rtol=2**-6, atol=1e-6)


@pytest.mark.parametrize("level", [0, 1, 3])
def test_curves_at_other_levels(level: int) -> None:
    with vmkit.PassContext(opt_level=level):
        made = compiled(lambda x: relay.cast(relay.exp(relay.cast(x, "float32")), "bfloat16"), "native")
    np.testing.assert_allclose(made, np.exp(VALUES.astype("float32")), rtol=2**-8)
