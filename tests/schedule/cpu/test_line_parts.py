"""Lines that are padded with their own elements are cut at the borders, and keep their values."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import s_tir, te, tirx

import vmkit
from tests.schedule.kernels import kernel
from vmkit import relay
from vmkit._tvm.nodes import is_choice
from vmkit.schedule import cpu as rules

n = tirx.Var("n", "int64")


def loops_and_choices(element: object) -> tuple[int, int]:
    """Return how many innermost loops a map over lines of ``n + 3`` elements has, and how many choices are in them."""
    module = rules.schedule_kernels(
        kernel(lambda x: te.compute((8, n + 3), lambda i, j: element(x, i, j)), (8, n)).mod, tvm.target.Target("llvm")
    )
    loops: list[tirx.For] = []
    calls: list[tvm.ir.Call] = []
    tvm_ffi.structural_walk(module["main"].body, [(tirx.For, loops.append), (tvm.ir.Call, calls.append)])
    return sum(isinstance(loop.body, s_tir.SBlockRealize) for loop in loops), sum(map(is_choice, calls))


def test_a_loop_for_each_border_and_one_between() -> None:
    def bordered(x: te.Tensor, i: tirx.Var, j: tirx.Var) -> tirx.Expr:
        begin = tirx.IntImm("int64", 1)
        return tirx.if_then_else(n + 1 <= j, x[i, 0], tirx.if_then_else(begin <= j, x[i, j - 1], x[i, n - 1]))

    assert loops_and_choices(bordered) == (3, 0)
    assert loops_and_choices(lambda x, i, j: tirx.max(bordered(x, i, j) * 2, 0.0)) == (3, 0)


def test_choices_by_what_is_read_stay() -> None:
    def chosen(x: te.Tensor, i: tirx.Var, j: tirx.Var) -> tirx.Expr:
        return tirx.if_then_else(x[i, 0] <= 0, x[i, 1], x[i, 0])

    assert loops_and_choices(chosen)[1] > 0


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_padded_lines_have_their_values(mode: str) -> None:
    """Padding that is wider than the data goes over it again."""
    x = relay.var("x", shape=(relay.Any(), relay.Any()))
    padded = relay.nn.pad(x, ((2, 1), (3, 4)), pad_mode=mode)
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], padded)), "cpu")
    for shape in ((1, 1), (2, 3), (3, 2), (5, 40)):
        values = np.arange(shape[0] * shape[1], dtype="float32").reshape(shape)
        np.testing.assert_array_equal(machine.run(values).numpy(), np.pad(values, ((2, 1), (3, 4)), mode))
