"""Numbers with names that are made of others with names take no time to lower, and keep their values."""

from __future__ import annotations

import time

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.compilation_pipeline import PIPELINE_MAP

from vmkit.compiler.hidden_names import hide_names, show_names
from vmkit.compiler.kernel_pipeline import PIPELINE
from vmkit.kernels.builder import T, constant, integer, kernel, let


def nested(x: tirx.Expr, names: int) -> tirx.Expr:
    """Return an expression in which so many names stand for what is made of the one before."""
    if names == 0:
        return x
    return let(x * x + x, lambda v: nested(tirx.Select(v < constant(2.0), v, constant(2.0)), names - 1))


def module(names: int) -> tvm.IRModule:
    with kernel() as builder:
        x, y = (T.match_buffer(T.arg(name, T.handle()), [1], "float32") for name in "xy")
        T.buffer_store(y, nested(x[integer(0)], names), [integer(0)])
    return tvm.IRModule({"main": builder.get().with_attr("global_symbol", "main")})


def test_lowering_takes_no_longer_for_names_in_names() -> None:
    lower, finalize, _ = PIPELINE_MAP[PIPELINE]()
    mod = tirx.transform.BindTarget(tvm.target.Target("llvm", host="llvm"))(module(4))
    start = time.thread_time()
    finalize()(lower(mod))
    assert time.thread_time() - start < 2  # it was 7 s, and 18 times that for each further name


def test_values_are_of_the_names() -> None:
    made = tvm.tirx.build(module(3), "llvm", PIPELINE)
    y = tvm.runtime.empty((1,), "float32")
    made["main"](tvm.runtime.tensor(np.array([0.5], "float32")), y)
    expected = 0.5
    for _ in range(3):
        expected = min(expected * expected + expected, 2.0)
    np.testing.assert_allclose(y.numpy(), [expected], rtol=1e-6)


def test_what_is_hidden_is_shown_again() -> None:
    mod, names = module(3), list[tirx.Let]()
    hidden = hide_names(mod)
    tvm_ffi.structural_walk(hidden["main"].body, (tirx.Let, names.append))
    assert not names
    tvm.ir.assert_structural_equal(show_names(hidden), mod)
