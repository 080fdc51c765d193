"""Exponentials below the maximum of their row have no bound above, and others keep it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import te, tirx

import vmkit
from vmkit import relay
from vmkit.schedule import cpu as rules
from vmkit.schedule.cpu.exponents import with_exponents_below_maxima

MARK = "vmkit.exp_up_to_one"
ROWS, WIDTH = 6, 20

Of = Callable[[te.Tensor, te.Tensor, te.Tensor, tirx.Var, tirx.Var], tirx.Expr]


def kernel(argument: Of, over: Callable[..., tirx.Expr] = te.max, width: int = WIDTH) -> tirx.PrimFunc:
    """Return a kernel of exponentials, of an argument made of two inputs and the maxima of the first, at a place."""
    x, y = te.placeholder((ROWS, width), name="x"), te.placeholder((ROWS, WIDTH), name="y")
    k = te.reduce_axis((0, width), "k")
    most = te.compute((ROWS,), lambda i: over(x[i, k], axis=k), name="most")
    made = te.compute((ROWS, WIDTH), lambda i, j: tirx.exp(argument(x, y, most, i, j)), name="made")
    return te.create_prim_func([x, y, made])


def test_what_lies_below_the_maximum_of_its_row_is_marked() -> None:
    made = with_exponents_below_maxima(kernel(lambda x, _, most, i, j: x[i, j] - most[i]))
    assert made.script().count(MARK) == 1 and "T.exp(" not in made.script()


@pytest.mark.parametrize(
    "other",
    [
        kernel(lambda x, y, most, i, j: y[i, j] - most[i]),  # the maximum of something else
        kernel(lambda x, _, most, i, j: x[ROWS - 1 - i, j] - most[i]),  # of another row
        kernel(lambda x, _, most, i, j: x[i, 0] + most[i]),
        kernel(lambda x, _, most, i, j: most[i] - x[i, j]),
        kernel(lambda x, _, most, i, j: x[i, j] - most[i], over=te.min),
        kernel(lambda x, _, most, i, j: x[i, j] - most[i], over=te.sum),
        kernel(lambda x, _, most, i, j: x[i, j + 5] - most[i], width=WIDTH + 5),
    ],
)
def test_what_may_be_above_is_not(other: tirx.PrimFunc) -> None:
    assert with_exponents_below_maxima(other).same_as(other)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("target", ["llvm", "llvm -mattr=+avx2,+fma"])
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_has_its_values_at_the_ends_of_the_range(name: str, target: str, axis: int) -> None:
    data = np.random.default_rng(0).normal(size=(7, 50)).astype("float32") * 30
    data[1, :7], data[2], data[3, 3], data[4, 2], data[5, 1] = -np.inf, 3e38, np.nan, np.inf, 1e30
    data = data if axis == 1 else np.ascontiguousarray(data.T)
    x = relay.var("x", shape=data.shape)
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], getattr(relay.nn, name)(x, axis=axis)), target))
    with np.errstate(all="ignore"):
        below = data.astype("float64") - data.max(axis, keepdims=True)
        total = np.exp(below).sum(axis, keepdims=True)
        expected = np.exp(below) / total if name == "softmax" else below - np.log(total)
    np.testing.assert_allclose(machine.run(data).numpy(), expected, rtol=1e-5, atol=1e-7)


def test_a_prepared_kernel_has_no_marks_once_it_is_scheduled() -> None:
    target = tvm.target.Target("llvm")
    plain = rules.prepared(kernel(lambda x, _, most, i, j: x[i, j] - most[i]))
    assert plain is not None and MARK in plain.mod["main"].script()
    rule = rules.row_reduction.RULE
    decisions = rule.decide(plain, target)
    assert decisions is not None
    text = rules.scheduled(plain, rule, target, decisions).script()
    assert MARK not in text and "T.exp(" not in text
