"""Reshapes of matrices move below elementwise operators, and no further than their rows stay rows."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import tirx

import vmkit
from vmkit import optimize, relay
from vmkit.relay import nn, transform
from vmkit.relay.ir import Call, Expr, Op, post_order
from vmkit.relay.op import build

b, t = (tirx.Var(name, "int64") for name in "bt")
X = relay.var("x", shape=(b, t, 8))
WEIGHT = relay.const(np.random.default_rng(0).standard_normal((16, 8)).astype("float32"))
BACK = relay.const(np.random.default_rng(1).standard_normal((8, 16)).astype("float32"))
VECTOR = relay.const(np.linspace(-1, 1, 16).astype("float32"))


def product(x: Expr, weight: Expr, inner: int, units: int) -> Expr:
    """Return a product as the importer makes it: rows as one matrix, and back."""
    rows = nn.dense(relay.reshape(x, [b * t, inner], allowzero=True), weight)
    return relay.reshape(rows, [b, t, units], allowzero=True)


def block(x: Expr) -> Expr:
    h = relay.add(product(x, WEIGHT, 8, 16), VECTOR)
    h = relay.multiply(h, relay.sigmoid(h))
    return relay.add(product(h, BACK, 16, 8), x)


FLAT = {
    "bias": (relay.add(product(X, WEIGHT, 8, 16), VECTOR), ["reshape", "nn.dense", "add", "reshape"]),
    "activation and residual": (
        block(X),
        ["reshape", "nn.dense", "add", "sigmoid", "multiply", "nn.dense", "reshape", "add", "reshape"],
    ),
    "layer normalisation": (
        nn.layer_norm(product(X, WEIGHT, 8, 16), VECTOR, VECTOR),
        ["reshape", "nn.dense", "nn.layer_norm", "reshape"],
    ),
}
ZERO = relay.const(np.uint8(131))
FLAT["quantisation"] = (
    build("contrib_quantized", relay.add(product(X, WEIGHT, 8, 16), VECTOR), ZERO, "uint8"),
    ["reshape", "nn.dense", "add", "contrib_quantized", "reshape"],
)
FLAT["quantisation of what stays float32"] = (
    build("contrib_rounded", product(X, WEIGHT, 8, 16), ZERO, "uint8"),
    ["reshape", "nn.dense", "contrib_rounded", "reshape"],
)
KEPT = {
    "another axis": nn.layer_norm(product(X, WEIGHT, 8, 16), relay.var("g"), relay.var("c"), axis=1),
    "a value for each position": relay.add(product(X, WEIGHT, 8, 16), relay.var("p", shape=(t, 1))),
    "a sum over positions": relay.sum(product(X, WEIGHT, 8, 16), axis=[1]),
}


@pytest.mark.parametrize("name", FLAT)
def test_rows_stay_flat_and_keep_their_values(name: str) -> None:
    body, names = FLAT[name]
    mod = tvm.IRModule({"main": relay.Function([X], body)})
    assert sorted(operators(flattened(mod)["main"])) == sorted(names)
    with tvm.transform.PassContext(opt_level=0):
        plain = vmkit.VirtualMachine(vmkit.compile(mod), "cpu")
    machine = vmkit.VirtualMachine(vmkit.compile(mod), "cpu")
    for shape in ((1, 1, 8), (3, 5, 8), (0, 2, 8)):
        x = np.random.default_rng(2).standard_normal(shape).astype("float32")
        np.testing.assert_allclose(machine.run(x).numpy(), plain.run(x).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", KEPT)
def test_what_looks_beyond_a_row_keeps_the_shape(name: str) -> None:
    body = KEPT[name]
    free = [v for v in relay.analysis.free_vars(body)]
    mod = transform.InferType()(tvm.IRModule({"main": relay.Function(free, body)}))
    assert operators(flattened(mod)["main"]) == operators(mod["main"])


def flattened(mod: tvm.IRModule) -> tvm.IRModule:
    return optimize.FlattenRows()(transform.InferType()(mod))


def operators(function: relay.Function) -> list[str]:
    return [e.op.name for e in post_order(function) if isinstance(e, Call) and isinstance(e.op, Op)]
