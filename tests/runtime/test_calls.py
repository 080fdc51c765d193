"""Which way a function is called, and that the way changes when a call needs a deep thread."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import vmkit
from tests.relax import programs as vm_programs
from vmkit import relay
from vmkit.errors import InputError
from vmkit.executable.build_info import BuildInfo
from vmkit.executable.executable import Executable
from vmkit.runtime import calls, instance
from vmkit.runtime.machine import VirtualMachine
from vmkit.runtime.threads import PoolTooSmall
from vmkit.values.conversion import ADT
from vmkit.values.signature import AnySpec, Signature

X, Y = np.ones((2, 3), "float32"), np.ones(2, "float32")


def rows(**info: Any) -> Executable:
    mod, signature = vm_programs.add_rows()
    return Executable(vm_programs.compiled(mod), {"main": signature}, tvm.target.Target("llvm"), BuildInfo(**info))


def same() -> Executable:
    """Return a program whose function ``same`` returns what it is given."""
    builder = relax.ExecBuilder()
    with builder.function("same", num_inputs=1, param_names=["x"]):
        builder.emit_ret(builder.r(0))
    return Executable(builder.get().mod, {"same": Signature("same", (AnySpec("x"),))})


def way(machine: VirtualMachine, name: str = "main") -> type:
    return type(machine._calls[name])


def test_a_function_that_checks_itself_is_called_directly() -> None:
    assert way(VirtualMachine(rows())) is calls.DirectCall
    assert way(VirtualMachine(rows(), check_inputs=False)) is calls.DirectCall


def test_what_has_to_be_converted_or_checked_is_staged() -> None:
    mod, signature = vm_programs.tuples()
    assert way(VirtualMachine(Executable(vm_programs.compiled(mod), {"main": signature}))) is calls.StagedCall
    assert way(VirtualMachine(same()), "same") is calls.StagedCall
    x = relay.var("x", shape=(2,), dtype="int4")
    assert way(VirtualMachine(vmkit.compile(relay.Function([x], x), target="llvm"))) is calls.StagedCall


def test_what_recurses_has_a_deep_thread() -> None:
    assert way(VirtualMachine(rows(recursive=True))) is calls.DeepCall


@pytest.mark.parametrize("how", ["invoke", "set_input", "set_one_input", "benchmark", "invoke_closure"])
def test_a_value_that_nests_brings_the_deep_thread(how: str) -> None:
    machine, value = VirtualMachine(same()), ADT(1, [ADT(0)])
    assert machine._instance.deep is None
    if how == "invoke":
        assert machine.invoke("same", value)[0].tag == 0
    elif how == "benchmark":
        assert machine.benchmark("cpu", value, func_name="same", repeat=1, number=1).mean > 0
    elif how == "invoke_closure":
        with pytest.raises(vmkit.errors.VMError, match="closure failed"):
            machine.invoke_closure(value, value)  # no closure: it was called, and failed on the deep thread
    else:
        getattr(machine, how)("same", *([0] if how == "set_one_input" else []), value)
        assert machine.invoke("same").tag == 1
    assert machine._instance.deep is not None
    assert way(machine, "same") is calls.DeepCall


def test_inputs_stay_set_when_the_way_changes() -> None:
    machine = VirtualMachine(same())
    machine.set_input("same", 2.5)
    assert machine.invoke("same", ADT(3)).tag == 3
    assert machine.invoke("same").numpy() == 2.5


def test_a_pool_of_too_few_threads_brings_the_deep_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, asked = VirtualMachine(rows(), num_threads=2), []

    def too_small(*_: Any) -> None:
        asked.append(1)
        raise PoolTooSmall

    monkeypatch.setattr(calls, "call_with_threads", too_small)
    np.testing.assert_array_equal(machine.run(X, Y).numpy(), [4, 4])
    assert (asked, way(machine)) == ([1], calls.DeepCall)
    # A deep thread on which it does not fit either is an error, and tried once.
    monkeypatch.setattr(instance, "call_with_threads", too_small)
    with pytest.raises(PoolTooSmall):
        machine.run(X, Y)
    assert asked == [1, 1, 1]


@pytest.mark.parametrize("recursive", [False, True])
def test_a_machine_that_nobody_refers_to_is_gone_without_a_collection(recursive: bool) -> None:
    machine = VirtualMachine(rows(recursive=recursive))
    machine.run(X, Y)
    inside, deep = weakref.ref(machine._instance), machine._instance.deep
    gc.disable()
    try:
        del machine
        if deep is not None:
            deep.call(int)  # after it has dropped what was the machine's
        assert inside() is None
    finally:
        gc.enable()


class _Foreign:
    """An array of another library, as DLPack hands it over."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


COMPLEX = np.ones(3, "complex64")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (COMPLEX, "x: dtype complex64, expected float32"),
        (COMPLEX.astype("complex128"), "x: dtype complex128, expected float32"),
        (np.ones(3, "datetime64[s]"), r"x: dtype datetime64\[s\], expected float32"),
        (np.ones(3, ">f4"), "x: dtype >f4, expected float32"),
        (_Foreign(COMPLEX), "x: a tensor of a data type that TVM does not know"),
        (1j, "x: 1j does not fit float32"),
    ],
)
def test_data_types_that_no_program_has_are_refused(value: Any, problem: str) -> None:
    x = relay.var("x", shape=(3,))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.exp(x)), target="llvm"))
    with pytest.raises(InputError, match=problem):
        machine.run(value)
    with pytest.raises(InputError, match=problem):
        machine.set_input("main", value)


@pytest.mark.parametrize("value", [COMPLEX, _Foreign(COMPLEX), np.ones(3, "timedelta64[s]")])
def test_a_closure_is_not_given_data_types_that_no_program_has(value: Any) -> None:
    x, y = relay.var("x", shape=(3,)), relay.var("y", shape=(3,))
    program = relay.Function([y], relay.Function([x], relay.add(x, y)))
    machine = vmkit.VirtualMachine(vmkit.compile(program, target="llvm"))
    closure = machine.run(np.ones(3, "float32"))
    with pytest.raises(InputError, match=r"arg0: .* data type"):
        machine.invoke_closure(closure, value)
    assert machine.invoke_closure(closure, np.ones(3, "float32")).numpy().tolist() == [2, 2, 2]
