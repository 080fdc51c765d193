"""Dimensions that are long expressions get names: what is computed stays the same, in linear time."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

import vmkit
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay.lower import lower_module
from vmkit.relay.transform import infer_module

Any = relay.Any


def program(params: list[relay.Var], body: relay.Expr) -> tvm.IRModule:
    return tvm.IRModule({"main": relay.Function(params, body)})


def machine(mod: tvm.IRModule) -> vmkit.VirtualMachine:
    return vmkit.VirtualMachine(vmkit.compile(mod, "llvm"), "cpu")


def sum_of(count: int) -> tvm.IRModule:
    """Return the sum of vectors, each of an unknown size of its own, and once more of the first."""
    xs = [relay.var(f"x{k}", shape=(Any(),)) for k in range(count)]
    value: relay.Expr = xs[0]
    for x in [*xs[1:], xs[0]]:
        value = relay.add(value, x)
    return program(xs, value)


def longest(mod: tvm.IRModule) -> int:
    """Return of how many parts the longest dimension in a lowered module is."""
    found: list[int] = []

    def visit(shape: relax.ShapeExpr) -> None:
        for value in shape.values:
            parts: list[tvm.ir.Expr] = []
            tvm_ffi.structural_walk(value, (tvm.ir.Expr, parts.append))
            found.append(len(parts))

    def types(var: relax.Var) -> None:
        if isinstance(var.ty, relax.TensorType) and isinstance(var.ty.shape, relax.ShapeExpr):
            visit(var.ty.shape)

    lowered = lower_module(infer_module(mod), tvm.target.Target("llvm")).module
    tvm_ffi.structural_walk(lowered["main"], (relax.Var, types))
    return max(found)


@pytest.mark.parametrize("sizes", [(3,) * 12, (1, 3) * 6, (1,) * 11 + (3,), (3,) + (1,) * 11, (1,) * 12, (0, 1) * 6])
def test_a_sum_of_many_unknown_sizes_is_numpys(sizes: tuple[int, ...]) -> None:
    given = [np.arange(size, dtype="float32") + k for k, size in enumerate(sizes)]
    expected = given[0] + sum(given[1:], given[0])
    np.testing.assert_allclose(machine(sum_of(12)).run(*given).numpy(), expected)


@pytest.mark.parametrize("position", [1, 5, 11])
def test_a_size_that_does_not_fit_is_an_error_wherever_it_is(position: int) -> None:
    given = [np.ones(4 if k == position else 3, "float32") for k in range(12)]
    with pytest.raises(VMError, match=r"add: dimension 0 is \d in one input and \d in another"):
        machine(sum_of(12)).run(*given)


def test_dimensions_do_not_grow_with_the_program() -> None:
    assert longest(sum_of(40)) == longest(sum_of(20)) < 64


@pytest.mark.parametrize("size", [1, 7, 39, 50])
def test_slices_of_slices_are_numpys(size: int) -> None:
    x = relay.var("x", shape=(Any(), 2))
    value: relay.Expr = x
    given = np.arange(size * 2, dtype="float32").reshape(size, 2)
    expected = given
    for k in range(30):
        begin, end = (0, 40 - k) if k % 5 else (1, 45 - k)
        value, expected = relay.tanh(relay.strided_slice(value, [begin], [end])), np.tanh(expected[begin:end])
    result = machine(program([x], value)).run(given).numpy()
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_joined_pieces_of_unknown_sizes_are_numpys() -> None:
    xs = [relay.var(f"x{k}", shape=(Any(),)) for k in range(40)]
    given = [np.arange(k % 4, dtype="float32") + k for k in range(40)]
    value: relay.Expr = xs[0]
    for x in xs[1:]:
        value = relay.concatenate([value, x], 0)
    both = relay.Tuple([value, relay.concatenate(xs, 0), relay.reshape(value, (-1, 1))])
    chain, once, column = machine(program(xs, both)).run(*given)
    for each in (chain, once):
        np.testing.assert_array_equal(each.numpy(), np.concatenate(given))
    np.testing.assert_array_equal(column.numpy(), np.concatenate(given)[:, None])


def test_short_dimensions_stay_expressions() -> None:
    n = tvm.tirx.Var("n", "int64")
    x = relay.var("x", shape=(n, 4))
    value = relay.concatenate([relay.concatenate([x, x], 0), relay.const(np.ones((1, 4), "float32"))], 0)
    text = lower_module(infer_module(program([x], value)), tvm.target.Target("llvm")).module["main"].script()
    assert "n * 2 + 1" in text
    assert "vm.builtin.copy" not in text


def test_shapes_computed_from_shapes_are_numpys() -> None:
    x = relay.var("x", shape=(Any(), 4))
    rows = relay.take(relay.shape_of(x, "int64"), relay.const(0))
    expected = 6
    for k in range(24):
        if k % 2:
            rows, expected = relay.floor_divide(rows, relay.const(2, "int64")), expected // 2
        else:
            rows = relay.add(relay.multiply(rows, relay.const(2, "int64")), relay.const(k, "int64"))
            expected = expected * 2 + k
    shape = relay.stack([rows, relay.const(1, "int64")], 0)
    result = machine(program([x], relay.broadcast_to(relay.const(1.0), shape))).run(np.zeros((6, 4), "float32"))
    assert result.numpy().shape == (expected, 1)


def test_branches_within_branches_are_grouped_by_what_each_reads() -> None:
    x, c = relay.var("x", shape=(3, 3)), relay.var("c", shape=(), dtype="bool")
    value: relay.Expr = x
    for k in range(12):
        inner = relay.nn.softmax(relay.nn.dense(value, x))
        value = relay.If(c, relay.nn.softmax(relay.nn.dense(x, x)), relay.add(inner, relay.const(float(k))))
    run = machine(program([x, c], value))
    given = np.arange(9, dtype="float32").reshape(3, 3) / 9

    def dense(a: np.ndarray) -> np.ndarray:
        powers = np.exp(a @ given.T)
        return powers / powers.sum(-1, keepdims=True)

    expected = given
    for k in range(12):
        expected = dense(expected) + k
    np.testing.assert_allclose(run.run(given, np.array(False)).numpy(), expected, rtol=1e-4)
    np.testing.assert_allclose(run.run(given, np.array(True)).numpy(), dense(given), rtol=1e-4)
