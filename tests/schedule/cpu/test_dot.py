"""Sums along rows have as many partial sums as their steps are worth, and the values that numpy gives."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, s_tir, te, tirx, topi

import vmkit
from vmkit import relay
from vmkit.schedule.cpu import dot

n = tirx.Var("n", "int64")


def partial_sums(*shape: int | tirx.Var, axis: list[int], cpu: str = "znver4") -> int | None:
    x = te.placeholder(shape, name="x")
    schedule = s_tir.Schedule(te.create_prim_func([x, topi.sum(x, axis=axis)]))
    decisions = dot.RULE.decide(schedule, tvm.target.Target({"kind": "llvm", "mcpu": cpu}))
    return None if decisions is None else decisions.lanes


def test_rows_have_a_vector_of_partial_sums_and_very_long_ones_several() -> None:
    assert partial_sums(1001, 60, axis=[1]) == 4
    assert partial_sums(1001, 200, axis=[1]) == 8
    assert partial_sums(1001, 700, axis=[1]) == partial_sums(1001, 701, axis=[1]) == 16
    assert partial_sums(11, 4100, axis=[1]) == 32
    assert partial_sums(12, 4100, axis=[1]) == 16  # several rows go on meanwhile
    assert partial_sums(11, 700, axis=[1], cpu="znver3") == 16


def test_a_sum_over_several_rows_counts_all_of_its_steps() -> None:
    assert partial_sums(3, 11, 100, axis=[0, 2]) == 16
    assert partial_sums(32, 11, 100, axis=[0, 2]) == 32
    assert partial_sums(n, 11, 100, axis=[0, 2]) == 32
    assert partial_sums(300, 11, 12, axis=[0, 2]) == 4


@pytest.mark.parametrize(("shape", "axes"), [((7, 700), [1]), ((5, 4101), [1]), ((32, 3, 100), [0, 2])])
def test_sums_and_extremes(shape: tuple[int, ...], axes: list[int]) -> None:
    values = np.random.default_rng(0).standard_normal(shape).astype("float32")
    for first in (shape[0], relay.Any()):
        x = relay.var("x", shape=(first, *shape[1:]))
        made = relay.Tuple([relay.sum(x, axes), relay.max(x, axes), relay.mean(x * x, axes)])
        machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], made)), "cpu")
        total, most, square = (each.numpy() for each in machine.run(values))
        np.testing.assert_allclose(total, values.sum(tuple(axes), "float64"), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(most, values.max(tuple(axes)))
        np.testing.assert_allclose(square, np.square(values).mean(tuple(axes)), rtol=1e-5)


def test_rows_of_a_number_of_whole_vectors_that_is_not_known() -> None:
    m = tirx.Var("m", "int64")
    shapes = {"x": (3, m // 8 * 8, n // 8 * 8), "y": (n,), "z": (m,)}
    x, *others = (relax.Var(name, relax.TensorType(shape, "float32")) for name, shape in shapes.items())
    builder = relax.BlockBuilder()
    with builder.function("main", [x, *others]):
        flat = builder.emit(relax.op.reshape(x, (3, (m // 8 * 8) * (n // 8 * 8))))
        builder.emit_func_output(builder.emit(relax.op.sum(flat, 1)))
    machine = vmkit.VirtualMachine(vmkit.compile(builder.get()), "cpu")
    for rows, columns in ((8, 0), (8, 8), (16, 40)):
        values = np.random.default_rng(1).random((3, rows, columns), "float32")
        found = machine.run(values, np.zeros(columns, "float32"), np.zeros(rows, "float32")).numpy()
        np.testing.assert_allclose(found, values.sum((1, 2), "float64"), rtol=1e-5)
