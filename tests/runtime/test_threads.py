"""How many threads calls use, by what the system says of them, and that calls at the same time give right values."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.errors import OptionError
from vmkit.executable.executable import Executable
from vmkit.runtime import threads
from vmkit.runtime.machine import VirtualMachine
from vmkit.runtime.pool import process_pool

SHAPE = (64, 4096)


@pytest.fixture(scope="module")
def product() -> Executable:
    """A program whose kernels share their work among threads."""
    x = relay.var("x", shape=SHAPE)
    weight = relay.const(np.linspace(-1, 1, 32 * SHAPE[1], dtype="float32").reshape(32, SHAPE[1]))
    return vmkit.compile(relay.Function([x], relay.exp(relay.nn.dense(relay.sin(x), weight) / relay.const(1e3))))


@pytest.fixture(scope="module")
def names() -> Executable:
    """``main(x: float32[n, 3], y: float32[n, 3])`` gives x * 2 + y."""
    n = relay.Any()
    x, y = relay.var("x", shape=(n, 3)), relay.var("y", shape=(n, 3))
    return vmkit.compile(relay.Function([x, y], x * relay.const(2.0) + y), target="llvm")


def expected(x: np.ndarray) -> np.ndarray:
    weight = np.linspace(-1, 1, 32 * SHAPE[1], dtype="float32").reshape(32, SHAPE[1])
    return np.exp(np.sin(x) @ weight.T / 1e3)


def random(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SHAPE).astype("float32")


def in_threads(calls: list[Callable[[], Any]]) -> None:
    """Run calls at the same time, each in a thread of its own, and raise what one of them raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> None:
        try:
            start.wait()
            call()
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=run, args=(call,)) for call in calls]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]


def test_a_call_starts_the_threads_it_was_allowed(product: Executable) -> None:
    """Of all machines, whatever thread calls them."""
    counts: list[int] = []

    def call(num_threads: int) -> None:
        machine = VirtualMachine(product, num_threads=num_threads)
        result = machine.run(random(0)).numpy()
        counts.append(pool_size())
        assert machine.num_threads == num_threads
        np.testing.assert_allclose(result, expected(random(0)), rtol=1e-5)

    for num_threads in (1, 2, 3, 2, 9, 1):
        in_threads([lambda number=num_threads: call(number)])
    assert counts[-2:] == [9, 9] and counts == sorted(counts)
    assert counts[1] >= 2 and counts[2] >= 3


def pool_size() -> int:
    pool = process_pool()
    return 1 if pool is None else pool.size


def test_a_thread_may_call_machines_of_any_number(product: Executable) -> None:
    def call() -> None:
        machines = [VirtualMachine(product, num_threads=number) for number in (2, 1, 3, 2, 4, 1)]
        for seed, machine in enumerate(machines):
            np.testing.assert_allclose(machine.run(random(seed)).numpy(), expected(random(seed)), rtol=1e-5)

    in_threads([call])


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "2"])
def test_what_is_no_number_of_threads(names: Executable, number: Any) -> None:
    with pytest.raises(OptionError, match=r"num_threads is .*, expected a number of threads, at least 1"):
        VirtualMachine(names, num_threads=number)


@pytest.mark.parametrize(("told", "number"), [("3", 3), ("1", 1)])
def test_the_environment_tells_the_default(
    names: Executable, monkeypatch: pytest.MonkeyPatch, told: str, number: int
) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", told)
    assert VirtualMachine(names).num_threads == number
    assert VirtualMachine(names, num_threads=2).num_threads == 2


def test_an_environment_that_tells_no_number(names: Executable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", "many")
    with pytest.raises(OptionError, match="TVM_NUM_THREADS is 'many', expected a number of threads"):
        VirtualMachine(names)


def test_the_default_is_what_the_target_says_within_what_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)
    x = relay.var("x", shape=(2,))
    told = [vmkit.compile(relay.Function([x], x), target=f"llvm -num-cores={cores}") for cores in (1, 4096)]
    assert VirtualMachine(told[0]).num_threads == 1
    assert 1 <= VirtualMachine(told[1]).num_threads <= threads.usable_processors()


def test_a_process_bound_to_one_processor_uses_one() -> None:
    code = "from vmkit.runtime import threads; print(threads.usable_processors(), threads.default_threads())"
    environment = {k: v for k, v in os.environ.items() if k not in ("TVM_NUM_THREADS", "OMP_NUM_THREADS")}
    bind = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); "
    told = subprocess.run([sys.executable, "-c", bind + code], capture_output=True, text=True, env=environment)
    assert told.stdout.split() == ["1", "1"], told.stderr


def test_calls_at_the_same_time_divide_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "usable_processors", lambda: 4)
    shares: list[int] = []
    inside = threading.Barrier(2)

    def look() -> None:
        shares.append(threads._setting.threads)

    def outer() -> None:
        def first() -> None:
            look()
            inside.wait()
            inside.wait()

        threads.call_with_threads(4, first, ())  # alone: all four
        threads.call_with_threads(4, look, ())  # the other is done: all four again

    def other() -> None:
        inside.wait()
        threads.call_with_threads(4, look, ())  # nothing is left but the caller's own thread
        inside.wait()

    in_threads([outer, other])
    assert shares == [4, 1, 4]
    assert not threads._calls and not threads._in_use


def test_a_call_that_fails_gives_its_threads_back() -> None:
    for number in (1, 2):
        with pytest.raises(ZeroDivisionError):
            threads.call_with_threads(number, lambda: 1 // 0, ())
    assert not threads._calls and not threads._in_use


def test_calls_of_many_threads_are_counted_right() -> None:
    most: list[int] = []

    def call() -> None:
        for number in range(300):
            threads.call_with_threads(1 + number % 2, lambda: most.append(len(threads._in_use)), ())

    in_threads([call] * 6)
    assert not threads._calls and not threads._in_use
    assert min(most) >= 1 and max(most) <= 12


@pytest.mark.parametrize("num_threads", [1, 2])
def test_one_machine_called_by_many_threads(names: Executable, num_threads: int) -> None:
    machine = VirtualMachine(names, num_threads=num_threads)

    def call(seed: int) -> None:
        generator = np.random.default_rng(seed)
        memory = np.zeros(3 * 64 + 1, "float32")
        for _ in range(100):
            n = int(generator.integers(0, 64))
            # Misaligned as often as not, so that copies in kept memory take part.
            x = memory[1 : 1 + 3 * n].reshape(n, 3) if seed % 2 else np.empty((n, 3), "float32")
            x[...] = generator.random((n, 3), dtype="float32")
            y = generator.random((n, 3), dtype="float32")
            np.testing.assert_allclose(machine.run(x, y).numpy(), 2 * x + y, rtol=1e-6)

    in_threads([lambda seed=seed: call(seed) for seed in range(6)])


@pytest.mark.parametrize("num_threads", [1, 2])
def test_many_machines_of_one_executable(product: Executable, num_threads: int) -> None:
    references = [expected(random(seed)) for seed in range(4)]

    def call(seed: int) -> None:
        machine = VirtualMachine(product, num_threads=num_threads)
        for _ in range(10):
            np.testing.assert_allclose(machine.run(random(seed)).numpy(), references[seed], rtol=1e-5)

    in_threads([lambda seed=seed: call(seed) for seed in range(4)])
