"""The pool of threads that share the work of kernels: every task is done once, whoever sleeps, forks or fails."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.script import tirx as T
from tvm_ffi.libinfo import find_libtvm_ffi

import vmkit
from vmkit import relay
from vmkit._tvm.running import fail_packed, limit_threads_of_this_thread
from vmkit.compiler.kernel_pipeline import PIPELINE
from vmkit.compiler.pool_code import has_pool, pool_object, shares_work, with_slot
from vmkit.executable.executable import Executable
from vmkit.runtime.pool import Pool, process_pool
from vmkit.target import canonical_target

SHAPE = (64, 512)

Kernel = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Environment(ctypes.Structure):
    _fields_ = (("barrier", ctypes.c_void_p), ("tasks", ctypes.c_int32))


@pytest.fixture(scope="module")
def executable() -> Executable:
    x = relay.var("x", shape=SHAPE)
    return vmkit.compile(relay.Function([x], relay.exp(relay.sin(x)) + x))


@pytest.fixture(scope="module")
def pool(executable: Executable) -> Pool:
    vmkit.VirtualMachine(executable, num_threads=2)
    made = process_pool()
    assert made is not None
    made.grow(4)
    return made


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    yield
    limit_threads_of_this_thread(1)


def launched(pool: Pool, kernel: Callable[[int, int], int], threads: int, asked: int = 0) -> int:
    """Launch a kernel of (task, tasks), as a kernel's machine code does."""
    launch = ctypes.CFUNCTYPE(ctypes.c_int, Kernel, ctypes.c_void_p, ctypes.c_int)(pool._launch)

    def run(task: int, environment: int, data: int) -> int:
        assert data == 77
        return kernel(task, Environment.from_address(environment).tasks)

    limit_threads_of_this_thread(threads)
    return launch(Kernel(run), 77, asked)


@pytest.mark.parametrize(
    ("threads", "asked", "tasks"), [(1, 0, 1), (2, 0, 2), (3, 0, 3), (4, 7, 7), (600, 0, 512), (4, 600, 600), (2, 1, 1)]
)
def test_every_task_is_done_once(pool: Pool, threads: int, asked: int, tasks: int) -> None:
    done: list[tuple[int, int]] = []
    assert launched(pool, lambda task, count: done.append((task, count)) or 0, threads, asked) == 0
    assert sorted(done) == [(task, tasks) for task in range(tasks)]


def test_tasks_are_done_at_the_same_time(pool: Pool) -> None:
    time.sleep(0.1)  # until the threads sleep
    meeting = threading.Barrier(4)
    done: list[int] = []

    def kernel(task: int, _: int) -> int:
        meeting.wait(30)
        done.append(threading.get_ident())
        return 0

    assert launched(pool, kernel, 4) == 0
    assert len(set(done)) == 4 and threading.get_ident() in done


def test_a_caller_waits_for_nobody_who_has_not_begun(pool: Pool) -> None:
    """Threads that are busy with another caller's work leave it to this one to do its own."""
    busy, over = threading.Barrier(4), threading.Event()

    def long(task: int, _: int) -> int:
        busy.wait(30)
        over.wait(30)
        return 0

    other = threading.Thread(target=launched, args=(pool, long, 3))
    other.start()
    try:
        busy.wait(30)
        done: list[int] = []
        pool_threads = pool.size - 1
        # One thread of the pool at most is free.
        assert launched(pool, lambda task, _: done.append(task) or 0, pool_threads + 8) == 0
        assert sorted(done) == list(range(pool_threads + 8))
    finally:
        over.set()
        other.join()


@pytest.mark.parametrize("threads", [1, 2, 4, 6])
def test_an_error_of_a_task_is_the_caller_s(pool: Pool, threads: int) -> None:
    """Whichever thread it came from; of several it is one."""
    message = f"task of {threads}".encode()
    for _ in range(5):
        assert launched(pool, lambda task, _: fail_packed(message) if task != 1 or threads == 1 else 0, threads) == -1
        assert raised_message() == message.decode()
        assert launched(pool, lambda task, _: 0, threads) == 0


