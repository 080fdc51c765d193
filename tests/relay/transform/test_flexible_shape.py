"""One program for several sizes of a dimension."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from tests.relay.transform.passes import module
from vmkit import relay
from vmkit.errors import OptionError
from vmkit.relay.transform import FlexibleShapeDispatch

RNG = np.random.default_rng(0)


def machine(mod: tvm.IRModule) -> vmkit.VirtualMachine:
    return vmkit.VirtualMachine(vmkit.compile(mod, target="llvm"), vmkit.device("cpu"))


def normalised() -> tvm.IRModule:
    """Return a program whose rows do not see each other."""
    x = relay.var("x", shape=(8, 3))
    return module(relay.nn.softmax(x), x)


def softmax(x: np.ndarray) -> Any:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def test_each_size_that_is_expected_has_a_copy() -> None:
    mod = FlexibleShapeDispatch([2, 4])(normalised())
    assert sorted(gvar.name_hint for gvar in mod.functions) == ["main", "main_2", "main_4", "main_any"]
    assert [int(d) for d in mod["main_4"].params[0].checked_type.shape] == [4, 3]
    vm = machine(mod)
    for rows in (1, 2, 3, 4, 7):
        x = RNG.standard_normal((rows, 3), "float32")
        np.testing.assert_allclose(vm.run(x).numpy(), softmax(x), rtol=1e-5)


@pytest.mark.parametrize("buckets", [[2, 4], [4, 2]])
def test_other_sizes_are_padded_to_the_next(buckets: list[int]) -> None:
    vm = machine(FlexibleShapeDispatch(buckets, auto_pad=True)(normalised()))
    for rows in (1, 2, 3, 4, 6):
        x = RNG.standard_normal((rows, 3), "float32")
        np.testing.assert_allclose(vm.run(x).numpy(), softmax(x), rtol=1e-5)


def test_a_dimension_that_the_result_does_not_have() -> None:
    x, w = relay.var("x", shape=(2, 6)), relay.var("w", shape=(4, 6))
    mod = module(relay.nn.dense(x, w), x, w)
    passed = FlexibleShapeDispatch([3, 5], axis=1, auto_pad=True, input_indices=[0, 1], affects_output=False)(mod)
    vm = machine(passed)
    for depth in (3, 4, 5):
        a, b = (RNG.standard_normal((rows, depth), "float32") for rows in (2, 4))
        np.testing.assert_allclose(vm.run(a, b).numpy(), a @ b.T, rtol=1e-4, atol=1e-5)


def test_each_field_of_a_tuple_has_the_dimension() -> None:
    x = relay.var("x", shape=(8, 4))
    vm = machine(FlexibleShapeDispatch([2], auto_pad=True)(module(relay.split(x, 2, axis=1).astuple(), x)))
    data = RNG.standard_normal((1, 4), "float32")
    left, right = vm.run(data)
    np.testing.assert_array_equal(left.numpy(), data[:, :2])
    np.testing.assert_array_equal(right.numpy(), data[:, 2:])


def test_what_does_not_exist_is_refused() -> None:
    with pytest.raises(OptionError, match="buckets are different sizes, at least one"):
        FlexibleShapeDispatch([])
    with pytest.raises(OptionError, match="main has 1 parameters; input_indices has 1"):
        FlexibleShapeDispatch([2], input_indices=[1])(normalised())
    with pytest.raises(OptionError, match="parameter x has no axis 2"):
        FlexibleShapeDispatch([2], axis=2)(normalised())
