"""Sizes are computed as before by functions that go through few passes: choices, divisions, programs of sizes alone."""

from __future__ import annotations

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.errors import VMError


def test_sizes_that_are_chosen_and_divided_are_right() -> None:
    rows, columns = relay.Any(), relay.Any()
    x = relay.var("x", shape=(1, 2, rows, columns))
    y = relay.var("y", shape=(1, 2, relay.Any(), relay.Any()))
    pooled = relay.nn.max_pool2d(relay.add(x, y), (3, 3), strides=(2, 3), padding=(1, 1))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x, y], pooled), "native"))
    random = np.random.default_rng(0)
    for shape, other in (((7, 9), (7, 1)), ((1, 1), (8, 5)), ((4, 4), (4, 4))):
        given = [random.standard_normal((1, 2, *each)).astype("float32") for each in (shape, other)]
        whole = np.pad(sum(given), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(whole, (3, 3), axis=(2, 3))[:, :, ::2, ::3]
        np.testing.assert_array_equal(machine.run(*given).numpy(), windows.max(axis=(4, 5)))
    with pytest.raises(VMError, match="they neither agree nor is one of them 1"):
        machine.run(*(np.zeros((1, 2, n, 4), "float32") for n in (3, 4)))


def test_a_program_of_sizes_without_a_kernel_runs() -> None:
    x = relay.var("x", shape=(relay.Any(), relay.Any(), 6))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.reshape(x, (-1, 3))), "native"))
    data = np.arange(60, dtype="float32").reshape(2, 5, 6)
    np.testing.assert_array_equal(machine.run(data).numpy(), data.reshape(-1, 3))


def test_a_division_that_is_not_chosen_is_not_computed() -> None:
    n = relay.Any()
    x, step = relay.var("x", shape=(n,)), relay.var("step", shape=(), dtype="int64")
    end = relay.take(relay.shape_of(x, "int64"), relay.const(0))
    counted = relay.arange(relay.const(np.int64(0)), end, step, "int64")
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x, step], counted), "native"))
    for length, by in ((7, 2), (6, 3), (1, 5)):
        got = machine.run(np.zeros(length, "float32"), np.array(by)).numpy()
        np.testing.assert_array_equal(got, np.arange(0, length, by))
