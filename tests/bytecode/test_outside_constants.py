"""Large constants: in every place of a program they have their values, and no second copy of them is made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tvm

import vmkit
from vmkit import relay

LARGE = np.arange(200 * 200, dtype="float32").reshape(200, 200)


def program() -> relay.Function:
    """Return a function that has a large constant as an operand, in a branch, as a part of a result and as a result."""
    x, flag = relay.var("x", shape=(relay.Any(), 200)), relay.var("flag", shape=(), dtype="bool")
    large = relay.const(LARGE)
    product = relay.nn.dense(x, large)
    chosen = relay.If(flag, large, relay.const(LARGE + 1))
    return relay.Function([x, flag], relay.Tuple([product, chosen, relay.Tuple([large, relay.const(2.0)])]))


def check(vm: vmkit.VirtualMachine) -> None:
    x = np.random.default_rng(0).random((3, 200), "float32")
    for flag in (True, False):
        product, chosen, (same, two) = vm.run(x, np.array(flag))
        np.testing.assert_allclose(product.numpy(), x @ LARGE.T, rtol=1e-4)
        np.testing.assert_array_equal(chosen.numpy(), LARGE if flag else LARGE + 1)
        np.testing.assert_array_equal(same.numpy(), LARGE)
        assert two.numpy() == 2


def test_a_large_constant_may_be_anywhere_in_a_program(tmp_path: Path) -> None:
    exe = vmkit.compile(program(), target="llvm")
    check(vmkit.VirtualMachine(exe, "cpu"))
    exe.export(tmp_path / "program.vmx")
    check(vmkit.VirtualMachine(vmkit.load(tmp_path / "program.vmx"), "cpu"))
    check(vmkit.VirtualMachine(vmkit.Executable.load_exec(*exe.save()), "cpu"))


def test_a_program_has_its_constants_where_the_module_has_them() -> None:
    held = relay.const(LARGE)
    exe = vmkit.compile(relay.Function([], held), target="llvm")
    (constant,) = (c for c in exe.program.constants if getattr(c, "shape", None) == LARGE.shape)
    assert np.frombuffer(constant.data, "uint8").ctypes.data == held.data.data_ptr()


def test_folded_constants_are_the_results_of_the_run_that_made_them() -> None:
    added = relay.add(relay.const(LARGE), relay.const(LARGE))
    folded = relay.transform.FoldConstant()(tvm.IRModule({"main": relay.Function([], added)}))
    np.testing.assert_array_equal(folded["main"].body.data.numpy(), 2 * LARGE)
    assert folded["main"].body.data.data_ptr() % 64 == 0
