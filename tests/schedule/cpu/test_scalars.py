"""Scalars that choices read, or elements behind a test of their place, are read before the loops, and only those."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import te, tirx

from vmkit.schedule.cpu.scalars import with_scalars_first
from vmkit.schedule.expressions import loads_in


def kernel() -> tirx.PrimFunc:
    x, limit, slope = (te.placeholder(shape, "float32", name) for shape, name in (((9,), "x"), ((), "a"), ((), "b")))
    grown = te.compute((9,), lambda i: x[i] + slope(), name="grown")
    chosen = te.compute((9,), lambda i: tirx.Select(grown[i] > limit(), grown[i], grown[i] * limit()), name="chosen")
    return te.create_prim_func([x, limit, slope, chosen])


def test_a_choice_reads_no_scalar_and_values_stay() -> None:
    changed = with_scalars_first(kernel())
    choices: list[tirx.Select] = []
    tvm_ffi.structural_walk(changed.body, (tirx.Select, choices.append))
    (choice,) = choices
    assert {len(load.indices) for load in loads_in(choice)} == {1}
    bound: list[tirx.Bind] = []
    tvm_ffi.structural_walk(changed.body, (tirx.Bind, bound.append))
    assert [bind.var.name for bind in bound] == ["a_value"]  # no choice reads the other

    x = np.linspace(-1, 1, 9, dtype="float32")
    result = tvm.runtime.tensor(np.zeros_like(x))
    given = [tvm.runtime.tensor(np.array(value, "float32")) for value in (x, 0.25, 0.5)]
    tvm.compile(tvm.IRModule({"main": changed}), "llvm")["main"](*given, result)
    np.testing.assert_array_equal(result.numpy(), np.where(x + 0.5 > 0.25, x + 0.5, (x + 0.5) * 0.25))


def test_what_a_test_of_places_stands_before_reads_no_scalar() -> None:
    x, by = te.placeholder((9,), "float32"), te.placeholder((), "float32", "by")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, by, te.compute((9,), lambda i: x[i] * by(), name="y")]))
    schedule.split(schedule.get_loops("y")[0], [None, 4])
    changed = with_scalars_first(schedule.mod["main"])
    bound: list[tirx.Bind] = []
    tvm_ffi.structural_walk(changed.body, (tirx.Bind, bound.append))
    assert [bind.var.name for bind in bound] == ["by_value"]
    values, result = np.arange(9, dtype="float32"), tvm.runtime.tensor(np.zeros(9, "float32"))
    given = [tvm.runtime.tensor(each) for each in (values, np.array(0.25, "float32"))]
    tvm.compile(tvm.IRModule({"main": changed}), "llvm")["main"](*given, result)
    np.testing.assert_array_equal(result.numpy(), values / 4)


def test_a_kernel_without_such_a_choice_is_left_alone() -> None:
    x, y = te.placeholder((9,), "float32"), te.placeholder((), "float32")
    function = te.create_prim_func([x, y, te.compute((9,), lambda i: x[i] * y())])
    assert with_scalars_first(function).same_as(function)


def test_a_scalar_that_the_kernel_writes_is_left_alone() -> None:
    x = te.placeholder((), "float32")
    doubled = te.compute((), lambda: x() + x(), name="doubled")
    chosen = te.compute((4,), lambda i: tirx.Select(doubled() > 1, doubled(), 0.0), name="chosen")
    function = te.create_prim_func([x, doubled, chosen])
    assert with_scalars_first(function).same_as(function)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_a_scalar_of_a_type_that_is_computed_in_another_is_left_alone(dtype: str) -> None:
    x, least = te.placeholder((9,), dtype), te.placeholder((), dtype)
    function = te.create_prim_func([x, least, te.compute((9,), lambda i: tirx.Select(x[i] > least(), x[i], least()))])
    assert with_scalars_first(function).same_as(function)
    tvm.compile(tvm.IRModule({"main": with_scalars_first(function)}), "llvm")
