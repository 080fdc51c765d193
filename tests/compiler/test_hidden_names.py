"""Numbers with names that are made of others with names are hidden from passes that write names out, and stay."""

from __future__ import annotations

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


def names_in(mod: tvm.IRModule) -> int:
    """Return how many names numbers have in expressions of a module."""
    names: list[tirx.Let] = []
    tvm_ffi.structural_walk(mod["main"].body, (tirx.Let, names.append))
    return len(names)


@tvm.instrument.pass_instrument
class _Seen:
    """How many names there were before each pass."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def run_before_pass(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
        self.names[info.name] = names_in(mod)


def test_passes_that_write_names_out_see_none() -> None:
    lower, finalize, _ = PIPELINE_MAP[PIPELINE]()
    mod = tirx.transform.BindTarget(tvm.target.Target("llvm", host="llvm"))(module(3))
    seen = _Seen()
    with tvm.transform.PassContext(instruments=[seen]):
        made = finalize()(lower(mod))
    # Of four names in each other these take seconds, and of each further one some twenty times as many.
    assert [seen.names[name] for name in ("tirx.FlattenBuffer", "tirx.LowerIntrin")] == [0, 0]
    assert max(seen.names.values()) == names_in(made) == 3


def test_values_are_of_the_names() -> None:
    made = tvm.tirx.build(module(3), "llvm", PIPELINE)
    y = tvm.runtime.empty((1,), "float32")
    made["main"](tvm.runtime.tensor(np.array([0.5], "float32")), y)
    expected = 0.5
    for _ in range(3):
        expected = min(expected * expected + expected, 2.0)
    np.testing.assert_allclose(y.numpy(), [expected], rtol=1e-6)


def test_what_is_hidden_is_shown_again() -> None:
    mod = module(3)
    hidden = hide_names(mod)
    assert (names_in(mod), names_in(hidden)) == (3, 0)
    tvm.ir.assert_structural_equal(show_names(hidden), mod)
