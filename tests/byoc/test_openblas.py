"""Products of matrices by OpenBLAS."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import vmkit
from vmkit import byoc, relay

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("scipy_openblas32") is None, reason="OpenBLAS is not installed: pip install '.[openblas]'"
)
RNG = np.random.default_rng(0)


def data(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(dtype)


def test_products_of_any_stacks_and_of_transposed_factors() -> None:
    n = relay.Any()
    x, y, z = relay.var("x", shape=(n, 4)), relay.var("y", shape=(2, 5, 4)), relay.var("z", shape=(1, n, 4))
    w, stack = data(3, 4), data(2, 6, 5)
    dense = relay.nn.dense(x, relay.const(w))
    chain = relay.nn.dense(dense, relay.const(w.T.copy()))
    parts = [
        chain,
        relay.nn.dense(y, relay.const(w)),
        relay.nn.batch_matmul(y, z),
        relay.nn.batch_matmul(relay.const(stack), y, transpose_a=False, transpose_b=False),
        relay.nn.matmul(x, x, transpose_a=True),
    ]
    cut = byoc.partition(relay.Function([x, y, z], relay.Tuple(parts)), "openblas")
    assert cut.kept == [] and sum(map(len, cut.offloaded.values())) == 6
    machine = vmkit.VirtualMachine(vmkit.compile(cut.module, target="llvm"))
    for rows in (3, 1, 0):
        a, b, c = data(rows, 4), data(2, 5, 4), data(1, rows, 4)
        wanted = [a @ w.T @ w, b @ w.T, b @ c.transpose(0, 2, 1), stack @ b, a.T @ a]
        for got, want in zip(machine.run(a, b, c), wanted, strict=True):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)


def test_it_computes_in_float64_and_leaves_other_numbers() -> None:
    x, i = relay.var("x", shape=(2, 3), dtype="float64"), relay.var("i", shape=(2, 3), dtype="int32")
    body = relay.Tuple([relay.nn.dense(x, x), relay.nn.dense(i, i)])
    cut = byoc.partition(relay.Function([x, i], body), "openblas")
    assert [(k.operator, k.reason) for k in cut.kept] == [("nn.dense", "it takes float32 or float64 alone")]
    a = data(2, 3, dtype="float64")
    got = vmkit.VirtualMachine(vmkit.compile(cut.module, target="llvm")).run(a, np.ones((2, 3), "int32"))
    np.testing.assert_allclose(got[0].numpy(), a @ a.T, rtol=1e-12)
    np.testing.assert_array_equal(got[1].numpy(), [[3, 3], [3, 3]])
