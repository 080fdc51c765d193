"""Calls that end early: too long, cancelled, or interrupted by a signal; and the next call is as ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit._tvm import running
from vmkit.bytecode import Call, If
from vmkit.errors import OptionError, VMError
from vmkit.executable.executable import Executable
from vmkit.relay.loops import while_loop
from vmkit.runtime.polling import can_run_on

SOON = 10.0  # seconds that a busy machine may take to end a call; an endless one takes for ever


def rounds() -> relay.Function:
    """Return a program that goes round for ever if its input is 1, and once if it is 0."""
    step, start = relay.var("step", shape=(), dtype="int32"), relay.var("s", shape=(relay.Any(),), dtype="int32")
    x = relay.var("x", shape=(relay.Any(),), dtype="int32")
    found = while_loop(
        lambda step, _: relay.greater(step, relay.const(0)),
        [step, x],
        lambda step, x: [
            relay.take(x, relay.const(0)),
            relay.concatenate([relay.strided_slice(x, [0], [1]), relay.const([7])], 0),
        ],
    )
    return relay.Function([start], found(relay.const(1), start))


@pytest.fixture(scope="module")
def loop() -> Executable:
    """Return the program, which looks itself whether to go on: each iteration calls a group of kernels."""
    return vmkit.compile(rounds(), "llvm")


@pytest.fixture(scope="module")
def loop_of_kernels() -> Executable:
    """Return the program without groups."""
    with vmkit.PassContext(disabled_pass=["GroupKernels"]):
        return vmkit.compile(rounds(), "llvm")


@pytest.fixture(scope="module")
def recursion() -> Executable:
    text = """#[version = "0.0.5"]
    def @f(%n: int32) -> int32 { if (%n == 0) { 0 } else { let %y = @f(%n - 1); %y + 1 } }
    def @main(%n: int32) -> int32 { @f(%n) }"""
    return vmkit.compile(relay.fromtext(text), "llvm")


CASES = [
    ("loop", np.ones(1, "int32"), np.zeros(1, "int32")),
    ("loop_of_kernels", np.ones(1, "int32"), np.zeros(1, "int32")),
    ("recursion", np.int32(-1), np.int32(3)),
]


@pytest.fixture(params=CASES, ids=lambda case: case[0])
def case(request: pytest.FixtureRequest) -> tuple[Executable, np.ndarray, np.ndarray]:
    name, endless, short = request.param
    return request.getfixturevalue(name), endless, short


@contextmanager
def soon() -> Iterator[None]:
    begin = time.monotonic()
    yield
    assert time.monotonic() - begin < SOON


def later(action: Callable[[], object]) -> None:
    threading.Timer(0.2, action).start()


def test_a_timeout_ends_a_call_and_the_next_one_runs(case: tuple[Executable, np.ndarray, np.ndarray]) -> None:
    executable, endless, short = case
    machine = vmkit.VirtualMachine(executable, "cpu", num_threads=1, timeout=0.2)
    for _ in range(2):
        with soon(), pytest.raises(VMError, match=r"^the call took longer than the timeout of 0\.2 s$"):
            machine.run(endless)
        with soon():
            machine.run(short)


def test_another_thread_cancels_a_call(case: tuple[Executable, np.ndarray, np.ndarray]) -> None:
    executable, endless, short = case
    machine = vmkit.VirtualMachine(executable, "cpu", num_threads=1)
    machine.cancel()
    machine.run(short)
    later(machine.cancel)
    with soon(), pytest.raises(VMError, match=r"^the call was cancelled$"):
        machine.run(endless)
    machine.run(short)


def test_a_call_that_waits_is_cancelled_too(loop: Executable) -> None:
    machine = vmkit.VirtualMachine(loop, "cpu", num_threads=1)
    said: list[str] = []

    def endless() -> None:
        with pytest.raises(VMError) as caught:
            machine.run(np.ones(1, "int32"))
        said.append(str(caught.value))

    threads = [threading.Thread(target=endless) for _ in range(2)]
    for thread in threads:
        thread.start()
    later(machine.cancel)
    with soon():
        for thread in threads:
            thread.join()
    assert said == ["the call was cancelled"] * 2


@pytest.mark.parametrize("was_restarting", [False, True])
def test_an_interrupt_ends_a_call_and_the_next_does_not_wait(
    case: tuple[Executable, np.ndarray, np.ndarray], was_restarting: bool
) -> None:
    executable, endless, short = case
    machine = vmkit.VirtualMachine(executable, "cpu", num_threads=1)
    otherwise = threading.Timer(2 * SOON, machine.cancel)
    otherwise.start()
    # A process in the background may have been started with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.siginterrupt(signal.SIGINT, not was_restarting)  # as the compiler leaves it
    try:
        later(lambda: os.kill(os.getpid(), signal.SIGINT))
        with soon(), pytest.raises(KeyboardInterrupt):
            machine.run(endless)
    finally:
        signal.signal(signal.SIGINT, before)
        otherwise.cancel()
    with soon():
        machine.run(short)


_INTERRUPTED = """
import contextlib, os, signal, sys, threading
import numpy as np
import vmkit

