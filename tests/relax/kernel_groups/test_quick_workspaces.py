"""Workspaces of unknown sizes are allocated by one instruction, in few sizes, and counted as all memory is."""

from __future__ import annotations

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.errors import VMError


@pytest.fixture(scope="module")
def executable() -> vmkit.Executable:
    """Return a program whose kernels keep twice as much as it is given between them."""
    x = relay.var("x", shape=(relay.Any(),))
    value = relay.cumsum(relay.exp(x), axis=0)
    return vmkit.compile(relay.Function([x], relay.sum(relay.cumsum(relay.tanh(value), axis=0))), "llvm")


def expected(data: np.ndarray) -> np.ndarray:
    return np.cumsum(np.tanh(np.cumsum(np.exp(data)))).sum()


def test_a_workspace_is_one_instruction(executable: vmkit.Executable) -> None:
    allocated = [line for line in executable.bytecode.splitlines() if "alloc_" in line]
    assert [line for line in allocated if "alloc_shape_heap(vm, %" in line]
    assert not [line for line in allocated if "uint8)" in line and "alloc_tensor" in line]
    machine = vmkit.VirtualMachine(executable, "cpu")
    for count in (1, 5, 3000, 5):
        data = np.linspace(-1, 0, count, dtype="float32")
        np.testing.assert_allclose(machine.run(data).numpy(), expected(data), rtol=1e-4)


def test_a_workspace_is_counted(executable: vmkit.Executable) -> None:
    machine = vmkit.VirtualMachine(executable, "cpu", max_memory=6 << 20)
    few, many = (np.linspace(-1, 0, count, dtype="float32") for count in (1 << 16, 1 << 20))
    np.testing.assert_allclose(machine.run(few).numpy(), expected(few), rtol=1e-3)
    with pytest.raises(VMError, match="max_memory allows 6 MiB together"):
        machine.run(many)
    np.testing.assert_allclose(machine.run(few).numpy(), expected(few), rtol=1e-3)
