"""Memory that a program asks for: what ManifestAlloc writes, and that it means what was there before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
import vmkit.compat.vm
from tests.relay.programs import as_numpy, assert_same, type_error
from tests.relay.transform.passes import module, operators
from vmkit import relay
from vmkit.errors import CompileError, ModelError, TypeCheckError
from vmkit.relay.ir import is_call, post_order
from vmkit.relay.op.memory import alloc_storage, alloc_tensor
from vmkit.relay.text.parser import read_module
from vmkit.relay.transform import FuseOps, ManifestAlloc, ToANormalForm, UnmanifestAlloc

HEADER = '#[version = "0.0.5"]\nextern type Storage { }\n'
ANY = relay.Any()
DATA = np.arange(8, dtype="float32").reshape(2, 4) - 3


def manifested(expr: Any, target: Any = "llvm") -> tvm.IRModule:
    """Return a module of an expression after what has to run before ManifestAlloc, and it."""
    return ManifestAlloc(target)(ToANormalForm()(FuseOps(1)(module(expr))))


def assert_means(expr: Any, *inputs: np.ndarray) -> list[str]:
    """Assert that a program computes the same after ManifestAlloc; return its operators."""
    after = manifested(expr)
    asked = operators(after["main"])
    want, got = (as_numpy(vmkit.VirtualMachine(vmkit.compile(m, "llvm")).run(*inputs)) for m in (module(expr), after))
    assert_same(got, want)
    return asked


def test_a_known_size_is_a_constant() -> None:
    got = manifested(relay.exp(relay.var("x", shape=(2, 3), dtype="float64")), "cuda")["main"]
    ty = relay.TensorType((2, 3), "float64")
    x, p, f, s, t, k, y = (relay.Var(name, ty if name in ("x", "p") else None) for name in "xpfstky")
    kernel = relay.Function([p], relay.exp(p), ty, [], {"Primitive": tvm.tirx.IntImm("int32", 1)})
    size, shape, alignment = relay.const(48, "int64"), relay.const(np.array([2, 3], "int64")), relay.const(64, "int64")
    values = (
        (f, kernel),
        (s, alloc_storage(size, shape, alignment, "cuda", "float64")),
        (t, alloc_tensor(s, relay.const(0, "int64"), shape, "float64", [2, 3])),
        (k, relay.op.vm.invoke_tvm_op(f, relay.Tuple([x]), relay.Tuple([t]))),
        (y, t),
    )
    body = y
    for variable, value in reversed(values):
        body = relay.Let(variable, value, body)
    relay.assert_structural_equal(got, module(relay.Function([x], body))["main"])


def test_an_unknown_size_is_computed_by_a_shape_function() -> None:
    x = relay.var("x", shape=(ANY, 4))
    asked = assert_means(relay.nn.relu(x + relay.exp(x)), DATA)
    assert asked.count("vm.shape_func") == asked.count("vm.invoke_tvm_op") == 1
    assert {"vm.shape_of", "prod", "memory.alloc_storage", "memory.alloc_tensor"} <= set(asked)


def test_a_shape_function_gets_values_where_the_shape_depends_on_them() -> None:
    x, n = relay.var("x", shape=(ANY, 4)), relay.var("n", shape=(2,), dtype="int64")
    after = manifested(relay.tanh(relay.broadcast_to(x, n + relay.const([0, 0], "int64"))))
    calls = [node for node in post_order(after["main"]) if is_call(node, "vm.shape_func")]
    # The broadcast takes x by its shape and n by its values; tanh takes its operand by its shape.
    assert sorted(list(call.attrs.is_input) for call in calls) == [[0], [0, 1]]
    assert_means(relay.tanh(relay.broadcast_to(x, n)), DATA[:1], np.array([3, 4], "int64"))


@pytest.mark.parametrize("rows", [2, ANY])
def test_what_only_reshapes_takes_no_memory(rows: Any) -> None:
    x = relay.var("x", shape=(rows, 4))
    asked = assert_means(relay.reshape(x, (-1, 2)), DATA)
    assert asked.count("vm.reshape_tensor") == 1 and "vm.invoke_tvm_op" not in asked


def test_tuples_and_branches() -> None:
    x = relay.var("x", shape=(ANY, 4))
    parts = relay.split(relay.nn.softmax(x), 2, 1)
    flag = relay.sum(x) > relay.const(0.0)
    assert_means(relay.Tuple([parts[1], relay.If(flag, relay.exp(parts[0]), parts[0] * parts[1])]), DATA)


def test_memory_lies_where_the_value_is() -> None:
    x, y, p = relay.var("x", shape=(4,)), relay.Var("y"), relay.var("p", shape=(4,))
    kernel = relay.Function([p], relay.exp(p), None, [], {"Primitive": tvm.tirx.IntImm("int32", 1)})
    held = relay.annotation.on_device(relay.Call(kernel, [x]), "cpu:1", constrain_result=True)
    after = ManifestAlloc("cuda")(module(relay.Let(y, held, y)))
    places = [str(n.attrs.virtual_device) for n in post_order(after["main"]) if is_call(n, "memory.alloc_storage")]
    assert places == ["cpu:1"]


def test_equal_memory_is_not_shared() -> None:
    x = relay.var("x", shape=(2, 4))
    after = manifested(relay.Tuple([relay.nn.softmax(x), relay.nn.log_softmax(x)]))
    merged = relay.transform.EliminateCommonSubexpr()(after)
    assert operators(merged["main"]).count("memory.alloc_tensor") == 2
    assert "memory.alloc_tensor" not in operators(UnmanifestAlloc()(merged)["main"])


def test_another_form_is_refused() -> None:
    fused = FuseOps(1)(module(relay.exp(relay.var("x", shape=(4,)))))
    with pytest.raises(ModelError, match="called inside an expression: bring it to A-normal form first"):
        ManifestAlloc("llvm")(fused)


def test_memory_that_no_kernel_fills_is_refused_by_the_operators_name() -> None:
    text = "def @main(%s: Storage[]) { memory.alloc_tensor(%s, 0i64, meta[relay.Constant][0], assert_shape=[2]) }"
    mod = read_module(HEADER + text, init_meta_table={"relay.Constant": [relay.const(np.array([2], "int64"))]})
    with pytest.raises(CompileError, match=r"memory\.alloc_tensor is compiled where vm\.invoke_tvm_op, bound"):
        vmkit.compile(mod, "llvm")


def test_types_of_what_asks_for_memory() -> None:
    size, shape = relay.var("n", shape=(), dtype="int64"), relay.const(np.array([2, 3], "int64"))
    zero = relay.const(0, "int64")
    assert relay.transform.infer_expr(alloc_storage(size, shape, zero, "cuda", "int8")).func.name_hint == "Storage"
    found = relay.transform.infer_expr(alloc_tensor(alloc_storage(size, shape, zero, "cpu"), zero, shape, "int8"))
    assert (list(found.shape), found.dtype) == ([2, 3], "int8")
    assert type_error([size], alloc_storage(shape, shape, zero, "cpu")).startswith("size must be a scalar of integers")
    assert type_error([size], alloc_tensor(size, zero, shape)).startswith(
        "storage must be of type Storage[], not int64"
    )
    with pytest.raises(TypeCheckError, match="needs assert_shape where the shape is no constant"):
        alloc_tensor(size, zero, size)
    assert (
        type_error([size], relay.op.vm.invoke_tvm_op(size, relay.Tuple([]), relay.Tuple([])))
        == "func must be a function, not int64"
    )


def test_the_compiler_of_relays_names_hands_out_what_relays_machine_got() -> None:
    x = relay.var("x", shape=(ANY, 4))
    mod = module(relay.tanh(relay.nn.softmax(x)))
    compiler = vmkit.compat.vm.VMCompiler()
    optimized, left = compiler.optimize(mod, "llvm")
    text = relay.astext(optimized, False)
    assert left == {}
    assert all(name in text for name in ("shape_func", "alloc_storage", "alloc_tensor", "invoke_tvm_op", "memory.kill"))
    results = [vmkit.VirtualMachine(vmkit.compile(m, "llvm")).run(DATA).numpy() for m in (mod, optimized)]
    assert_same(results[1], results[0])
    plain = vmkit.compile(mod, "llvm")
    assert len(vmkit.compile(optimized, "llvm").primitive_ops) == len(plain.primitive_ops)
