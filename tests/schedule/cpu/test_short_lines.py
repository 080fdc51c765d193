"""Lines of a few elements are computed in vectors that are written out, and keep their values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import te, tirx, topi

import vmkit
from tests.schedule.kernels import kernel
from vmkit import relay
from vmkit.schedule import cpu as rules

n = tirx.Var("n", "int64")
TARGET = tvm.target.Target("llvm")


def vectors(compute: Callable[..., te.Tensor], *shapes: tuple[int | tirx.Var, ...]) -> list[int]:
    """Return how many elements the vectors of a scheduled kernel have, in their order."""
    module = rules.schedule_kernels(kernel(compute, *shapes).mod, TARGET)
    found: list[int] = []

    def note(loop: tirx.For) -> None:
        if loop.kind == tirx.ForKind.VECTORIZED:
            found.append(int(loop.extent))

    tvm_ffi.structural_walk(module["main"].body, (tirx.For, note))
    return found


def scaled(x: te.Tensor, by: te.Tensor) -> te.Tensor:
    return topi.multiply(x, by)


def test_a_line_is_whole_vectors_and_parts() -> None:
    assert vectors(scaled, (n, 16), (n, 1)) == [16]
    assert sorted(vectors(scaled, (n, 45), (n, 1))) == [4, 8, 16, 16]
    assert vectors(scaled, (n, 5), (n, 1)) == [4]


def test_other_lines_are_left_to_the_compiler() -> None:
    assert not vectors(scaled, (n, 48), (n, 1))  # long
    assert not vectors(scaled, (n, 4), (n, 1))  # very short
    assert not vectors(scaled, (16,), (1,))  # alone
    assert not vectors(lambda x: topi.nn.pad(x, (0, 1), (0, 1)), (n, 15))  # some are not read
    assert not vectors(lambda x: te.compute((9, 16), lambda i, j: x[j, 0]), (16, 4))  # far from each other
    assert not vectors(lambda x: te.compute((n, 8), lambda i, j: x[i, 2 * j]), (n, 16))
    assert not vectors(topi.greater, (n, 16), (n, 1))  # of bits


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("width", [5, 10, 16, 31, 47])
def test_lines_that_are_scaled_have_their_values(width: int, dtype: str) -> None:
    random = np.random.default_rng(0)
    values = random.integers(0, 5, (6, 7, width)).astype(dtype)
    column, row = (random.integers(1, 5, shape).astype(dtype) for shape in ((6, 7, 1), (width,)))
    x, c = (relay.var(name, shape=(relay.Any(), 7, size), dtype=dtype) for name, size in (("x", width), ("c", 1)))
    r = relay.const(row)
    if dtype == "bool":
        made, expected = relay.logical_and(relay.logical_or(x, c), r), (values | column) & row
    else:
        made, expected = relay.maximum(x * c + r, c), np.maximum(values * column + row, column)
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x, c], made)), "cpu")
    np.testing.assert_array_equal(machine.run(values, column).numpy(), expected)


def test_functions_along_lines_have_their_values() -> None:
    random = np.random.default_rng(1)
    values, column = (random.uniform(0.1, 3, shape).astype("float32") for shape in ((9, 4, 21), (9, 4, 1)))
    x, c = relay.var("x", shape=(9, relay.Any(), 21)), relay.var("c", shape=(9, relay.Any(), 1))
    made = relay.exp(x - c) * relay.rsqrt(c) + relay.where(relay.greater(x, c), relay.tanh(x), relay.log(x))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x, c], made)), "cpu")
    expected = np.exp(values - column) / np.sqrt(column) + np.where(values > column, np.tanh(values), np.log(values))
    np.testing.assert_allclose(machine.run(values, column).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_columns_of_a_softmax_are_vectors_in_sums_and_elements() -> None:
    assert vectors(lambda x: topi.nn.log_softmax(x, 1), (n, 9, 33)).count(16) >= 2 * 3
    assert set(vectors(lambda x: topi.nn.softmax(x, 1), (n, 9, 6))) == {2, 4}
    assert not vectors(lambda x: topi.nn.softmax(x, 1), (n, 9, 50))


@pytest.mark.parametrize("width", [5, 6, 9, 15, 16, 33, 47])
def test_softmax_of_few_columns_has_its_values(width: int) -> None:
    values = np.random.default_rng(width).normal(scale=30, size=(3, 50, width)).astype("float32")
    values[0, 3, 0], values[0, 4, 1], values[1, :, 2], values[2, 5, 3] = np.nan, np.inf, -np.inf, 3e38
    values[1, 7, 4], values[2, :, 4] = -3e38, 88.5
    with np.errstate(all="ignore"):
        shifted = values.astype("float64") - values.max(axis=1, keepdims=True)
        total = np.exp(shifted).sum(axis=1, keepdims=True)
        wanted = np.exp(shifted) / total, shifted - np.log(total)
    for shape in ((3, 50, width), (relay.Any(), relay.Any(), width)):
        x = relay.var("x", shape=shape)
        both = relay.Tuple([relay.nn.softmax(x, 1), relay.nn.log_softmax(x, 1)])
        machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], both), "native"))
        for got, expected in zip(machine.run(values), wanted, strict=True):
            ordinary = np.isfinite(expected).all(axis=1, keepdims=True) & np.ones_like(values, bool)
            np.testing.assert_allclose(got.numpy()[ordinary], expected[ordinary], rtol=2e-5, atol=2e-5)
            assert np.isnan(got.numpy()[~ordinary & np.isnan(expected)]).any()
