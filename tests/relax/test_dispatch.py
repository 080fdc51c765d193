"""Only modules that sort, scan or draw pass through TVM's choice of kernels for it."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

import vmkit
from vmkit import relay
from vmkit.relax.dispatch import dispatch_sampling, dispatch_sort_scan


@I.ir_module
class Plain:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.exp(x)
        return y


@I.ir_module
class SortsInBranch:
    @R.function
    def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        if c:  # noqa: SIM108 - TVMScript knows no other form
            y = R.sort(x)
        else:
            y = R.exp(x)
        return y


@pytest.mark.parametrize("change", [dispatch_sampling(), dispatch_sort_scan()])
def test_a_module_without_such_operators_stays_as_it_is(change: tvm.transform.Pass) -> None:
    assert change(Plain).same_as(Plain)


@pytest.mark.parametrize("own", [dispatch_sampling(), dispatch_sort_scan()])
def test_a_pass_has_the_name_of_tvm_s(own: tvm.transform.Pass) -> None:
    assert own.info.name in ("DispatchSampling", "DispatchSortScan")


def test_operators_in_branches_are_found() -> None:
    with tvm.target.Target("llvm"):
        made, expected = dispatch_sort_scan()(SortsInBranch), relax.backend.DispatchSortScan()(SortsInBranch)
    assert not made.same_as(SortsInBranch)
    tvm.ir.assert_structural_equal(made, expected)


def test_values_are_those_of_numpy() -> None:
    x = relay.var("x", shape=(3, 5))
    program = relay.Function(
        [x], relay.Tuple([relay.sort(x, axis=1), relay.cumsum(x, axis=0), relay.argsort(x, axis=1)])
    )
    data = np.random.default_rng(0).permutation(15).reshape(3, 5).astype("float32")
    found = vmkit.VirtualMachine(vmkit.compile(program, "llvm")).run(data)
    for value, expected in zip(found, (np.sort(data, 1), np.cumsum(data, 0), np.argsort(data, 1)), strict=True):
        np.testing.assert_array_equal(value.numpy(), expected)