signal.signal(signal.SIGINT, signal.default_int_handler)
machine = vmkit.VirtualMachine(vmkit.load(sys.argv[1]), num_threads=1)
machine.run(np.int32(3))
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
with contextlib.suppress(KeyboardInterrupt):
    machine.run(np.int32(2**31 - 1))
"""


def test_a_process_ends_well_after_an_interrupt(tmp_path: Path) -> None:
    text = """#[version = "0.0.5"]
    def @f(%n: int32) -> int32 { if (%n == 0) { 0 } else { @f(%n - 1) + 1 } }
    def @g(%n: int32, %m: int32) -> int32 { if (%n == 0) { %m } else { @g(%n - 1, @f(200)) } }
    def @main(%n: int32) -> int32 { @g(%n, 0) }"""
    vmkit.compile(relay.fromtext(text), "llvm").export(tmp_path / "recursion.vmx")
    command = [sys.executable, "-c", _INTERRUPTED, str(tmp_path / "recursion.vmx")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")


_FORKED = """
import os, signal, sys, threading, time
import numpy as np
import vmkit

class Alarm(Exception):
    pass

def ring(*_):
    raise Alarm

machine = vmkit.VirtualMachine(vmkit.load(sys.argv[1]), num_threads=1)
machine.run(np.int32(3), np.zeros((2, 3), "float32"))
signal.signal(signal.SIGALRM, ring)
ended = []

def fork():
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            machine.run(np.int32(-1), np.zeros((2, 3), "float32"))
        except Alarm:
            os._exit(7)
        os._exit(1)
    for _ in range(500):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            ended.append(os.waitstatus_to_exitcode(status))
            return
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)

