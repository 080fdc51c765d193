"""Rows of a few elements are reduced in vectors of rows, and give what numpy says of them."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, s_tir, te, topi

import vmkit
from vmkit import relay
from vmkit.schedule.cpu import short_rows

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "znver3"})


def is_taken(*shape: int, axis: int | list[int] = -1) -> bool:
    x = te.placeholder(shape, name="x")
    schedule = s_tir.Schedule(te.create_prim_func([x, topi.sum(x, axis=axis)]))
    return short_rows.RULE.decide(schedule, TARGET) is not None


def test_rows_are_taken_that_fill_no_vector_and_of_which_there_are_enough() -> None:
    assert is_taken(100, 10)
    assert is_taken(100, 3, 5, axis=[1, 2])
    assert is_taken(7, 8, 19)
    assert not is_taken(100, 8)  # which LLVM shuffles
    assert not is_taken(100, 12)  # which vectors divide
    assert not is_taken(100, 21)
    assert not is_taken(3, 10)
    assert not is_taken(10, 100, axis=0)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8"])
@pytest.mark.parametrize("width", [9, 10, 15, 17])
def test_reductions_of_short_rows(width: int, dtype: str) -> None:
    """Of so many rows that vectors divide them and that they do not, and of fewer than a vector has."""
    x = relay.var("x", shape=(relay.Any(), relay.Any(), width), dtype=dtype)
    made = [relay.sum(x, -1), relay.max(x, -1, keepdims=True), relay.argmax(x, -1), relay.argmin(x, -1, keepdims=True)]
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.Tuple(made))), "cpu")
    random = np.random.default_rng(0)
    for shape in ((1, 1), (2, 3), (1, 16), (3, 17), (2, 40), (0, 4), (4, 0)):
        values = random.integers(0, 7, (*shape, width)).astype(dtype)  # several of which are the largest
        results = [each.numpy() for each in machine.run(values)]
        np.testing.assert_array_equal(results[0], values.sum(-1, dtype=dtype))
        np.testing.assert_array_equal(results[1], values.max(-1, keepdims=True))
        np.testing.assert_array_equal(results[2], values.argmax(-1))
        np.testing.assert_array_equal(results[3], values.argmin(-1)[..., None])


def test_reductions_of_short_rows_of_known_number() -> None:
    x = relay.var("x", shape=(5, 37, 11))
    made = relay.Tuple([relay.sum(relay.abs(x), -1), relay.argmax(x, -1), relay.sqrt(relay.mean(x * x, [1, 2]))])
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], made)), "cpu")
    values = np.random.default_rng(1).standard_normal((5, 37, 11)).astype("float32")
    results = [each.numpy() for each in machine.run(values)]
    np.testing.assert_allclose(results[0], np.abs(values).sum(-1), rtol=1e-5)
    np.testing.assert_array_equal(results[1], values.argmax(-1))
    np.testing.assert_allclose(results[2], np.sqrt((values * values).mean((1, 2))), rtol=1e-5)


@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_positions_of_extremes_in_rows_of_any_length(name: str) -> None:
    """Of Relax's operators, whose kernels bind what they compare; what vectors leave over binds values of its own."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([tvm.tirx.Var(d, "int64") for d in "mn"], "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(getattr(relax.op, name)(x, -1)))
    machine = vmkit.VirtualMachine(vmkit.compile(builder.get()), "cpu")
    for shape in ((3, 9), (2, 16), (4, 35), (1, 1), (5, 130)):
        values = np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype("float32")
        np.testing.assert_array_equal(machine.run(values).numpy(), getattr(np, name)(values, -1))
