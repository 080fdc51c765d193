"""Running sums and products, lines of which are computed side by side and shared by cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.relay import var

SHAPES = [(1, 7), (3, 5), (4, 9), (9, 1), (5, 0), (0, 5), (3, 2, 11), (7, 5, 1), (41, 3, 257)]


def running(x: np.ndarray, axis: int, is_exclusive: bool, is_product: bool) -> np.ndarray:
    """Return numpy's result."""
    made: np.ndarray = (np.cumprod if is_product else np.cumsum)(x, axis, dtype=x.dtype)
    if not is_exclusive or not x.shape[axis]:
        return made
    start = np.full_like(np.take(made, [0], axis), 1 if is_product else 0)
    return np.concatenate([start, np.delete(made, -1, axis)], axis)


def program(rank: int, shape: tuple[Any, ...], dtype: str) -> relay.Function:
    """Return every scan along every axis."""
    x = var("x", shape=shape, dtype=dtype)
    made = [
        scan(x, axis, exclusive=is_exclusive)
        for scan in (relay.cumsum, relay.cumprod)
        for axis in range(rank)
        for is_exclusive in (False, True)
    ]
    return relay.Function([x], relay.Tuple(made))


def check(machine: vmkit.VirtualMachine, x: np.ndarray) -> None:
    expected = [running(x, a, e, p) for p in (False, True) for a in range(x.ndim) for e in (False, True)]
    for actual, wanted in zip(machine.run(x), expected, strict=True):
        # One after the other, as numpy adds: the same bits.
        np.testing.assert_array_equal(actual.numpy(), wanted)


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    values = np.random.default_rng(len(shape)).uniform(0.9, 1.1, shape)
    return (values if dtype.startswith("float") else np.round(values * 3)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_scans_of_any_size_are_numpys(dtype: str) -> None:
    for rank in (2, 3):
        function = program(rank, (relay.Any(),) * rank, dtype)
        machine = vmkit.VirtualMachine(vmkit.compile(function, "llvm"), num_threads=2)
        for shape in SHAPES:
            if len(shape) == rank:
                check(machine, drawn(shape, dtype))


@pytest.mark.parametrize("shape", [(3, 5), (4, 9), (41, 3, 257), (2, 3, 1)])
def test_scans_of_known_sizes_are_numpys(shape: tuple[int, ...]) -> None:
    function = program(len(shape), shape, "float32")
    check(vmkit.VirtualMachine(vmkit.compile(function, "llvm"), num_threads=2), drawn(shape, "float32"))


@pytest.mark.parametrize("count", [3, 400])
def test_the_largest_of_shared_lines_are_those_of_each(count: int) -> None:
    x = var("x", shape=(relay.Any(), 100, 3))
    values, places = relay.topk(x, 5, axis=1)
    machine = vmkit.VirtualMachine(
        vmkit.compile(relay.Function([x], relay.Tuple([values, places])), "llvm"), num_threads=2
    )
    given = np.random.default_rng(0).permutation(count * 300).reshape(count, 100, 3).astype("float32")
    order = np.argsort(-given, 1)[:, :5]
    largest, at = machine.run(given)
    np.testing.assert_array_equal(at.numpy(), order)
    np.testing.assert_array_equal(largest.numpy(), np.take_along_axis(given, order, 1))