thread = threading.Thread(target=fork)
thread.start()
thread.join()
print(ended)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_handlers_of_signals_run_in_a_process_that_another_thread_forked(
    kernel_loop: Executable, tmp_path: Path
) -> None:
    kernel_loop.export(tmp_path / "loop.vmx")
    command = [sys.executable, "-c", _FORKED, str(tmp_path / "loop.vmx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.strip() == "[7]", done.stderr[-2000:]


class Alarm(Exception):
    """What a handler of a signal raises."""


def test_what_a_handler_raises_arrives_as_it_is(loop: Executable) -> None:
    machine = vmkit.VirtualMachine(loop, "cpu", num_threads=1)

    def ring(*_: object) -> None:
        raise Alarm("time is up")

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with soon(), pytest.raises(Alarm, match="time is up"):
            machine.run(np.ones(1, "int32"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    machine.run(np.zeros(1, "int32"))


def test_a_handler_that_returns_does_not_end_a_call(loop: Executable) -> None:
    machine, rung = vmkit.VirtualMachine(loop, "cpu", num_threads=1, timeout=0.5), list[int]()
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        with pytest.raises(VMError, match="timeout"):
            machine.run(np.ones(1, "int32"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(rung) > 2


def test_a_program_without_loops_is_left_as_it_is() -> None:
    x = relay.var("x", shape=(2,))
    executable = vmkit.compile(relay.Function([x], relay.exp(x)), "llvm")
    assert not can_run_on(executable.program)
    assert vmkit.VirtualMachine(executable, "cpu")._instance.stopper is None
    limited = vmkit.VirtualMachine(executable, "cpu", timeout=10)
    np.testing.assert_allclose(limited.run(np.zeros(2, "float32")).numpy(), [1, 1])


def test_a_loop_of_groups_runs_on_the_callers_own_thread(loop: Executable, loop_of_kernels: Executable) -> None:
    groups, kernels = loop.program, loop_of_kernels.program
    assert [can_run_on(groups), can_run_on(kernels)] == [False, True]
    machines = (vmkit.VirtualMachine(executable, "cpu") for executable in (loop, loop_of_kernels))
    assert [machine._instance.deep is None for machine in machines] == [True, False]
    # On one way round no group may be called.
    calls = [i for i, one in enumerate(groups.instructions) if isinstance(one, Call)]
    group = next(i for i in calls if groups.functions[groups.instructions[i].function].name == "kernel_group")
    code = list(groups.instructions)
    code[group - 1] = If(0, 2)
    can_skip = can_run_on(replace(groups, instructions=tuple(code)))
    assert can_skip


def test_a_stack_of_the_callers_size(recursion: Executable) -> None:
    machine = vmkit.VirtualMachine(recursion, "cpu", num_threads=1, stack_bytes=32 << 20)
    with pytest.raises(VMError, match="the recursion is too deep for a stack of 32 MiB"):
        machine.run(np.int32(-1))
    assert machine.run(np.int32(9)).numpy() == 9


@pytest.mark.parametrize("timeout", [0, -1.0, True, "1", float("nan")])
def test_a_timeout_that_is_none_is_refused(loop: Executable, timeout: object) -> None:
    with pytest.raises(OptionError, match=r"timeout is .*, expected seconds"):
        vmkit.VirtualMachine(loop, "cpu", timeout=timeout)


def test_a_stack_that_is_none_is_refused(loop: Executable) -> None:
    with pytest.raises(OptionError, match="stack_bytes is 5, expected a number of bytes, at least 16777216"):
        vmkit.VirtualMachine(loop, "cpu", stack_bytes=5)


@pytest.fixture(scope="module")
def kernel_loop() -> Executable:
    """Return a loop that runs as one call of the VM, as many times as its first input says; for ever from -1 on."""
    text = """#[version = "0.0.5"]
    def @loop(%n: int32, %a: Tensor[(?, 3), float32]) -> Tensor[(?, 3), float32] {
      if (%n == 0) { %a } else { @loop(%n - 1, %a + 1f) } }
    def @main(%n: int32, %a: Tensor[(?, 3), float32]) -> Tensor[(?, 3), float32] { @loop(%n, %a) }"""
    executable = vmkit.compile(relay.fromtext(text), "llvm")
    assert "invoke_packed kernel_loop" in executable.bytecode
    return executable


ROWS = np.zeros((2, 3), "float32")
ENDLESS, SHORT = np.array(-1, "int32"), np.array(3, "int32")


def test_a_kernel_loop_is_interrupted_on_the_callers_own_thread(kernel_loop: Executable) -> None:
    machine = vmkit.VirtualMachine(kernel_loop, "cpu", num_threads=1)
    assert machine._instance.deep is None
    for kind, raised in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGUSR1, Alarm)):

        def ring(*_: object, raised: type[BaseException] = raised) -> None:
            raise raised("time is up")

        before = signal.signal(kind, ring)
        try:
            later(lambda kind=kind: os.kill(os.getpid(), kind))
            with soon(), pytest.raises(raised, match="time is up"):
                machine.run(ENDLESS, ROWS)
        finally:
            signal.signal(kind, before)
        np.testing.assert_array_equal(machine.run(SHORT, ROWS).numpy(), ROWS + 3)


def test_a_kernel_loop_is_cancelled_and_the_next_call_is_not(kernel_loop: Executable) -> None:
    machine = vmkit.VirtualMachine(kernel_loop, "cpu", num_threads=1)
    machine.cancel()
    np.testing.assert_array_equal(machine.run(SHORT, ROWS).numpy(), ROWS + 3)
    later(machine.cancel)
    with soon(), pytest.raises(VMError, match=r"^the call was cancelled$"):
        machine.run(ENDLESS, ROWS)
    result = machine._instance.state
    assert result is not None
    with soon():
        while result.flag[0]:
            time.sleep(0.01)
    np.testing.assert_array_equal(machine.run(SHORT, ROWS).numpy(), ROWS + 3)


def test_a_kernel_loop_takes_no_longer_than_its_timeout(kernel_loop: Executable) -> None:
    machine = vmkit.VirtualMachine(kernel_loop, "cpu", num_threads=1, timeout=0.2)
    for _ in range(2):
        with soon(), pytest.raises(VMError, match=r"^the call took longer than the timeout of 0\.2 s$"):
            machine.run(ENDLESS, ROWS)
        np.testing.assert_array_equal(machine.run(SHORT, ROWS).numpy(), ROWS + 3)


def test_a_kernel_loop_runs_on_a_machine_without_vmkit(kernel_loop: Executable) -> None:
    machine = tvm.relax.VirtualMachine(kernel_loop.runnable(), tvm.cpu())
    given = [tvm.runtime.tensor(each) for each in (np.array(100_000, "int32"), ROWS)]
    np.testing.assert_array_equal(machine["main"](*given).numpy(), ROWS + 100_000)


@pytest.fixture(scope="module", params=[1024, relay.Any()], ids=["known sizes", "unknown sizes"])
def chain(request: pytest.FixtureRequest) -> Executable:
    """Return a program without loops that runs for seconds, in one kernel group."""
    x, y = relay.var("x", shape=(request.param, 1024)), relay.var("y", shape=(1024, 1024))
    value = x
    for _ in range(60):
        value = relay.nn.softmax(relay.nn.dense(value, y))
    return vmkit.compile(relay.Function([x, y], value), "native")


MATRIX = np.zeros((1024, 1024), "float32")


def test_a_long_chain_of_kernels_is_cancelled_and_takes_no_longer_than_its_timeout(chain: Executable) -> None:
    machine = vmkit.VirtualMachine(chain, "cpu", num_threads=1)
    later(machine.cancel)
    with pytest.raises(VMError, match=r"^the call was cancelled$"):
        machine.run(MATRIX, MATRIX)
    limited = vmkit.VirtualMachine(chain, "cpu", num_threads=1, timeout=0.2)
    with pytest.raises(VMError, match=r"^the call took longer than the timeout of 0\.2 s$"):
        limited.run(MATRIX, MATRIX)
    np.testing.assert_allclose(machine.run(MATRIX[:1].repeat(1024, 0), MATRIX).numpy(), MATRIX + 1 / 1024, rtol=1e-5)


def test_handlers_of_signals_run_while_a_long_chain_of_kernels_does(chain: Executable) -> None:
    machine = vmkit.VirtualMachine(chain, "cpu", num_threads=1)
    was_running: list[bool] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: was_running.append(machine._instance.lock._is_owned()))  # type: ignore[attr-defined]
    try:
        later(lambda: os.kill(os.getpid(), signal.SIGUSR1))
        result = machine.run(MATRIX, MATRIX)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert was_running == [True]
    np.testing.assert_allclose(result.numpy(), MATRIX + 1 / 1024, rtol=1e-5)


def test_errors_that_end_a_call_read_no_symbols() -> None:
    """A backtrace of TVM's takes a fifth of a second, the first time."""
    running.declare_packed("vmkit.test.fails", lambda *_: running.fail_packed(b"no"))
    with pytest.raises(RuntimeError, match=r"^no$") as caught:
        tvm.get_global_func("vmkit.test.fails")()
    assert caught.value.__tvm_ffi_error__.backtrace == ""