def raised_message() -> str:
    """Return what a kernel that failed has left for its caller."""
    library, error = ctypes.CDLL(find_libtvm_ffi()), ctypes.c_void_p()
    library.TVMFFIErrorMoveFromRaised(ctypes.byref(error))
    assert error.value is not None
    # After the header of an object its fields begin: the kind and the message, each an address and a length.
    address, length = (ctypes.c_size_t * 2).from_address(error.value + 24 + 16)
    message = ctypes.string_at(address, length).decode()
    library.TVMFFIObjectDecRef(error)
    return message


def test_a_task_that_fails_without_a_word(pool: Pool) -> None:
    assert launched(pool, lambda task, _: -1, 3) == -1
    assert "task has failed" in raised_message()
    assert launched(pool, lambda task, _: 0, 3) == 0


def test_callers_of_many_threads(pool: Pool) -> None:
    """More than there are places for jobs, with pauses in which threads of the pool fall asleep."""
    failures: list[Any] = []

    def call(number: int) -> None:
        for turn in range(20):
            done: list[int] = []
            launched(pool, lambda task, _, done=done: done.append(task) or 0, 2 + number % 5)
            if sorted(done) != list(range(2 + number % 5)):
                failures.append((number, turn, done))
            if turn % 7 == number % 7:
                time.sleep(0.01)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(80)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert failures == []


@pytest.mark.parametrize("loaded", [False, True])
def test_machines_use_it(executable: Executable, tmp_path: Path, loaded: bool) -> None:
    """With kernels that LLVM holds, and with those of a file."""
    if loaded:
        executable.export(tmp_path / "m.vmx")
        executable = vmkit.load(tmp_path / "m.vmx")
    machine = vmkit.VirtualMachine(executable, num_threads=7)
    value = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    got = machine.run(value).numpy()
    np.testing.assert_allclose(got, np.exp(np.sin(value)) + value, rtol=1e-5, atol=1e-6)
    pool = process_pool()
    assert pool is not None and pool.size >= 7


def test_kernels_that_go_to_any_processor_use_it(tmp_path: Path) -> None:
    """They are compiled when they are loaded, of a file in which LLVM names no functions."""
    x = relay.var("x", shape=SHAPE)
    vmkit.compile(relay.Function([x], relay.exp(x)), target="portable").export(tmp_path / "m.vmx", portable=True)
    code = f"""
import numpy as np, vmkit
from vmkit.runtime import pool
taken = []
own = pool.Pool.take
pool.Pool.take = lambda self, slot: (taken.append(slot), own(self, slot))
machine = vmkit.VirtualMachine(vmkit.load({str(tmp_path / "m.vmx")!r}), num_threads=2)
np.testing.assert_allclose(machine.run(np.ones({SHAPE}, "float32")).numpy(), np.e, rtol=1e-6)
print(len(set(taken)), pool.process_pool().size)
"""
    assert output_of(code).split() == ["2", "2"]  # the slot of the kernels, and that of the pool's own library


def test_what_is_no_number_of_looks(executable: Executable, tmp_path: Path) -> None:
    executable.export(tmp_path / "m.vmx")
    code = f"import vmkit; vmkit.VirtualMachine(vmkit.load({str(tmp_path / 'm.vmx')!r}), num_threads=2)"
    for told in ("many", "-1", "\u00b2"):
        with pytest.raises(AssertionError, match=r"TVM_THREAD_POOL_SPIN_COUNT is '.+', expected how often to look"):
            output_of(code, TVM_THREAD_POOL_SPIN_COUNT=told)


