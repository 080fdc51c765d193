"""Sums of many lines are made of sums of fewer: they are as exact, whatever their number and wherever it is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tvm
from tvm import te, tirx, topi

from tests.schedule.cpu.kernels import called
from vmkit.schedule import cpu as rules
from vmkit.schedule.cpu import leading_reduction

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
h, w, n = (tirx.Var(name, "int64") for name in "hwn")

KERNELS = {
    "lines of any number": ((2, n, 128), [1], [(2, 4381, 128), (2, 1, 128), (2, 63, 128), (2, 64, 128), (2, 130, 128)]),
    "lines": ((1, 4381, 64), [1], [(1, 4381, 64)]),
    "lines, several at once": ((2, 4388, 64), [1], [(2, 4388, 64)]),
    "lines, a multiple": ((4096, 48), [0], [(4096, 48)]),
    "lines in parts": ((3000, 4096), [0], [(3000, 4096)]),
    "images": ((2, 96, 95, 64), [1, 2], [(2, 96, 95, 64)]),
    "images of any size": ((2, h, w, 64), [1, 2], [(2, 96, 95, 64), (2, 1, 3, 64), (2, 5, 1, 64)]),
    "images of one column": ((2, 4381, 1, 64), [1, 2], [(2, 4381, 1, 64)]),
    "images of one row, any number of columns": ((2, 1, n, 64), [1, 2], [(2, 1, 4381, 64), (2, 1, 3, 64)]),
    "images of few rows": ((2, 3, n, 64), [1, 2], [(2, 3, 1500, 64), (2, 3, 1, 64)]),
    "volumes": ((2, 16, 96, 16, 32), [1, 2, 3], [(2, 16, 96, 16, 32)]),
}


def total(shape: Sequence[int | tirx.Var], axes: list[int]) -> tirx.PrimFunc:
    x = te.placeholder(shape, name="x")
    return te.create_prim_func([x, topi.sum(x, axis=axes)])


def values(shape: Sequence[int]) -> np.ndarray:
    """Return numbers that are nearly one and the same: sums of them round in one direction again and again."""
    return (0.8 + 1e-4 * np.random.default_rng(0).standard_normal(shape)).astype("float32")


@pytest.mark.parametrize("name", KERNELS)
def test_the_sum_of_many_lines_is_exact(name: str) -> None:
    shape, axes, sizes = KERNELS[name]
    plain = total(shape, axes)
    schedule = rules.prepared(plain)
    assert schedule is not None and leading_reduction.RULE.decide(schedule, TARGET) is not None
    made = rules.schedule_kernels(tvm.IRModule({"main": plain}), TARGET)["main"]
    for size in sizes:
        x = values(size)
        exact = x.astype("float64").sum(tuple(axes))
        np.testing.assert_allclose(called(made, [x], exact.shape), exact, rtol=2e-6)


def test_it_is_with_every_decision_that_may_be_tried() -> None:
    shape, axes, _ = KERNELS["lines, several at once"]
    schedule = rules.prepared(total(shape, axes))
    assert schedule is not None
    x = values(shape)
    for decisions in leading_reduction.RULE.candidates(schedule, TARGET):
        made = rules.scheduled(schedule, leading_reduction.RULE, TARGET, decisions)
        exact = x.astype("float64").sum(1)
        np.testing.assert_allclose(called(made, [x], exact.shape), exact, rtol=2e-6, err_msg=str(decisions))


@pytest.mark.parametrize("shape", [(n,), (1_000_003,)])
def test_the_sum_of_one_long_axis_is_exact(shape: Sequence[int | tirx.Var]) -> None:
    made = rules.schedule_kernels(tvm.IRModule({"main": total(shape, [0])}), TARGET)["main"]
    for size in (0, 1, 31, 511, 512, 1300, 1_000_003) if shape[0] is n else shape:
        x = values([size])
        np.testing.assert_allclose(called(made, [x], ()), x.astype("float64").sum(), rtol=2e-6)
