"""Between kernels, a view of a view is one view and each shape is made once; values stay what they were."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import tirx

import vmkit
from vmkit import relay

n = tirx.Var("n", "int64")
X = relay.var("x", shape=(n, 6))


def calls(executable: vmkit.Executable, name: str) -> list[str]:
    """Return the instructions whose value a function of the machine makes, without the register that they write."""
    values = [line.split(" = ", 1)[-1].strip() for line in executable.bytecode.splitlines()]
    return [value for value in values if value.startswith(f"{name}(")]


def test_a_view_of_a_view_is_one_view() -> None:
    views = relay.expand_dims(relay.expand_dims(relay.reshape(relay.exp(X), [n, 2, 3], allowzero=True), 0), 0)
    with vmkit.PassContext(disabled_pass=["GroupKernels"]):
        executable = vmkit.compile(relay.Function([X], views), target="llvm")
    assert len(calls(executable, "reshape_tensor")) == 1
    x = np.random.default_rng(0).random((5, 6), "float32")
    np.testing.assert_allclose(
        vmkit.VirtualMachine(executable).run(x).numpy(), np.exp(x).reshape(1, 1, 5, 2, 3), rtol=1e-6
    )


def test_a_reshape_of_a_view_reads_what_was_viewed() -> None:
    views = relay.reshape(relay.expand_dims(relay.reshape(X, [n, 2, 3], allowzero=True), 0), [-1, 3])
    executable = vmkit.compile(relay.Function([X], views), target="llvm")
    assert len([name for name in executable.primitive_ops if "reshape" in name]) == 1
    assert len(calls(executable, "reshape_tensor")) == 1  # what is returned is a copy of one view
    x = np.random.default_rng(0).random((5, 6), "float32")
    np.testing.assert_array_equal(vmkit.VirtualMachine(executable).run(x).numpy(), x.reshape(-1, 3))


def test_a_view_of_the_same_shape_is_the_tensor() -> None:
    back = relay.reshape(relay.reshape(relay.exp(X), [n, 2, 3], allowzero=True), [n, 6], allowzero=True)
    executable = vmkit.compile(relay.Function([X], relay.sum(back, axis=[1])), target="llvm")
    assert not calls(executable, "reshape_tensor")
    x = np.random.default_rng(0).random((5, 6), "float32")
    np.testing.assert_allclose(vmkit.VirtualMachine(executable).run(x).numpy(), np.exp(x).sum(1), rtol=1e-6)


def test_each_shape_is_made_once() -> None:
    chain = X
    for axis in (0, 1, 0):
        chain = relay.nn.softmax(relay.cumsum(chain, axis=axis), axis=-1)
    executable = vmkit.compile(relay.Function([X], chain), target="llvm")
    made = calls(executable, "make_shape")
    assert made
    assert len(made) == len(set(made))
    x = np.random.default_rng(0).random((5, 6), "float32")
    expected = x.astype("float64")
    for axis in (0, 1, 0):
        sums = np.exp(np.cumsum(expected, axis))
        expected = sums / sums.sum(-1, keepdims=True)
    np.testing.assert_allclose(vmkit.VirtualMachine(executable).run(x).numpy(), expected, rtol=1e-4)


def test_what_one_branch_makes_the_other_does_not_use() -> None:
    condition = relay.var("condition", shape=(), dtype="bool")
    branches = [relay.cumsum(relay.exp(X), axis=1), relay.cumsum(relay.sqrt(X), axis=0)]
    function = relay.Function([condition, X], relay.If(condition, *branches))
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), target="llvm"))
    x = np.random.default_rng(0).random((5, 6), "float32")
    np.testing.assert_allclose(machine.run(np.array(True), x).numpy(), np.cumsum(np.exp(x), 1), rtol=1e-5)
    np.testing.assert_allclose(machine.run(np.array(False), x).numpy(), np.cumsum(np.sqrt(x), 0), rtol=1e-5)
