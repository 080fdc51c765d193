"""Comparisons and logic of Relax modules: bool is no float, and NaN equals nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm
from tvm import relax

import vmkit

X = np.array([[1, np.inf, np.nan, -1], [2, np.nan, 0, -0.0]], "float32")
Y = np.array([[1, np.nan, np.nan, 3], [np.inf, 1, -0.0, 0]], "float32")


def machine_of(
    make: Callable[..., relax.Expr], shapes: Sequence[Sequence[int | tvm.tirx.Var]], dtype: str, level: int
) -> vmkit.VirtualMachine:
    builder = relax.BlockBuilder()
    params = [relax.Var(f"p{at}", relax.TensorType(shape, dtype)) for at, shape in enumerate(shapes)]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(make(*params)))
    with vmkit.PassContext(opt_level=level):
        return vmkit.VirtualMachine(vmkit.compile(builder.get()), "cpu")


def symbols() -> list[tvm.tirx.Var]:
    return [tvm.tirx.Var(name, "int64") for name in ("rows", "columns")]


NUMBERS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "maximum", "minimum")
LOGIC = (*NUMBERS, "add", "multiply")


@pytest.mark.sweep
@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "symbolic"])
@pytest.mark.parametrize(("of_bool", "names"), [(False, NUMBERS), (True, LOGIC)], ids=["float", "bool"])
def test_results_are_those_of_numpy(of_bool: bool, names: tuple[str, ...], is_known: bool, level: int) -> None:
    x, y = (X > 0, Y > 0) if of_bool else (X, Y)
    row = y[:, :1]

    def every(a: relax.Expr, b: relax.Expr, c: relax.Expr) -> relax.Expr:
        return relax.Tuple([getattr(relax.op, name)(a, other) for name in names for other in (b, c)])

    shape = [2, 4] if is_known else symbols()
    machine = machine_of(every, [shape, shape, [shape[0], 1]], str(x.dtype), level)
    made = iter(machine.run(x, y, row))
    for name in names:
        for other in (y, row):
            np.testing.assert_array_equal(next(made).numpy(), getattr(np, name)(x, other), err_msg=name)


@pytest.mark.parametrize("level", [0, 2])
def test_a_tensor_that_is_compared_with_itself(level: int) -> None:
    def numbers(x: relax.Expr) -> relax.Expr:
        return relax.op.where(relax.op.equal(x, x), x, relax.const(0, "float32"))

    def others(x: relax.Expr) -> relax.Expr:
        return relax.op.not_equal(x, x)

    for make, expected in ((numbers, np.where(np.isnan(X), 0, X)), (others, np.isnan(X))):
        found = machine_of(make, [symbols()], "float32", level).run(X)
        np.testing.assert_array_equal(found.numpy(), expected)
