"""Kernels that run one after another are one call of the VM; what they compute and how they fail stays the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.script import tirx as T

import vmkit
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay.op.registry import entry

n = tirx.Var("n", "int64")
RNG = np.random.default_rng(0)


def lines(executable: vmkit.Executable, start: str) -> list[str]:
    """Return the instructions of a kind, without their numbers and the registers that they write."""
    texts = [line.split(": ", 1)[-1].split(" = ", 1)[-1] for line in executable.bytecode.splitlines()]
    return [text for text in texts if text.startswith(start)]


def layers(x: relay.Expr, count: int, width: int = 8) -> tuple[relay.Expr, Callable[[np.ndarray], np.ndarray]]:
    """Return dense layers that cannot be one kernel, and numpy's form of them."""
    weights = [RNG.standard_normal((width, width)).astype("float32") / width for _ in range(count)]
    for weight in weights:
        x = relay.nn.softmax(relay.nn.dense(x, relay.const(weight)))

    def expected(value: np.ndarray) -> np.ndarray:
        for weight in weights:
            powers = np.exp(value @ weight.T)
            value = powers / powers.sum(-1, keepdims=True)
        return value

    return x, expected


@pytest.mark.parametrize("rows", [n, 3])
def test_kernels_one_after_another_are_one_call(rows: Any) -> None:
    x = relay.var("x", shape=(rows, 8))
    y, expected = layers(x, 4)
    executable = vmkit.compile(relay.Function([x], y), target="native")
    assert len(lines(executable, "invoke_packed kernel_group")) == 1
    assert len(lines(executable, "alloc_storage")) == 1  # the result's
    heap_and_workspace = ["alloc_shape_heap"] * (1 if rows == 3 else 2)
    assert [line.partition("(")[0] for line in lines(executable, "alloc_shape_heap")] == heap_and_workspace
    machine = vmkit.VirtualMachine(executable)
    for size in (3,) if rows == 3 else (1, 0, 5, 300):
        value = RNG.standard_normal((size, 8)).astype("float32")
        np.testing.assert_allclose(machine.run(value).numpy(), expected(value), rtol=1e-4, atol=1e-6)


def test_what_is_returned_from_within_a_group_is_no_part_of_its_workspace() -> None:
    x = relay.var("x", shape=(n, 8))
    first, expected_first = layers(x, 2)
    second, expected_second = layers(first, 3)
    third, expected_third = layers(second, 2)
    results = [relay.reshape(first, (-1, 2, 4)), third, second]
    executable = vmkit.compile(relay.Function([x], relay.Tuple(results)), target="llvm")
    assert len(lines(executable, "invoke_packed kernel_group")) == 1
    machine = vmkit.VirtualMachine(executable)
    values = [RNG.standard_normal((size, 8)).astype("float32") for size in (4, 7)]
    kept = [machine.run(value) for value in values]
    for value, (one, three, two) in zip(values, kept, strict=True):
        a = expected_first(value)
        b = expected_second(a)
        np.testing.assert_allclose(one.numpy(), a.reshape(-1, 2, 4), rtol=1e-4)
        np.testing.assert_allclose(two.numpy(), b, rtol=1e-4)
        np.testing.assert_allclose(three.numpy(), expected_third(b), rtol=1e-4)


def test_a_kernel_may_be_called_alone_and_in_a_group() -> None:
    x, condition = relay.var("x", shape=(n, 8)), relay.var("condition", shape=(), dtype="bool")
    sums = relay.cumsum(x, axis=1)
    branches = [relay.cumsum(x, axis=1), relay.nn.softmax(relay.cumsum(relay.nn.softmax(sums), axis=1))]
    function = relay.Function([condition, x], relay.If(condition, *branches))
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), target="llvm"))
    value = RNG.random((5, 8), "float32")

    def softmax(a: np.ndarray) -> np.ndarray:
        return np.exp(a) / np.exp(a).sum(-1, keepdims=True)

    np.testing.assert_allclose(machine.run(np.array(True), value).numpy(), np.cumsum(value, 1), rtol=1e-5)
    expected = softmax(np.cumsum(softmax(np.cumsum(value, 1)), 1))
    np.testing.assert_allclose(machine.run(np.array(False), value).numpy(), expected, rtol=1e-4)


def test_each_call_of_a_recursive_function_has_a_workspace_of_its_own() -> None:
    mod = tvm.IRModule()
    deep = relay.GlobalVar("deep")
    x, count = relay.var("x", shape=(relay.Any(), 8)), relay.var("count", shape=(), dtype="int64")
    before, expected_before = layers(x, 2)
    inner = deep(before, relay.subtract(count, relay.const(1, "int64")))
    after, expected_after = layers(relay.add(inner, before), 2)
    stops = relay.equal(count, relay.const(0, "int64"))
    mod[deep] = relay.Function([x, count], relay.If(stops, x, after), relay.TensorType((relay.Any(), 8)))
    y, times = relay.var("y", shape=(relay.Any(), 8)), relay.var("times", shape=(), dtype="int64")
    mod["main"] = relay.Function([y, times], deep(y, times))
    machine = vmkit.VirtualMachine(vmkit.compile(mod, target="llvm"))
    value = RNG.standard_normal((3, 8)).astype("float32")

    def expected(a: np.ndarray, times: int) -> np.ndarray:
        if times == 0:
            return a
        b = expected_before(a)
        return expected_after(expected(b, times - 1) + b)

    result = machine.run(value, np.array(4, "int64")).numpy()
    np.testing.assert_allclose(result, expected(value, 4), rtol=1e-4)


