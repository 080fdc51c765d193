"""What holds of numbers but not of floats is not taken for granted where operators are computed together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import te, tirx

import vmkit
from vmkit import relay
from vmkit.relay.ir import Expr
from vmkit.schedule.float_algebra import with_float_algebra

FURTHER = ["float16", "float64"]
VALUES = [0, 1, -1, 2.5, -0.5, np.inf, -np.inf, np.nan]

Combined = Callable[[Expr, Expr], Expr]


def _isnan(x: Expr) -> Expr:
    return relay.logical_not(relay.less_equal(x, x))


def _is_finite(x: Expr) -> Expr:
    return relay.equal(relay.subtract(x, x), relay.zeros_like(x))


def _piecewise(x: Expr, y: Expr) -> Expr:
    return relay.where(relay.less(x, y), x, relay.where(relay.greater_equal(x, y), y, _of(x, 7.0)))


def _neither(x: Expr, y: Expr) -> Expr:
    either = relay.logical_or(relay.less(x, y), relay.greater_equal(x, y))
    return relay.where(either, x, _of(x, 9.0))


def _of(x: Expr, value: float) -> Expr:
    """Return a number in a variable's type."""
    return relay.const(value, str(x.type_annotation.dtype))


CASES: dict[str, tuple[Combined, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "x - x": (lambda x, y: relay.subtract(x, x), lambda x, y: x - x),
    "(x + y) - y": (lambda x, y: relay.subtract(relay.add(x, y), y), lambda x, y: (x + y) - y),
    "(x + nan) - nan": (
        lambda x, y: relay.subtract(relay.add(x, _of(x, np.nan)), _of(x, np.nan)),
        lambda x, y: x * np.nan,
    ),
    "(x + y) - x": (lambda x, y: relay.subtract(relay.add(x, y), x), lambda x, y: (x + y) - x),
    "x - (y + x)": (lambda x, y: relay.subtract(x, relay.add(y, x)), lambda x, y: x - (y + x)),
    "y / (x - x)": (lambda x, y: relay.divide(y, relay.subtract(x, x)), lambda x, y: y / (x - x)),
    "(y - y) / x": (lambda x, y: relay.divide(relay.subtract(y, y), x), lambda x, y: (y - y) / x),
    "x * zeros": (lambda x, y: relay.multiply(x, relay.zeros_like(y)), lambda x, y: x * np.zeros_like(y)),
    "zeros / x": (lambda x, y: relay.divide(relay.zeros_like(y), x), lambda x, y: np.zeros_like(y) / x),
    "x / zeros": (lambda x, y: relay.divide(x, relay.zeros_like(y)), lambda x, y: x / np.zeros_like(y)),
    "is nan": (lambda x, y: relay.where(_isnan(x), y, x), lambda x, y: np.where(np.isnan(x), y, x)),
    "is finite": (lambda x, y: relay.where(_is_finite(x), x, y), lambda x, y: np.where(np.isfinite(x), x, y)),
    "not less": (
        lambda x, y: relay.cast(relay.logical_not(relay.less(x, y)), "int32"),
        lambda x, y: (~(x < y)).astype("int32"),
    ),
    "not both": (
        lambda x, y: relay.cast(relay.logical_not(relay.logical_and(relay.less(x, y), relay.less(y, x))), "int32"),
        lambda x, y: (~((x < y) & (y < x))).astype("int32"),
    ),
    "piecewise": (_piecewise, lambda x, y: np.where(x < y, x, np.where(x >= y, y, x.dtype.type(7)))),
    "either": (_neither, lambda x, y: np.where((x < y) | (x >= y), x, x.dtype.type(9))),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "float32") for name in CASES), *((name, d) for name in ("x - x", "piecewise") for d in FURTHER)],
)
def test_infinite_values_and_nan_come_out_as_they_are_computed(name: str, dtype: str) -> None:
    combined, wanted = CASES[name]
    x, y = (relay.var(n, shape=(relay.Any(),), dtype=dtype) for n in "xy")
    given = [each.ravel() for each in np.meshgrid(*[np.array(VALUES, dtype)] * 2)]
    program = vmkit.compile(relay.Function([x, y], combined(x, y)))
    found = vmkit.VirtualMachine(program, "cpu").run(*given).numpy()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, wanted(*given))


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_large_number_that_is_added_and_taken_away_rounds(target: str) -> None:
    x, large = relay.var("x", shape=(5,), dtype="float32"), relay.const(np.float32(3 << 22))
    program = vmkit.compile(relay.Function([x], relay.subtract(relay.add(x, large), large)), target)
    given = np.float32([1.3, 2.7, -0.6, 1e6 + 0.25, -1.5])
    np.testing.assert_array_equal(vmkit.VirtualMachine(program, "cpu").run(given).numpy(), np.rint(given))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_products_and_quotients_with_the_number_zero(dtype: str) -> None:
    x, three, five = te.placeholder((6,), dtype), tirx.const(3, dtype), tirx.const(5, dtype)
    made = te.compute((6,), lambda i: [x[i] * three, x[i] / five, three / x[i]], name="y")
    zeros = {3.0: tirx.const(0.0, dtype), 5.0: tirx.const(-0.0, dtype)}  # TVM refuses them where it makes kernels
    function = te.create_prim_func([x, *made])
    body = tvm_ffi.structural_map(function.body, (tirx.FloatImm, lambda value: zeros.get(value.value, value)))
    function = with_float_algebra(function.with_body(body))
    built = tvm.compile(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}), "llvm")
    given = np.array([1, -2, 0, np.inf, -np.inf, np.nan], dtype)
    arrays = [tvm.runtime.tensor(array) for array in (given, *(np.empty_like(given) for _ in made))]
    built(*arrays)
    with np.errstate(all="ignore"):
        wanted = (given * given.dtype.type(0), given / given.dtype.type(-0.0), given.dtype.type(0) / given)
    for found, expected in zip(arrays[1:], wanted, strict=True):
        np.testing.assert_array_equal(found.numpy(), expected)


def test_kernels_of_integers_and_of_other_differences_stay_the_same() -> None:
    x, y = te.placeholder((8,), "float32"), te.placeholder((8,), "int32")

    def element(i: tirx.Var, j: tirx.Var) -> tirx.Expr:
        apart = tirx.Cast("float32", i) - tirx.Cast("float32", j)
        return (x[i] - tirx.Cast("float32", y[i] - y[j])) * (x[j] - apart)

    z = te.compute((8, 8), element, name="z")
    function = te.create_prim_func([x, y, z])
    assert with_float_algebra(function).same_as(function)
