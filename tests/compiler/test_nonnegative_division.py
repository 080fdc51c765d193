"""Indices are divided by sizes without a test of signs, and what may be negative is divided as before."""

from __future__ import annotations

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as T

from vmkit import compile as compiled
from vmkit import relay
from vmkit.compiler.nonnegative_division import divide_nonnegative
from vmkit.runtime import VirtualMachine


@T.prim_func(s_tir=True)
def kernel(a: T.handle, b: T.handle, shift: T.int64):  # type: ignore[no-untyped-def]
    rows, columns = T.int64(), T.int64()
    x = T.match_buffer(a, (rows, columns), "int64")
    y = T.match_buffer(b, (rows, columns), "int64")
    for i in range(rows * columns):
        y[i // columns, i % columns] = (x[i // columns, i % columns] - 5) // columns + (i - shift) % rows + i // 4


def kinds(function: tirx.PrimFunc) -> dict[str, int]:
    """Return how many divisions of each kind there are."""
    found: list[str] = []
    every = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)
    tvm_ffi.structural_walk(function.body, (every, lambda node: found.append(type(node).__name__)))
    return {name: found.count(name) for name in sorted(set(found))}


def test_only_what_is_not_negative_is_divided_by_the_machine() -> None:
    made = divide_nonnegative(tvm.IRModule({"main": kernel}))["main"]
    # i by columns in two indices each; values, what a scalar is taken from, and a constant divisor stay.
    assert kinds(made) == {"Div": 2, "FloorDiv": 2, "FloorMod": 1, "Mod": 2}


@T.prim_func(s_tir=True)
def wide(a: T.handle):  # type: ignore[no-untyped-def]
    size = T.int32()
    x = T.match_buffer(a, (size,), "int64")
    for i in range(size):
        x[i] = T.cast(i, "int64") // T.cast(size, "int64") + T.cast(i, "int64") // T.cast(x[i], "int64")


def test_sizes_may_be_of_another_width() -> None:
    assert kinds(divide_nonnegative(tvm.IRModule({"main": wide}))["main"]) == {"Div": 1, "FloorDiv": 1}


def test_values_that_are_negative_are_rounded_down_by_sizes() -> None:
    x = relay.var("x", shape=(relay.Any(), relay.Any()), dtype="int64")
    size = relay.cast(relay.take(relay.shape_of(x), relay.const(1)), "int64")
    function = relay.Function([x], relay.add(relay.floor_divide(x, size), relay.floor_mod(x, size)))
    machine = VirtualMachine(compiled(tvm.IRModule.from_expr(function), "llvm"))
    for rows, columns in ((1, 7), (3, 5), (4, 1)):
        given = np.arange(-9, rows * columns - 9).reshape(rows, columns)
        np.testing.assert_array_equal(machine.run(given).numpy(), given // columns + given % columns)


def test_a_long_value_at_indices_by_sizes_is_that_of_numpy() -> None:
    # A layer normalisation in parts and a GELU, transposed: each element is read at places that sizes divide.
    dims = [relay.Any(), relay.Any(), relay.Any()]
    x, spread = relay.var("x", shape=(*dims, 32)), relay.var("spread", shape=(*dims, 32))
    mean, bias = relay.var("mean", shape=(*dims, 1)), relay.var("bias", shape=(32,))
    value = x * spread + (mean * spread + bias)
    gelu = (
        relay.const(0.5) * value * (relay.const(1.0) + relay.tanh(relay.const(0.8) * (value + value * value * value)))
    )
    function = relay.Function([x, spread, mean, bias], relay.transpose(gelu, [0, 3, 1, 2]))
    machine = VirtualMachine(compiled(tvm.IRModule.from_expr(function), "llvm"))
    rng = np.random.default_rng(0)
    for shape in ((1, 2, 3), (2, 5, 7), (2, 33, 16)):
        sizes = (*shape, 32), (*shape, 32), (*shape, 1), (32,)
        a, s, m, b = (rng.standard_normal(size).astype("float32") for size in sizes)
        v = a * s + (m * s + b)
        want = (0.5 * v * (1 + np.tanh(0.8 * (v + v * v * v)))).transpose(0, 3, 1, 2)
        np.testing.assert_allclose(machine.run(a, s, m, b).numpy(), want, rtol=1e-3, atol=1e-4)
