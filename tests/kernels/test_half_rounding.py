"""Numbers of float16 rounded to whole ones: all of them, to the bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.kernels.vector_math import with_vector_math
from vmkit.relay.op import build


@pytest.mark.parametrize("size", [1 << 16, None])
@pytest.mark.parametrize(
    ("name", "expected"),
    [("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("contrib_round_to_even", np.rint)],
)
def test_every_number_is_rounded_as_numpy_rounds_it(
    name: str, expected: Callable[[np.ndarray], np.ndarray], size: int | None
) -> None:
    numbers = np.arange(1 << 16, dtype="uint16").view("float16")
    x = relay.var("x", shape=(size or relay.Any(),), dtype="float16")
    module = tvm.IRModule.from_expr(relay.Function([x], build(name, x)))
    made = vmkit.VirtualMachine(vmkit.compile(module, target="llvm")).run(numbers).numpy()
    with np.errstate(invalid="ignore"):
        wanted = expected(numbers)
    is_number = ~np.isnan(numbers)
    assert np.isnan(made[~is_number]).all()
    np.testing.assert_array_equal(made.view("uint16")[is_number], wanted.view("uint16")[is_number])


@pytest.mark.parametrize("rounding", [tvm.tirx.floor, tvm.tirx.ceil, tvm.tirx.trunc, tvm.tirx.nearbyint])
def test_only_numbers_of_float16_are_rounded_by_sums(rounding: Callable[[tvm.tirx.Expr], tvm.tirx.Expr]) -> None:
    half, single = tvm.tirx.Var("x", "float16"), tvm.tirx.Var("y", "float32")
    for value, is_kept in ((tvm.tirx.Cast("float32", half), False), (single, True)):
        call = rounding(value)
        made = with_vector_math(tvm.tirx.PrimFunc([half, single], tvm.tirx.Evaluate(call))).body.value
        assert (isinstance(made, tvm.ir.Call) and bool(made.op.same_as(call.op))) == is_kept
