"""Where groups of kernels end: layers that are equal are one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import tirx

import vmkit
from vmkit import relay
from vmkit.relax.kernel_groups import segments

n = tirx.Var("n", "int64")
RNG = np.random.default_rng(0)
Numpys = Callable[[np.ndarray], np.ndarray]


@pytest.fixture(autouse=True)
def small_layers_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_REPEATED_BYTES", 1 << 10)


def softmax(value: np.ndarray) -> np.ndarray:
    powers = np.exp(value)
    return powers / powers.sum(-1, keepdims=True)


def block(x: relay.Expr, width: int, products: int) -> tuple[relay.Expr, Numpys]:
    """Return a layer of several kernels that adds to what it is given, and numpy's form of it."""
    weights = [RNG.standard_normal((width, width)).astype("float32") / width for _ in range(products)]
    y = x
    for weight in weights:
        y = relay.nn.softmax(relay.nn.dense(y, relay.const(weight)))

    def expected(value: np.ndarray) -> np.ndarray:
        made = value
        for weight in weights:
            made = softmax(made @ weight.T)
        return value + made

    return relay.add(x, y), expected


def blocks(
    x: relay.Expr, widths: list[int], products: int = 2
) -> tuple[list[relay.Expr], Callable[[np.ndarray], list[np.ndarray]]]:
    """Return what each of some layers makes; between layers of different widths the last columns are left out."""
    results, numpys = [], []
    for before, width in zip([widths[0], *widths], widths, strict=False):
        if width != before:
            x = relay.strided_slice(x, [0], [width], axes=[1])
        x, numpy = block(x, width, products)
        results.append(x)
        numpys.append(numpy)

    def expected(value: np.ndarray) -> list[np.ndarray]:
        made = []
        for width, numpy in zip(widths, numpys, strict=True):
            value = numpy(value[:, :width])
            made.append(value)
        return made

    return results, expected


def groups_called(executable: vmkit.Executable) -> list[str]:
    """Return the calls of groups, in their order."""
    calls = [line.split("invoke_packed ", 1)[-1] for line in executable.bytecode.splitlines()]
    return [call for call in calls if call.startswith("kernel_group")]


def check(executable: vmkit.Executable, width: int, rows: list[int], expected: Callable[..., Any]) -> None:
    machine = vmkit.VirtualMachine(executable)
    for size in rows:
        value = RNG.standard_normal((size, width)).astype("float32")
        for result, wanted in zip(machine.run(value), expected(value), strict=True):
            np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [n, 3])
def test_layers_that_are_equal_are_one_function(rows: Any) -> None:
    x = relay.var("x", shape=(rows, 16))
    results, expected = blocks(relay.nn.softmax(x), [16] * 8)
    executable = vmkit.compile(relay.Function([x], relay.Tuple([relay.nn.softmax(results[-1])])), target="llvm")
    assert "invoke_packed nn_" not in executable.bytecode  # the kernels before and after the layers are in groups, too
    names = [call.split("(")[0] for call in groups_called(executable)]
    assert len(names) >= 7 and max(map(names.count, names)) >= 6
    assert len(executable.info.kernel_groups or {}) == len(set(names)) <= 3
    check(executable, 16, [3] if rows == 3 else [1, 0, 5, 70], lambda value: [softmax(expected(softmax(value))[-1])])


def test_what_layers_give_to_others_than_the_next_is_kept() -> None:
    x = relay.var("x", shape=(n, 16))
    results, expected = blocks(x, [16] * 6)
    sums = [relay.add(results[0], results[4]), results[2], relay.reshape(results[5], (-1, 4, 4))]
    executable = vmkit.compile(relay.Function([x], relay.Tuple(sums)), target="llvm")
    assert len(groups_called(executable)) >= 5

    def wanted(value: np.ndarray) -> list[np.ndarray]:
        made = expected(value)
        return [made[0] + made[4], made[2], made[5].reshape(-1, 4, 4)]

    check(executable, 16, [4, 9], wanted)


def test_two_chains_of_layers_are_each_one_function() -> None:
    x = relay.var("x", shape=(n, 24))
    results, expected = blocks(x, [24] * 5 + [16] * 5)
    executable = vmkit.compile(relay.Function([x], relay.Tuple(results[-1:])), target="llvm")
    names = [call.split("(")[0] for call in groups_called(executable)]
    assert sorted(map(names.count, set(names)))[-2:] >= [3, 3]
    check(executable, 24, [4, 9], lambda value: expected(value)[-1:])


def test_kernels_that_do_not_repeat_are_cut_as_if_none_did(monkeypatch: pytest.MonkeyPatch) -> None:
    x = relay.var("x", shape=(n, 40))
    results, expected = blocks(x, [40 - 2 * at for at in range(10)])
    function = relay.Function([x], relay.Tuple(results[-1:]))
    executable = vmkit.compile(function, target="llvm")
    monkeypatch.setattr(segments, "repeats", lambda _: [])
    assert vmkit.compile(function, target="llvm").bytecode == executable.bytecode
    check(executable, 40, [4], lambda value: expected(value)[-1:])


def test_small_layers_stay_in_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_REPEATED_BYTES", 1 << 20)
    x = relay.var("x", shape=(n, 16))
    results, expected = blocks(x, [16] * 8)
    executable = vmkit.compile(relay.Function([x], relay.Tuple(results[-1:])), target="llvm")
    assert len(groups_called(executable)) == 1
    check(executable, 16, [4], lambda value: expected(value)[-1:])


def test_layers_larger_than_a_group_are_cut_within(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_MOST_TENSORS", 4)
    x = relay.var("x", shape=(n, 16))
    results, expected = blocks(x, [16] * 5, products=4)
    executable = vmkit.compile(relay.Function([x], relay.Tuple(results[-1:])), target="llvm")
    names = [call.split("(")[0] for call in groups_called(executable)]
    assert len(names) == 10 and len(set(names)) == 2
    check(executable, 16, [4], lambda value: expected(value)[-1:])


@pytest.mark.parametrize("rows", [n, 3])
def test_a_group_leaves_no_more_tensors_than_its_function_can_take(rows: Any) -> None:
    x = relay.var("x", shape=(rows, 300))
    function = relay.Function([x], relay.split(x, 150, axis=1).astuple())
    executable = vmkit.compile(function, target="llvm")
    tensors = [call.count("%") for call in groups_called(executable)]
    assert len(tensors) >= 3 and max(tensors) <= segments._MOST_TENSORS + 4  # its result, workspace and sizes, too
    check(executable, 300, [3] if rows == 3 else [1, 0, 5], lambda value: np.split(value, 150, axis=1))
