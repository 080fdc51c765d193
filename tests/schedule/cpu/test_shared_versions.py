"""Kernels of sizes known at run time only, whose work cores share where a call has enough of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import te, tirx, topi

from tests.schedule.cpu.kernels import called
from vmkit.schedule import cpu as rules
from vmkit.target import canonical_target

SEVERAL, ONE = (canonical_target(f"llvm -num-cores={cores}").primary for cores in (2, 1))
Make = Callable[..., te.Tensor]

KERNELS: dict[str, tuple[Make, Callable[..., np.ndarray], Sequence[int]]] = {
    "map": (topi.nn.relu, lambda x: np.maximum(x, 0), (24, 10)),
    "sums of rows": (lambda x: topi.sum(x, axis=-1), lambda x: x.sum(-1), (5, 64)),
    "softmax": (
        lambda x: topi.nn.softmax(x, -1),
        lambda x: np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True),
        (5, 48),
    ),
    "transpose": (lambda x: topi.transpose(x, (0, 2, 1)), lambda x: x.swapaxes(1, 2), (16, 40)),
}


def kinds(function: tirx.PrimFunc) -> list[bool]:
    """Return whether the loops of each version of a kernel are shared, the first for large calls."""
    found: list[tirx.IfThenElse] = []
    tvm_ffi.structural_walk(function.body, (tirx.IfThenElse, found.append))
    chosen = [each for each in found if each.else_case is not None]
    if not chosen:
        return [_has_shared(function.body)]
    outer = max(chosen, key=lambda each: len(str(each)))
    return [_has_shared(outer.then_case), _has_shared(outer.else_case)]


def _has_shared(statement: tirx.Stmt) -> bool:
    found: list[tirx.For] = []
    tvm_ffi.structural_walk(statement, (tirx.For, found.append))
    return any(loop.kind == tirx.ForKind.PARALLEL for loop in found)


def kernel(make: Make, shape: Sequence[Any]) -> tvm.IRModule:
    x = te.placeholder(shape, name="x")
    return tvm.IRModule({"main": te.create_prim_func([x, make(x)])})


@pytest.mark.parametrize("name", KERNELS)
def test_large_calls_share_the_work_and_small_ones_do_not(name: str) -> None:
    make, expected, rest = KERNELS[name]
    plain = kernel(make, (tirx.Var("n", "int64"), *rest))
    made = rules.schedule_kernels(plain, SEVERAL)["main"]
    assert kinds(made) == [True, False]
    for count in (0, 1, 3, 200):
        x = np.random.default_rng(count).standard_normal((count, *rest)).astype("float32")
        wanted = expected(x)
        np.testing.assert_allclose(called(made, [x], wanted.shape), wanted, rtol=1e-5, atol=1e-5)


def test_one_core_shares_nothing_and_what_is_large_anyway_is_shared_always() -> None:
    n = tirx.Var("n", "int64")
    assert kinds(rules.schedule_kernels(kernel(topi.nn.relu, (n, 24, 10)), ONE)["main"]) == [False]
    assert kinds(rules.schedule_kernels(kernel(topi.nn.relu, (n, 24, 1000)), SEVERAL)["main"]) == [True]
    assert kinds(rules.schedule_kernels(kernel(topi.nn.relu, (4, 24, 10)), SEVERAL)["main"]) == [False]


def test_short_code_and_decisions_that_were_chosen_are_there_once() -> None:
    plain = kernel(topi.nn.relu, (tirx.Var("n", "int64"), 24, 10))
    assert kinds(rules.schedule_kernels(plain, SEVERAL, is_short=True)["main"]) == [False]
    recorded = rules.schedule_kernels(plain, SEVERAL, lambda sch, rule, target, default: [("record", default)])
    assert kinds(recorded["main"]) == [False]
