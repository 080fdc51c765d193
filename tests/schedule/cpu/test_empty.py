"""Kernels that are known to have nothing to do compile, whatever the sizes beside the one that is 0."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.relay.ir import Expr

# By name: the shape of x, what is computed of it, and what numpy makes of it.
CASES: dict[str, tuple[tuple[int, ...], Callable[[Expr], Expr], Callable[[np.ndarray], np.ndarray]]] = {
    "elements": ((1, 0, 224, 224), lambda x: relay.exp(x) + relay.const(1.0), lambda x: np.exp(x) + 1),
    "transposed": ((0, 1000, 1000), relay.transpose, np.transpose),
    "sums without elements": ((1000, 1000, 0), lambda x: relay.sum(x, axis=0), lambda x: x.sum(0)),
    "sums of nothing": ((0, 1000, 1000), lambda x: relay.sum(x, axis=0), lambda x: x.sum(0)),
    "rows": ((1, 0, 224, 224), relay.nn.softmax, lambda x: x),
    "joined": ((1, 0, 224, 224), lambda x: relay.concatenate([x, x], 3), lambda x: np.concatenate([x, x], 3)),
    "products of nothing": ((500, 0), lambda x: relay.nn.dense(x, x), lambda x: x @ x.T),
    "blocks of too few channels": (
        (1, 3, 224, 224),
        lambda x: relay.nn.depth_to_space(x, 4),
        lambda x: np.zeros((1, 0, 896, 896), "float32"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_computed(name: str) -> None:
    shape, make, reference = CASES[name]
    x, array = relay.var("x", shape=shape), np.ones(shape, "float32")
    executable = vmkit.compile(tvm.IRModule({"main": relay.Function([x], make(x))}), "llvm -num-cores=4")
    found, expected = vmkit.VirtualMachine(executable, "cpu").run(array).numpy(), reference(array)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)
