"""Branches deep within each other become functions; what is computed stays the same."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

import vmkit
from vmkit import relay
from vmkit.relax.branches import DEPTH, branches_apart, branches_back, outline_branches
from vmkit.relay.lower import lower_module
from vmkit.relay.transform import infer_module

Any = relay.Any


def nested(depth: int, rows: object = 4) -> tvm.IRModule:
    """Return ``x[:k] + k`` for the first k of `depth` that is not below n, else ``tanh(x)``."""
    x, n = relay.var("x", shape=(rows,)), relay.var("n", shape=(), dtype="int32")
    value = relay.tanh(x)
    for k in range(depth):
        is_it = relay.less_equal(n, relay.const(np.int32(depth - 1 - k)))
        value = relay.If(is_it, relay.add(x, relay.const(np.float32(depth - 1 - k))), value)
    return tvm.IRModule({"main": relay.Function([x, n], value)})


def lowered(mod: tvm.IRModule) -> tvm.IRModule:
    return lower_module(infer_module(mod), tvm.target.Target("llvm")).module


def depth_of(sequence: relax.SeqExpr) -> int:
    found = 0
    for block in sequence.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, relax.If):
                arms = (binding.value.true_branch, binding.value.false_branch)
                found = max(found, 1 + max(depth_of(arm) for arm in arms))
    return found


def kernels(executable: vmkit.Executable) -> list[str]:
    """Return the names of the kernels, without the one that computes shapes."""
    return [name for name in executable.primitive_ops if name != "shape_func"]


@pytest.mark.parametrize("rows", [4, Any()])
def test_the_first_middle_and_last_of_many_branches_are_taken(rows: object) -> None:
    depth = 3 * DEPTH
    machine = vmkit.VirtualMachine(vmkit.compile(nested(depth, rows), "llvm"), "cpu")
    x = np.linspace(-1, 1, 4, dtype="float32")
    for n in (0, DEPTH - 1, DEPTH, depth // 2, depth - 1):
        np.testing.assert_array_equal(machine.run(x, np.int32(n)).numpy(), x + np.float32(n))
    np.testing.assert_allclose(machine.run(x, np.int32(depth)).numpy(), np.tanh(x), rtol=1e-6)


@pytest.mark.parametrize("rows", [4, Any()])
def test_functions_are_not_deeper_than_said(rows: object) -> None:
    made = outline_branches()(lowered(nested(3 * DEPTH, rows)))
    functions = [f for f in made.functions.values() if isinstance(f, relax.Function)]
    assert len(functions) == 3
    assert all(0 < depth_of(f.body) <= DEPTH for f in functions)


def test_a_few_branches_stay() -> None:
    mod = lowered(nested(DEPTH))
    assert outline_branches()(mod).same_as(mod)


def test_sizes_that_only_data_tells_are_known_in_the_function_and_after_it() -> None:
    x, n = relay.var("x", shape=(Any(),)), relay.var("n", shape=(), dtype="int32")
    found = relay.cast(relay.argwhere(x), "float32")
    value: relay.Expr = found
    for k in range(DEPTH + 4):
        is_it = relay.equal(n, relay.const(np.int32(k)))
        value = relay.If(is_it, relay.add(found, relay.const(np.float32(k))), value)
    made = vmkit.compile(tvm.IRModule({"main": relay.Function([x, n], relay.concatenate([value, found], 1))}), "llvm")
    machine = vmkit.VirtualMachine(made, "cpu")
    given = np.array([0, 2, 0, 3, 4], "float32")
    places = np.argwhere(given).astype("float32")
    for k in (0, 2, DEPTH + 1, DEPTH + 3, DEPTH + 4):
        added = places + (k if k < DEPTH + 4 else 0)
        np.testing.assert_array_equal(machine.run(given, np.int32(k)).numpy(), np.concatenate([added, places], 1))


def test_a_branch_that_goes_on_with_the_function_stays_a_loop() -> None:
    main = tvm.ir.GlobalVar("main")
    n, total = (relay.var(name, shape=(), dtype="int32") for name in ("n", "total"))
    value: relay.Expr = relay.Call(main, [relay.subtract(n, relay.const(np.int32(1))), relay.add(total, n)])
    for k in range(DEPTH + 2):
        value = relay.If(relay.equal(n, relay.const(np.int32(-k))), relay.add(total, relay.const(np.int32(k))), value)
    i32 = relay.scalar_type("int32")
    mod = tvm.IRModule({main: relay.Function([n, total], value, i32)})
    outlined = [f for v, f in outline_branches()(lowered(mod)).functions.items() if v.name_hint.startswith("main_")]
    assert all("main" not in [v.name_hint for v in relax.analysis.all_global_vars(f)] for f in outlined)
    machine = vmkit.VirtualMachine(vmkit.compile(mod, "llvm"), "cpu")
    assert machine.run(np.int32(20000), np.int32(0)).numpy() == sum(range(20001))


@pytest.mark.parametrize("rows", [4, Any()])
def test_the_operators_of_a_branch_become_one_kernel(rows: object) -> None:
    x, c = relay.var("x", shape=(rows, 3)), relay.var("c", shape=(), dtype="bool")
    one = relay.const(np.float32(1))
    value = relay.If(c, relay.tanh(relay.exp(relay.add(x, one))), relay.nn.relu(relay.subtract(x, one)))
    made = vmkit.compile(tvm.IRModule({"main": relay.Function([x, c], relay.negative(value))}), "llvm")
    assert kernels(made) == ["fused_add_exp_tanh", "fused_subtract_nn_relu", "negative"]
    machine, given = vmkit.VirtualMachine(made, "cpu"), np.linspace(-2, 3, 12, dtype="float32").reshape(4, 3)
    np.testing.assert_allclose(machine.run(given, True).numpy(), -np.tanh(np.exp(given + 1)), rtol=1e-3)
    np.testing.assert_allclose(machine.run(given, False).numpy(), -np.maximum(given - 1, 0), rtol=1e-3)


def test_the_operators_of_a_loop_become_one_kernel() -> None:
    loop = tvm.ir.GlobalVar("loop")
    k, x = relay.var("k", shape=(), dtype="int32"), relay.var("x", shape=(Any(),))
    less = relay.subtract(k, relay.const(np.int32(1)))
    step = relay.multiply(relay.tanh(relay.add(x, relay.const(np.float32(0.5)))), relay.const(np.float32(2)))
    body = relay.If(relay.equal(k, relay.const(np.int32(0))), x, relay.Call(loop, [less, step]))
    n, y = relay.var("n", shape=(), dtype="int32"), relay.var("y", shape=(Any(),))
    mod = tvm.IRModule({
        loop: relay.Function([k, x], body, relay.TensorType((Any(),))),
        "main": relay.Function([n, y], relay.Call(loop, [n, y])),
    })  # fmt: skip
    made = vmkit.compile(mod, "llvm")
    assert "fused_add_tanh_multiply" in kernels(made)
    expected = given = np.linspace(-2, 3, 5, dtype="float32")
    for _ in range(7):
        expected = 2 * np.tanh(expected + np.float32(0.5))
    np.testing.assert_allclose(vmkit.VirtualMachine(made, "cpu").run(np.int32(7), given).numpy(), expected, rtol=1e-3)


def test_branches_that_were_apart_come_back_with_their_sizes() -> None:
    """A branch in a branch: both read sizes that only data tells, the inner one a tensor of the outer one, too."""
    x, n = relay.var("x", shape=(Any(),)), relay.var("n", shape=(), dtype="int32")
    found = relay.cast(relay.argwhere(x), "float32")
    more = relay.exp(relay.negative(found))
    inner = relay.If(relay.equal(n, relay.const(np.int32(1))), relay.tanh(relay.add(more, found)), relay.abs(more))
    outer = relay.If(relay.less(n, relay.const(np.int32(2))), relay.multiply(inner, more), relay.sqrt(found))
    mod = lowered(tvm.IRModule({"main": relay.Function([x, n], outer)}))
    apart = branches_apart()(mod)
    assert len(apart.functions) > len(mod.functions)
    assert len(branches_back()(apart).functions) == len(mod.functions)
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": relay.Function([x, n], outer)}), "llvm"), "cpu")
    given = np.array([0, 2, 0, 3, 4], "float32")
    places = np.argwhere(given).astype("float32")
    for k, expected in (
        (0, np.exp(-places) ** 2),
        (1, np.tanh(np.exp(-places) + places) * np.exp(-places)),
        (2, np.sqrt(places)),
    ):
        np.testing.assert_allclose(machine.run(given, np.int32(k)).numpy(), expected, rtol=1e-3)