def test_many_kernels_are_several_groups_in_one_workspace() -> None:
    x = relay.var("x", shape=(n, 8))
    y, expected = layers(x, 150)
    executable = vmkit.compile(relay.Function([x], y), target="llvm")
    assert len(lines(executable, "invoke_packed kernel_group")) == 3
    assert len([line for line in lines(executable, "alloc_shape_heap") if "%" in line]) == 1
    value = RNG.standard_normal((3, 8)).astype("float32")
    np.testing.assert_allclose(vmkit.VirtualMachine(executable).run(value).numpy(), expected(value), rtol=1e-4)


@pytest.mark.parametrize("rows", [n, 3])
def test_groups_of_the_same_kernels_in_the_same_places_are_one_function(rows: Any) -> None:
    inputs, results, expected = [], [], []
    for at in range(3):
        x, condition = relay.var(f"x{at}", shape=(rows, 8)), relay.var(f"is{at}", shape=(), dtype="bool")
        y, numpys = layers(x, 3)
        inputs += [x, condition]
        results.append(relay.If(condition, y, x))
        expected.append(numpys)
    executable = vmkit.compile(relay.Function(inputs, relay.Tuple(results)), target="llvm")
    calls = lines(executable, "invoke_packed kernel_group")
    assert len(calls) == 3 and len({call.split("(")[0] for call in calls}) == 1
    assert len(executable.info.kernel_groups or {}) == 1
    values = [RNG.standard_normal((3, 8)).astype("float32") for _ in results]
    given = [each for at, value in enumerate(values) for each in (value, np.array(at != 1))]
    made = vmkit.VirtualMachine(executable).run(*given)
    for at, (value, numpys, result) in enumerate(zip(values, expected, made, strict=True)):
        np.testing.assert_allclose(result.numpy(), numpys(value) if at != 1 else value, rtol=1e-4, atol=1e-6)


def test_a_workspace_is_of_sizes_that_are_known_where_it_is_made() -> None:
    x = relay.var("x", shape=(n, 8))
    y, expected = layers(x, 2)
    places = relay.cast(relay.argwhere(relay.greater(y, relay.const(0.125))), "float32")
    z, expected_z = layers(places, 3, 2)
    executable = vmkit.compile(relay.Function([x], z), target="llvm")
    assert len(lines(executable, "invoke_packed kernel_group")) == 2
    machine = vmkit.VirtualMachine(executable)
    for size in (2, 30):
        value = RNG.standard_normal((size, 8)).astype("float32")
        wanted = expected_z(np.argwhere(expected(value) > 0.125).astype("float32"))
        np.testing.assert_allclose(machine.run(value).numpy(), wanted, rtol=1e-4)


def test_a_listing_tells_the_kernels_of_a_group_also_after_loading(tmp_path: Path) -> None:
    x = relay.var("x", shape=(n, 8))
    executable = vmkit.compile(relay.Function([x], layers(x, 2)[0]), target="llvm")
    executable.export(tmp_path / "model.vmx")
    for each in (executable, vmkit.load(tmp_path / "model.vmx")):
        kernels = [name for name in each.primitive_ops if name != "shape_func"]
        grouped = each.info["kernel_groups"]["kernel_group"]
        assert kernels == grouped[: len(kernels)]
        assert "nn_softmax" in kernels
        assert f"Kernel group kernel_group: {', '.join(grouped)}" in each.bytecode
        assert "nn_softmax" in each.primitives


def test_with_the_pass_disabled_an_instrument_sees_each_kernel() -> None:
    x = relay.var("x", shape=(n, 8))
    y, expected = layers(x, 2)
    with vmkit.PassContext(disabled_pass=["GroupKernels"]):
        executable = vmkit.compile(relay.Function([x], y), target="llvm")
    machine, seen = vmkit.VirtualMachine(executable), []

    def note(_function: Any, name: str, is_before: bool, _result: Any, *_args: Any) -> int:
        seen.extend([name] if is_before else [])
        return 0

    machine.module["set_instrument"](note)
    value = RNG.standard_normal((3, 8)).astype("float32")
    np.testing.assert_allclose(machine.run(value).numpy(), expected(value), rtol=1e-4)
    assert seen.count("nn_softmax") == 2
    assert "kernel_groups" not in executable.info


