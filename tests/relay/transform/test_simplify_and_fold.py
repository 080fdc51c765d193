"""What is known when compiling is computed when compiling."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.relay.ir import post_order
from vmkit.relay.transform import FoldConstant, InferType, SimplifyInference


def operators(mod: tvm.IRModule) -> list[str]:
    nodes = post_order(mod["main"])
    return [n.op.name for n in nodes if isinstance(n, relay.Call) and hasattr(n.op, "name")]


def normalized(**attrs: object) -> tuple[tvm.IRModule, list[np.ndarray]]:
    rng = np.random.default_rng(0)
    vectors = [rng.uniform(0.5, 2, 3).astype("float32") for _ in range(4)]
    x = relay.var("x", shape=(relay.Any(), 3, 2, 2))
    result = relay.nn.batch_norm(x, *map(relay.const, vectors), **attrs)
    return InferType()(tvm.IRModule({"main": relay.Function([x], relay.TupleGetItem(result, 0))})), vectors


@pytest.mark.parametrize("attrs", [{}, {"scale": False}, {"center": False}, {"epsilon": 0.1}])
def test_batch_norm_becomes_one_product_and_one_sum(attrs: dict) -> None:
    mod, (gamma, beta, mean, var) = normalized(**attrs)
    folded = FoldConstant()(SimplifyInference()(mod))
    assert operators(folded) == ["multiply", "add"]
    x = np.random.default_rng(1).standard_normal((2, 3, 2, 2)).astype("float32")
    result = vmkit.VirtualMachine(vmkit.compile(mod, target="llvm")).run(x).numpy()
    column = [v.reshape(3, 1, 1) for v in (gamma, beta, mean, var)]
    expected = (x - column[2]) / np.sqrt(column[3] + attrs.get("epsilon", 1e-5))
    expected = expected * (column[0] if attrs.get("scale", True) else 1) + (
        column[1] if attrs.get("center", True) else 0
    )
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_dropout_is_nothing() -> None:
    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule({"main": relay.Function([x], relay.exp(relay.nn.dropout(x)))})
    assert operators(SimplifyInference()(InferType()(mod))) == ["exp"]


def test_only_the_largest_constant_parts_are_computed() -> None:
    x = relay.var("x", shape=(2,))
    part = relay.exp(relay.const(np.ones(2, "float32")))
    mod = tvm.IRModule({"main": relay.Function([x], relay.Tuple([x + relay.tanh(part), x * part]))})
    folded = FoldConstant()(mod)
    assert sorted(operators(folded)) == ["add", "multiply"]
    values = [n.data.numpy()[0] for n in post_order(folded["main"]) if isinstance(n, relay.Constant)]
    np.testing.assert_allclose(sorted(values), sorted([np.tanh(np.e), np.e]), rtol=1e-6)


def test_a_constant_that_would_grow_a_lot_is_left() -> None:
    big = relay.broadcast_to(relay.const(1.0), (1024, 1024))
    x = relay.var("x", shape=(1024, 1024))
    assert operators(FoldConstant()(tvm.IRModule({"main": relay.Function([x], x + big)}))) == ["broadcast_to", "add"]


def test_a_program_without_constant_parts_is_left_as_it_is() -> None:
    x = relay.var("x", shape=(2,))
    mod = InferType()(tvm.IRModule({"main": relay.Function([x], relay.exp(x))}))
    assert FoldConstant()(mod)["main"].same_as(mod["main"])
