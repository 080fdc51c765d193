"""Machines that may use so much memory: what is beyond is refused before it is allocated, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.errors import OptionError, VMError
from vmkit.executable.executable import Executable
from vmkit.relay.loops import while_loop

MIB = 1 << 20


@pytest.fixture(scope="module")
def wide() -> Executable:
    """Return a program whose result is as large as its input says: a few small pieces and one of that size."""
    shape = relay.var("s", shape=(2,), dtype="int64")
    return vmkit.compile(relay.Function([shape], relay.nn.relu(relay.broadcast_to(relay.const(1.0), shape))), "llvm")


def of(rows: int) -> np.ndarray:
    """Return the input for a result of so many rows of 4 KiB."""
    return np.array([rows, 1024])


def test_a_result_that_is_too_large_is_refused_and_the_next_call_runs(wide: Executable) -> None:
    machine = vmkit.VirtualMachine(wide, "cpu", num_threads=1, max_memory=9 * MIB)
    with pytest.raises(VMError, match=r"^main failed: the call needs 4 GiB more, and .* allows 9 MiB together"):
        machine.run(of(1 << 20))
    for rows in (1000, 900, 1000):
        assert machine.run(of(rows)).numpy().sum() == rows * 1024


def test_results_count_for_as_long_as_they_are_there(wide: Executable) -> None:
    machine = vmkit.VirtualMachine(wide, "cpu", num_threads=1, max_memory=4 * MIB)
    kept = [machine.run(of(400)) for _ in range(2)]
    with pytest.raises(VMError, match="free results"):
        machine.run(of(400))
    np.testing.assert_array_equal(kept[1].numpy(), np.ones((400, 1024)))
    kept.pop(0)  # the last one is kept by the machine, too
    assert machine.run(of(400)).numpy().sum() == 400 * 1024


def test_sizes_that_differ_from_call_to_call_do_not_add_up(wide: Executable) -> None:
    machine = vmkit.VirtualMachine(wide, "cpu", num_threads=1, max_memory=2 * MIB)
    for rows in range(100, 240):
        assert machine.run(of(rows)).numpy().shape == (rows, 1024)
    budget = machine._instance.limits.budget
    assert budget is not None and budget._in_use + budget._pooled <= 2 * MIB


def test_what_a_loop_leaves_behind_does_not_count() -> None:
    i, x = relay.var("i", shape=(), dtype="int32"), relay.var("x", shape=(relay.Any(),))
    found = while_loop(
        lambda i, _: relay.greater(i, relay.const(0)),
        [i, x],
        lambda i, x: [
            relay.subtract(i, relay.const(1)),
            relay.concatenate([relay.strided_slice(x, [1], [(1 << 63) - 1]), relay.const([7.0])], 0),
        ],
    )
    count, start = relay.var("n", shape=(), dtype="int32"), relay.var("s", shape=(relay.Any(),))
    executable = vmkit.compile(relay.Function([count, start], relay.TupleGetItem(found(count, start), 1)), "llvm")
    machine = vmkit.VirtualMachine(executable, "cpu", num_threads=1, max_memory=MIB)
    result = machine.run(np.int32(300), np.zeros(8192, "float32"))
    np.testing.assert_array_equal(result.numpy(), [0.0] * (8192 - 300) + [7.0] * 300)
    with pytest.raises(VMError, match="max_memory"):
        machine.run(np.int32(3), np.zeros(1 << 18, "float32"))


def test_calls_that_write_into_given_tensors_are_limited_too(wide: Executable) -> None:
    x = relay.var("x", shape=(relay.Any(),))
    program = relay.Function([x], relay.sort(relay.nn.softmax(x)))
    machine = vmkit.VirtualMachine(vmkit.compile(program, "llvm"), "cpu", num_threads=1, max_memory=MIB)
    for size, is_allowed in ((1000, True), (1 << 20, False), (1000, True)):
        target = vmkit.VirtualMachine(wide, "cpu").run(np.array([1, size])).numpy()[0].copy()
        given = [relay.const(target).data]
        if is_allowed:
            machine.invoke_with_outputs("main", {"x": np.zeros(size, "float32")}, given)
            np.testing.assert_allclose(given[0].numpy(), np.full(size, 1 / size), rtol=1e-5)
        else:
            with pytest.raises(VMError, match="max_memory"):
                machine.invoke_with_outputs("main", {"x": np.zeros(size, "float32")}, given)


@pytest.mark.parametrize("most", [0, -1, True, 1.5, "1"])
def test_a_limit_that_is_none_is_refused(wide: Executable, most: object) -> None:
    with pytest.raises(OptionError, match=r"max_memory is .*, expected a number of bytes, at least 1"):
        vmkit.VirtualMachine(wide, "cpu", max_memory=most)
