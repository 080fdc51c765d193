"""Executables and machines in other processes: forked, spawned, pickled; and inputs of any name."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.errors import VMError
from vmkit.executable.executable import Executable

FORK = """
import os, signal, numpy as np, vmkit
from vmkit import relay
x = relay.var("x", shape=(64, 512))
plain = vmkit.compile(relay.Function([x], relay.nn.dense(x, relay.const(np.ones((512, 512), "float32")))), "llvm")
text = '''#[version = "0.0.5"]
def @f(%n: int32) -> int32 { if (%n == 0) { 0 } else { let %y = @f(%n - 1); %y + 1 } }
def @main(%n: int32) -> int32 { @f(%n) }'''
recursive = vmkit.compile(relay.fromtext(text), "llvm")
array = np.ones((64, 512), "float32")
machines = [(vmkit.VirtualMachine(plain, num_threads=2), array), (vmkit.VirtualMachine(plain, num_threads=1), array),
            (vmkit.VirtualMachine(recursive), np.int32(5))]
expected = [machine.run(value).numpy() for machine, value in machines]
child = os.fork()
if child == 0:
    signal.alarm(60)  # a call that never returns ends the process
    for (machine, value), right in zip(machines, expected):
        for _ in range(2):
            np.testing.assert_array_equal(machine.run(value).numpy(), right)
    np.testing.assert_array_equal(vmkit.VirtualMachine(recursive).run(np.int32(7)).numpy(), 7)
    os._exit(0)
_, status = os.waitpid(child, 0)
for (machine, value), right in zip(machines, expected):
    np.testing.assert_array_equal(machine.run(value).numpy(), right)
print("status", status)
"""


@pytest.mark.skipif(not hasattr(multiprocessing, "get_context") or sys.platform == "win32", reason="needs fork")
def test_machines_that_ran_run_in_a_forked_process() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "status 0", done.stderr[-2000:]


@pytest.fixture(scope="module")
def executable() -> Executable:
    names = [relay.var(name, shape=(2,)) for name in ("self", "func_name", "args")]
    return vmkit.compile(relay.Function(names, relay.add(relay.add(names[0], names[1]), names[2])), "llvm")


def test_an_executable_is_pickled_as_its_file(executable: Executable) -> None:
    again = pickle.loads(pickle.dumps(executable))
    assert isinstance(again, Executable) and str(again.signature) == str(executable.signature)
    ones = np.ones(2, "float32")
    np.testing.assert_array_equal(vmkit.VirtualMachine(again).run(ones, ones, ones).numpy(), [3, 3])


def test_a_machine_is_not_pickled_and_says_what_is(executable: Executable) -> None:
    machine = vmkit.VirtualMachine(executable)
    for kind in (VMError, TypeError):
        with pytest.raises(kind, match=r"a VirtualMachine cannot be pickled: .* pickle machine\.executable"):
            pickle.dumps(machine)


def ran(executable: Executable) -> float:
    return float(vmkit.VirtualMachine(executable).run(*[np.ones(2, "float32")] * 3).numpy().sum())


def test_an_executable_goes_to_a_spawned_process(executable: Executable) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(ran, (executable,)) == 6


def test_inputs_may_have_any_name(executable: Executable) -> None:
    machine, one = vmkit.VirtualMachine(executable), np.ones(2, "float32")
    given = {"self": one, "func_name": one, "args": one}
    for result in (machine.run(**given), machine(**given), machine.invoke("main", **given)):
        np.testing.assert_array_equal(result.numpy(), [3, 3])
    machine.set_input("main", **given)
    machine.set_one_input("main", func_name=one + 1)
    machine.set_one_input("main", self=one + 1)
    np.testing.assert_array_equal(machine.run().numpy(), [5, 5])
    machine.invoke_stateful("main", **given)
    np.testing.assert_array_equal(machine.get_outputs()[0].numpy(), [3, 3])
