"""Programs drop the result that they returned last before they allocate the next one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.bytecode.builtins import RELEASE
from vmkit.relay.ir import Expr


def compiled(*shape: int | relay.Any, make: Callable[[Expr], Expr] = relay.exp) -> vmkit.Executable:
    x = relay.var("x", shape=shape)
    return vmkit.compile(tvm.IRModule({"main": relay.Function([x], make(x))}), "llvm")


def place(result: object) -> int:
    return int(np.from_dlpack(result).ctypes.data)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(512, 256), (relay.Any(), 256), (relay.Any(), relay.Any())], ids=str)
def test_a_large_result_that_was_dropped_makes_room_for_the_next(shape: tuple[int | relay.Any, ...]) -> None:
    machine = vmkit.VirtualMachine(compiled(*shape), "cpu")
    x = np.ones((512, 256), "float32")
    assert len({place(machine.run(x)) for _ in range(6)}) == 1


def test_a_result_that_is_kept_stays_as_it_is() -> None:
    machine = vmkit.VirtualMachine(compiled(512, 256), "cpu")
    first = machine.run(np.zeros((512, 256), "float32"))
    second = machine.run(np.ones((512, 256), "float32"))
    assert place(first) != place(second)
    np.testing.assert_array_equal(first.numpy(), 1)
    np.testing.assert_allclose(second.numpy(), np.e, rtol=1e-6)


def test_only_programs_of_large_results_do_so_and_it_is_no_function_of_theirs() -> None:
    large, small = compiled(512, 256), compiled(16, relay.Any())
    assert RELEASE in large.program.names and RELEASE not in small.program.names
    assert large.globals == small.globals == ["main"]


def test_fields_of_a_tuple_are_dropped_together_and_the_program_is_saved(tmp_path: object) -> None:
    executable = compiled(300, 256, make=lambda x: relay.Tuple([relay.exp(x), relay.tanh(x)]))
    executable.export(f"{tmp_path}/pair.vmx")
    machine = vmkit.VirtualMachine(vmkit.load(f"{tmp_path}/pair.vmx"), "cpu")
    x = np.ones((300, 256), "float32")
    assert len({tuple(sorted(map(place, machine.run(x)))) for _ in range(6)}) == 1
