"""Kernels that give what they are given are gone; what a program returns is a tensor of its own."""

from __future__ import annotations

import numpy as np

import vmkit
from vmkit import relay
from vmkit.relay.op import build


def kernels(function: relay.Function) -> tuple[list[str], vmkit.VirtualMachine]:
    """Return the kernels that a program calls, and a machine that runs it."""
    with vmkit.PassContext(disabled_pass=["GroupKernels"]):
        executable = vmkit.compile(function, target="llvm")
    return [name for name in executable.primitive_ops if "vm." not in name], vmkit.VirtualMachine(executable)


def stopped(x: relay.Expr) -> relay.Expr:
    return build("annotation.stop_fusion", x)


def test_operators_that_are_kept_apart_have_nothing_between_them() -> None:
    x = relay.var("x", shape=(3, 6))
    apart = relay.negative(stopped(stopped(relay.exp(x))))
    names, machine = kernels(relay.Function([x], apart))
    assert sorted(names) == ["exp", "negative"]
    data = np.random.default_rng(0).random((3, 6), "float32")
    np.testing.assert_allclose(machine.run(data).numpy(), -np.exp(data), rtol=1e-6)


def test_values_that_are_read_on_both_sides_stay_what_they_were() -> None:
    x = relay.var("x", shape=(2, 6))
    before = relay.exp(x)
    names, machine = kernels(relay.Function([x], relay.add(relay.sqrt(stopped(before)), stopped(x))))
    assert not any("stop" in name for name in names)
    data = np.random.default_rng(0).random((2, 6), "float32")
    np.testing.assert_allclose(machine.run(data).numpy(), np.sqrt(np.exp(data)) + data, rtol=1e-6)


def test_results_are_tensors_of_their_own() -> None:
    x = relay.var("x", shape=(2, 6))
    made = relay.exp(x)
    _, machine = kernels(relay.Function([x], relay.Tuple([made, stopped(made), stopped(x)])))
    data = np.random.default_rng(0).random((2, 6), "float32")
    results = [each.numpy() for each in machine.run(data)]
    for result, expected in zip(results, (np.exp(data), np.exp(data), data), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)
    assert len({result.ctypes.data for result in (*results, data)}) == 4
