"""Memory whose size is known at run time only is used again by tensors of other sizes, and none while it is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

import vmkit
from vmkit import relay

n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")


def storages(executable: vmkit.Executable) -> int:
    """Return how often an executable allocates memory for what lies between its kernels."""
    return executable.bytecode.count("alloc_storage(")


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def wider(x: Any, factor: int) -> Any:
    """Return rows that are some times as wide, by a kernel that fuses with no other of its kind."""
    return relay.nn.softmax(relay.concatenate([relay.multiply(x, relay.const(float(k))) for k in range(factor)], 1))


def wider_too(x: np.ndarray, factor: int) -> np.ndarray:
    return softmax(np.concatenate([x * np.float32(k) for k in range(factor)], 1))


def digest(x: Any) -> Any:
    """Return a number of each row that says where in it what is; the sum alone of a softmax is 1 always."""
    return relay.sum(relay.power(x, relay.const(2.0)), axis=[1]) + relay.take(x, relay.const(0), axis=1, mode="clip")


def digested(x: np.ndarray) -> np.ndarray:
    return (x**2).sum(1) + x[:, 0]


def run(executable: vmkit.Executable, *arrays: np.ndarray) -> Any:
    return vmkit.VirtualMachine(executable).run(*arrays)


def test_a_chain_of_tensors_of_any_sizes_lies_in_two_places() -> None:
    x = relay.var("x", shape=(n, 3))
    y: Any = x
    for factor in (2, 3, 1, 2, 1):
        y = wider(y, factor)
    # Kernels of a run share one workspace in its place.
    with vmkit.PassContext(opt_level=3, disabled_pass=["GroupKernels"]):
        executable = vmkit.compile(relay.Function([x], y), target="llvm")
    for size in (0, 1, 5):
        a = np.random.default_rng(size).random((size, 3), "float32")
        expected = a
        for factor in (2, 3, 1, 2, 1):
            expected = wider_too(expected, factor)
        np.testing.assert_allclose(run(executable, a).numpy(), expected, rtol=1e-5)
    assert storages(executable) == 2 + 1, "and one for the result"


def test_what_is_needed_later_keeps_its_memory() -> None:
    x = relay.var("x", shape=(n, 4))
    first = wider(x, 1)
    view = relay.reshape(first, newshape=(-1, 2))
    a = wider(first, 2)
    b = wider(a, 2)
    parts = relay.split(b, indices_or_sections=2, axis=1)
    both = relay.add(relay.nn.softmax(parts[0]), relay.nn.softmax(parts[1]))
    late = relay.reshape(relay.nn.softmax(view), newshape=(-1, 4))
    result = relay.Tuple([digest(both), digest(relay.multiply(late, first)), a])
    executable = vmkit.compile(relay.Function([x], result), target="llvm")
    for size in (1, 3):
        values = np.random.default_rng(size).random((size, 4), "float32")
        one = wider_too(values, 1)
        two = wider_too(one, 2)
        four = wider_too(two, 2)
        sums, products, wide = (each.numpy() for each in run(executable, values))
        np.testing.assert_allclose(sums, digested(softmax(four[:, :8]) + softmax(four[:, 8:])), rtol=1e-5)
        np.testing.assert_allclose(products, digested(softmax(one.reshape(-1, 2)).reshape(-1, 4) * one), rtol=1e-5)
        np.testing.assert_allclose(wide, two, rtol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_compute_what_they_say(seed: int) -> None:
    random = np.random.default_rng(seed)
    x, y = relay.var("x", shape=(n, 4)), relay.var("y", shape=(m, 4))
    arrays = [random.random((size, 4), "float32") for size in (3, 5)]
    made: list[tuple[Any, np.ndarray]] = [(x, arrays[0]), (y, arrays[1])]
    for _ in range(14):
        value, expected = made[random.integers(max(0, len(made) - 5), len(made))]
        factor = int(random.integers(1, 4)) if expected.shape[1] < 40 else 1
        made.append((wider(value, factor), wider_too(expected, factor)))
    sums = relay.Tuple([digest(value) for value, _ in made[2:]])
    executable = vmkit.compile(relay.Function([x, y], sums), target="llvm")
    results = run(executable, *arrays)
    for result, (_, expected) in zip(results, made[2:], strict=True):
        np.testing.assert_allclose(result.numpy(), digested(expected), rtol=1e-4)


def test_branches_keep_the_memory_that_they_had() -> None:
    x, condition = relay.var("x", shape=(n, 4)), relay.var("condition", shape=(), dtype="bool")
    arms = [wider(wider(x, factor), 2) for factor in (2, 3)]
    narrow = relay.If(condition, *(digest(arm) for arm in arms))
    mod = tvm.IRModule({"main": relay.Function([condition, x], relay.exp(narrow))})
    executable = vmkit.compile(mod, target="llvm")
    a = np.random.default_rng(0).random((3, 4), "float32")
    for which, factor in ((True, 2), (False, 3)):
        expected = np.exp(digested(wider_too(wider_too(a, factor), 2)))
        np.testing.assert_allclose(run(executable, np.array(which), a).numpy(), expected, rtol=1e-5)
