"""Functions of functions are arithmetic as well, unless a choice says whether they are computed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import s_tir, te, tirx, topi

from tests.schedule.cpu.kernels import called
from vmkit.kernels.vector_math import with_vector_math
from vmkit.schedule import cpu as rules
from vmkit.schedule.blocks import kernel_blocks

TARGET = tvm.target.Target("llvm")
n = tirx.Var("n", "int64")


def softplus(x: te.Tensor) -> te.Tensor:
    return topi.log(topi.exp(x) + 1.0)


def softplus_of_arrays(x: np.ndarray) -> np.ndarray:
    return np.log(np.exp(x) + 1)


FUNCTIONS = {
    "softplus": (softplus, softplus_of_arrays),
    "mish": (lambda x: x * topi.tanh(softplus(x)), lambda x: x * np.tanh(softplus_of_arrays(x))),
    "of both operands": (
        lambda x: topi.exp(topi.sin(topi.cos(x))) + topi.exp(topi.tanh(x)),
        lambda x: np.exp(np.sin(np.cos(x))) + np.exp(np.tanh(x)),
    ),
    "around a choice": (
        lambda x: topi.log(te.compute(x.shape, lambda *i: tirx.Select(x(*i) > 0, tirx.exp(x(*i)), tirx.const(1.0)))),
        lambda x: np.maximum(x, 0),
    ),
}


@pytest.mark.parametrize("shape", [(5, 7, 37), (n, 64)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_a_function_is_arithmetic(name: str, shape: tuple[int | tirx.Var, ...]) -> None:
    function, exact = FUNCTIONS[name]
    made = scheduled(shape, function)
    assert not [call for call in ("T.exp(", "T.log(", "T.tanh(", "T.sin(", "T.cos(") if call in made.script()]
    x = np.random.default_rng(0).uniform(-3, 3, [3 if size is n else size for size in shape]).astype("float32")
    np.testing.assert_allclose(called(made, [x], x.shape), exact(x.astype("float64")), rtol=2e-6, atol=1e-6)


def test_what_only_one_case_computes_stays_within_it() -> None:
    def beyond(x: te.Tensor) -> te.Tensor:
        def element(i: tirx.Var) -> tirx.Expr:
            return tirx.if_then_else(i < 40, tirx.log(tirx.exp(x(i)) + 1.0), tirx.const(0.0))

        return te.compute((64,), element)

    made = scheduled((40,), beyond)
    assert "inner" not in made.script()
    x = np.random.default_rng(0).uniform(-3, 3, 40).astype("float32")
    expected = np.pad(softplus_of_arrays(x.astype("float64")), (0, 24))
    np.testing.assert_allclose(called(made, [x], (64,)), expected, rtol=2e-6)


def test_each_lane_of_a_vector_has_its_own_argument() -> None:
    x = te.placeholder((6, 16), name="x")
    plain = s_tir.Schedule(te.create_prim_func([x, te.compute(x.shape, lambda *i: tirx.log(tirx.exp(x(*i)) + 1.0))]))
    plain.vectorize(plain.get_loops(kernel_blocks(plain)[-1])[-1])
    made = with_vector_math(plain.mod["main"])
    assert "T.log(" not in made.script()
    values = np.random.default_rng(0).uniform(-3, 3, (6, 16)).astype("float32")
    np.testing.assert_allclose(called(made, [values], (6, 16)), softplus_of_arrays(values.astype("float64")), rtol=2e-6)


def scheduled(shape: tuple[int | tirx.Var, ...], function: Callable[[te.Tensor], te.Tensor]) -> tirx.PrimFunc:
    x = te.placeholder(shape, name="x")
    plain = tvm.IRModule({"main": te.create_prim_func([x, function(x)])})
    return rules.schedule_kernels(plain, TARGET)["main"]
