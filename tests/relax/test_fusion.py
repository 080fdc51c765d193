"""How many operators become one kernel."""

from __future__ import annotations

import numpy as np
import tvm
import tvm_ffi

import vmkit
from tests.relay.programs import compiled
from vmkit import relay
from vmkit.compiler.stages import fused_kernels
from vmkit.relax.fusion import MOST_OPERATORS


def chain(operators: int) -> relay.Function:
    """Return a function of that many operators, which could all be fused."""
    x = relay.var("x", shape=(8,))
    value = x
    for k in range(operators):
        value = relay.nn.relu(value) if k % 2 else relay.add(value, x)
    return relay.Function([x], value)


def kernels(function: relay.Function) -> int:
    """Return how many kernels a function calls; some may be the same."""
    mod = fused_kernels(function, tvm.target.Target("llvm"))
    called: list[tvm.ir.GlobalVar] = []
    tvm_ffi.structural_walk(mod["main"].body, (tvm.ir.GlobalVar, called.append))
    return len(called)


def test_a_chain_is_fused_up_to_a_bound() -> None:
    assert kernels(chain(MOST_OPERATORS)) == 1
    assert kernels(chain(MOST_OPERATORS * 3)) == 3


def test_the_callers_bound_counts() -> None:
    with vmkit.PassContext(opt_level=3, config={"relax.FuseOps.max_depth": 8}):
        assert kernels(chain(32)) == 4
    with vmkit.PassContext(opt_level=3, config={"relax.FuseOps.max_depth": 128}):
        assert kernels(chain(128)) == 1


def test_instruments_see_fusion_once() -> None:
    seen: list[str] = []

    @tvm.instrument.pass_instrument
    class Names:
        def run_before_pass(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
            seen.append(str(info.name))

    with tvm.transform.PassContext(opt_level=3, instruments=[Names()]):
        vmkit.compile(tvm.IRModule({"main": chain(4)}), "llvm")
    assert seen.count("FuseOps") == 1


def test_a_program_of_many_operators_computes_what_it_says() -> None:
    function = chain(MOST_OPERATORS * 2 + 7)
    x = np.arange(-4, 4, dtype="float32")
    expected = x
    for k in range(MOST_OPERATORS * 2 + 7):
        expected = np.maximum(expected, 0) if k % 2 else expected + x
    np.testing.assert_array_equal(compiled(list(function.params), function.body)(x), expected)
