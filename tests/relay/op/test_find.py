"""Positions of what holds are found at every density, without a branch for each element."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx

import vmkit
from vmkit import relay
from vmkit.compiler.stages import fused_kernels
from vmkit.schedule.expressions import loads_in


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["bool", "float32", "int64"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_argwhere_at_every_density(share: float, dtype: str) -> None:
    x = relay.var("x", shape=(relay.Any(), 37), dtype=dtype)
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.argwhere(x))), "cpu")
    random = np.random.default_rng(0)
    for rows in (0, 1, 50):
        values = (random.random((rows, 37)) < share).astype(dtype)
        found = machine.run(values).numpy()
        assert found.dtype == "int32"
        np.testing.assert_array_equal(found, np.argwhere(values))


def test_what_holds_last_is_the_last_row() -> None:
    x = relay.var("x", shape=(relay.Any(),))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.argwhere(x))), "cpu")
    for values, places in (([0, 0, 3], [2]), ([-1, 0, 0], [0]), ([0, np.nan, -0.0], [1]), ([0, 0, 0], [])):
        np.testing.assert_array_equal(machine.run(np.array(values, "float32")).numpy()[:, 0], places)


def test_no_branch_depends_on_an_element() -> None:
    x = relay.var("x", shape=(8, 9), dtype="bool")
    kernels = fused_kernels(relay.Function([x], relay.argwhere(x)), tvm.target.Target("llvm"))
    written = {g.name_hint: f for g, f in kernels.functions.items() if "argwhere" in g.name_hint}
    assert len(written) == 2
    for function in written.values():
        tests: list[tirx.Expr] = []
        tvm_ffi.structural_walk(function.body, (tirx.IfThenElse, lambda branch, to=tests: to.append(branch.condition)))
        assert not any(str(load.ty.dtype) == "bool" for test in tests for load in loads_in(test))
