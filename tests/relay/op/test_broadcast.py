"""Broadcasting against unknown dimensions."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import vmkit
from tests.relay.programs import assert_same, compiled
from vmkit import relay
from vmkit.errors import TypeCheckError, VMError
from vmkit.relay import Any, var


def test_a_chain_of_broadcasts_of_unknown_dimensions_stays_small() -> None:
    x, y, z = (var(name, shape=(Any(), 2)) for name in "xyz")
    chain = x
    for k in range(12):
        chain = relay.add(chain, (y, z, x)[k % 3]) if k % 2 else relay.subtract((z, y)[k % 2], chain)
    run = compiled([x, y, z], chain)
    for sizes in ((3, 3, 3), (1, 3, 1), (3, 1, 1), (1, 1, 4), (1, 1, 1), (0, 1, 0)):
        arrays = [np.random.default_rng(k).normal(size=(n, 2)).astype("float32") for k, n in enumerate(sizes)]
        expected = arrays[0]
        for k in range(12):
            expected = expected + arrays[(1, 2, 0)[k % 3]] if k % 2 else arrays[(2, 1)[k % 2]] - expected
        assert_same(run(*arrays), expected)
    none, one, two, three = (np.ones((rows, 2), "float32") for rows in range(4))
    mistakes = [(two, three, two), (two, two, three), (three, two, two), (one, two, three), (two, one, three)]
    for mistaken in (*mistakes, (three, two, one), (none, one, two), (one, none, two), (two, none, one)):
        with pytest.raises(VMError, match=r"dimension 0 is .* in one input and .* in another"):
            run(*mistaken)


def test_floats_are_shifted_by_types_alone() -> None:
    x = var("x", shape=(3,))
    function = relay.Function([x], relay.left_shift(x, x))
    mod = relay.transform.InferType()(tvm.IRModule({"main": function}))
    assert str(mod["main"].ret_type) == "Tensor[(3), float32]"
    with pytest.raises(TypeCheckError, match="left_shift: the inputs must be int or uint tensors, not of float32"):
        compiled([x], function.body)


@pytest.mark.parametrize("level", [0, 2])
def test_nan_does_not_equal_itself_where_more_is_computed_beside(level: int) -> None:
    x = relay.var("x", shape=(relay.Any(),))
    is_number, size = relay.equal(x, x), relay.abs(x)
    made = relay.Tuple([
        relay.where(is_number, x, relay.const(0.0)),
        relay.logical_or(relay.logical_not(is_number), relay.less(x, relay.const(0.0))),
        relay.where(relay.not_equal(size, size), relay.const(1.0), x),
        relay.where(relay.less_equal(size, size), x, relay.const(2.0)),
    ])  # fmt: skip
    with vmkit.PassContext(opt_level=level):
        machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], made)), "cpu")
    values = np.array([1, np.nan, -3, np.inf, np.nan], "float32")
    expected = [
        [1, 0, -3, np.inf, 0], [False, True, True, False, True], [1, 1, -3, np.inf, 1], [1, 2, -3, np.inf, 2],
    ]  # fmt: skip
    for one, other in zip(machine.run(values), expected, strict=True):
        np.testing.assert_array_equal(one.numpy(), other)