def test_a_system_that_refuses_threads_is_asked_once(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(pool, "_start", lambda number: asked.append(number) or errno.EAGAIN)
    monkeypatch.setattr(pool, "_is_refused", False)
    before, more = pool.size, pool.size + 2
    pool.grow(more)
    pool.grow(more)
    assert pool.size == before and asked == [before]
    assert [record.getMessage().startswith(f"kernels run on {before} threads") for record in caplog.records] == [True]
    done: list[int] = []
    assert launched(pool, lambda task, _: done.append(task) or 0, more) == 0
    assert sorted(done) == list(range(more))


@pytest.mark.parametrize(("looks", "most"), [(None, 0.3), ("0", 0.015)])
def test_its_threads_sleep_when_there_is_nothing_to_do(
    executable: Executable, tmp_path: Path, looks: str | None, most: float
) -> None:
    """After so much processor time; beside other work that may take a while."""
    executable.export(tmp_path / "m.vmx")
    code = f"""
import time, numpy as np, vmkit
machine = vmkit.VirtualMachine(vmkit.load({str(tmp_path / "m.vmx")!r}), num_threads=3)
for _ in range(3):
    machine.run(np.zeros({SHAPE}, "float32"))
begun = last = time.process_time()
for _ in range(300):
    time.sleep(0.1)
    now = time.process_time()
    if now - last < 0.001:
        break
    last = now
print(now - begun, now - last)
"""
    told = {} if looks is None else {"TVM_THREAD_POOL_SPIN_COUNT": looks}
    spent, now = map(float, output_of(code, **told).split())
    assert spent < most and now < 0.001


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_has_threads_of_its_own(executable: Executable, tmp_path: Path) -> None:
    executable.export(tmp_path / "m.vmx")
    code = f"""
import os, numpy as np, vmkit
machine = vmkit.VirtualMachine(vmkit.load({str(tmp_path / "m.vmx")!r}), num_threads=3)
value = np.linspace(-1, 1, {SHAPE[0] * SHAPE[1]}, dtype="float32").reshape({SHAPE})
expected = np.exp(np.sin(value)) + value
np.testing.assert_allclose(machine.run(value).numpy(), expected, rtol=1e-5, atol=1e-6)
if os.fork() == 0:
    before = len(os.listdir("/proc/self/task"))
    for _ in range(20):
        np.testing.assert_allclose(machine.run(value).numpy(), expected, rtol=1e-5, atol=1e-6)
    print(before, len(os.listdir("/proc/self/task")), flush=True)
    os._exit(0)
print(os.wait()[1])
"""
    before, after, status = map(int, output_of(code).split())
    assert (before, after, status) == (1, 3, 0)


def output_of(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_process_that_runs_on_one_thread_has_none(executable: Executable, tmp_path: Path) -> None:
    executable.export(tmp_path / "m.vmx")
    code = f"""
import numpy as np, vmkit
from vmkit.runtime.pool import process_pool
machine = vmkit.VirtualMachine(vmkit.load({str(tmp_path / "m.vmx")!r}), num_threads=1)
machine.run(np.zeros({SHAPE}, "float32"))
print(process_pool())
"""
    assert output_of(code).strip() == "None"


def test_targets_without_it() -> None:
    assert not has_pool(canonical_target("c").primary)
    assert not has_pool(canonical_target("llvm -mtriple=x86_64-pc-windows-msvc").primary)
    assert not has_pool(canonical_target("llvm -mtriple=thumbv7em-none-eabi -mcpu=cortex-m4").primary)


@pytest.mark.parametrize("triple", ["x86_64-linux-gnu", "aarch64-linux-gnu", "aarch64-apple-darwin"])
def test_it_becomes_an_object_for_other_machines(triple: str) -> None:
    target = canonical_target(f"llvm -mtriple={triple}").primary
    assert has_pool(target)
    assert b"vmkit_pool" in pool_object(target)


def test_kernels_that_share_no_work_go_without_it() -> None:
    @T.prim_func
    def serial(a: T.Buffer((4,), "float32")) -> None:
        for i in range(4):
            a[i] = T.float32(1)

    @T.prim_func
    def parallel(a: T.Buffer((4,), "float32")) -> None:
        for i in T.parallel(4):
            a[i] = T.float32(1)

    assert not shares_work(tvm.IRModule({"serial": serial}))
    assert shares_work(tvm.IRModule({"serial": serial, "parallel": parallel}))
    x = relay.var("x", shape=(4,))
    library = vmkit.compile(relay.Function([x], relay.exp(x))).libraries[0]
    assert not library.imports


def test_tensors_of_kernels_beside_a_slot_do_not_overlap() -> None:
    @T.prim_func(s_tir=True)
    def rows(x: T.Buffer((8, 64), "uint8"), y: T.Buffer((8, 64), "uint8")):
        T.func_attr({"global_symbol": "rows", "tirx.is_scheduled": True, "tirx.noalias": True})
        for i in T.parallel(8):
            for j in range(64):
                with T.sblock("copy"):
                    a, b = T.axis.remap("SS", [i, j])
                    y[a, b] = x[a, b]

    module = tvm.IRModule({"rows": rows})
    target = tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v3"})
    code = tvm.tirx.build(with_slot(module, 0), target, PIPELINE).inspect_source("ll")
    assert "@__tvm_ffi_rows(ptr noalias" in code