def test_a_kernel_that_fails_within_a_group_says_what_it_says_alone() -> None:
    @tvm_ffi.register_global_func("vmkit.test.refuses", override=True)
    def refuses(_value: float) -> None:
        raise ValueError("the value is refused")

    @T.prim_func(private=True, s_tir=True)
    def kernel(a: T.Buffer((2, 8), "float32"), b: T.Buffer((2, 8), "float32")) -> None:
        T.evaluate(T.call_packed("vmkit.test.refuses", a[0, 0]))
        for i, j in T.grid(2, 8):
            with T.sblock("b"):
                row, column = T.axis.remap("SS", [i, j])
                b[row, column] = a[row, column]

    builder = relax.BlockBuilder()
    gvar = builder.add_func(kernel, "kernel")
    x = relax.Var("x", relax.TensorType((2, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.call_tir(gvar, [builder.emit(relax.op.nn.softmax(x))], x.ty))
            z = builder.emit_output(relax.op.nn.softmax(y))
        builder.emit_func_output(z)
    with vmkit.PassContext(disabled_pass=["FuseOps"]):
        executable = vmkit.compile(builder.get(), target="llvm")
    assert "kernel" in executable.info["kernel_groups"]["kernel_group"]
    machine = vmkit.VirtualMachine(executable)
    with pytest.raises(VMError, match="the value is refused"):
        machine.run(np.zeros((2, 8), "float32"))


def test_an_input_at_an_odd_place_is_still_refused_or_read_right() -> None:
    x = relay.var("x", shape=(2, 8))
    y, expected = layers(x, 2)
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], y), target="native"))
    whole = RNG.standard_normal((5, 8)).astype("float32")
    for value in (whole[1:3], whole[::2][:2]):
        np.testing.assert_allclose(machine.run(value).numpy(), expected(value), rtol=1e-4)


def test_machines_in_several_threads_do_not_share_a_workspace() -> None:
    x = relay.var("x", shape=(n, 64))
    y, expected = layers(x, 6, 64)
    executable = vmkit.compile(relay.Function([x], y), target="native")
    values = [RNG.standard_normal((size, 64)).astype("float32") for size in (40, 90)]
    wrong: list[float] = []

    def work(value: np.ndarray) -> None:
        machine, wanted = vmkit.VirtualMachine(executable), expected(value)
        for _ in range(50):
            wrong.append(float(np.abs(machine.run(value).numpy() - wanted).max()))

    workers = [threading.Thread(target=work, args=(value,)) for value in values]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(wrong) == 100
    assert max(wrong) < 1e-5


def test_what_only_one_kernel_sees_is_its_workspace() -> None:
    x = relay.var("x", shape=(n,), dtype="int64")
    executable = vmkit.compile(relay.Function([x], relay.unique(x, is_sorted=True)[0]), target="native")
    assert len(lines(executable, "invoke_packed kernel_group")) == 1
    assert not lines(executable, "make_tuple")
    assert len(lines(executable, "alloc_tensor")) == 1  # the result
    assert len(lines(executable, "alloc_shape_heap(vm, %")) == 1  # the workspace
    machine = vmkit.VirtualMachine(executable)
    for size in (1, 9, 300):
        value = RNG.integers(0, 5, size)
        expected = np.unique(value)
        np.testing.assert_array_equal(machine.run(value).numpy()[: len(expected)], expected)


def test_flags_of_values_are_looked_at_within_a_group() -> None:
    x, at = relay.var("x", shape=(n, 3)), relay.var("at", shape=(n,), dtype="int64")
    fits = relay.all(relay.less(at, relay.const(5, "int64")))
    value = relay.exp(entry("dyn.require").call(relay.nn.softmax(x), fits, message="a position is too large"))
    executable = vmkit.compile(relay.Function([x, at], relay.nn.softmax(value)), target="native")
    assert len(lines(executable, "invoke_packed kernel_group")) == 1
    assert not lines(executable, "tensor_to_shape")
    machine = vmkit.VirtualMachine(executable)
    given = RNG.standard_normal((4, 3)).astype("float32")
    first = np.exp(given) / np.exp(given).sum(-1, keepdims=True)
    expected = np.exp(np.exp(first)) / np.exp(np.exp(first)).sum(-1, keepdims=True)
    np.testing.assert_allclose(machine.run(given, np.arange(4)).numpy(), expected, rtol=1e-5)
    with pytest.raises(VMError, match="main failed: a position is too large"):
        machine.run(given, np.arange(4) + 2)
    np.testing.assert_allclose(machine.run(given, np.arange(4)).numpy(), expected, rtol=1e-5)


def test_checks_of_sizes_do_not_end_a_group() -> None:
    x, y = relay.var("x", shape=(n, 3)), relay.var("y", shape=(relay.Any(), 3))
    value = relay.nn.softmax(relay.add(relay.nn.softmax(x), relay.nn.softmax(y)))
    executable = vmkit.compile(relay.Function([x, y], value), target="native")
    assert len(lines(executable, "invoke_packed kernel_group")) == 1
    machine = vmkit.VirtualMachine(executable)
    with pytest.raises(VMError, match=r"2.*3|3.*2"):
        machine.run(np.zeros((2, 3), "float32"), np.zeros((3, 3), "float32"))
    result = machine.run(np.zeros((2, 3), "float32"), np.zeros((2, 3), "float32"))
    np.testing.assert_allclose(result.numpy(), np.full((2, 3), 1 / 3), rtol=1e-6)
