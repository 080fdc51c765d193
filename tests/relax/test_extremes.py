"""The largest and smallest elements of tensors are what numpy says, infinite ones among them."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax, tirx

import vmkit

N = tirx.Var("n", "int64")


@pytest.mark.sweep
@pytest.mark.parametrize("axis", [None, [-1], [2, 0]])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32"])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_are_those_of_numpy(name: str, dtype: str, keepdims: bool, axis: list[int] | None) -> None:
    x = relax.Var("x", relax.TensorType((N, 4, 5), dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(getattr(relax.op, name)(x, axis, keepdims)))
    machine = vmkit.VirtualMachine(vmkit.compile(builder.get()), "cpu")
    data = (np.random.default_rng(0).standard_normal((3, 4, 5)) * 9).astype(dtype)
    expected = getattr(np, name)
    axes = None if axis is None else tuple(axis)
    every = [data] if dtype == "int32" else [data, np.full_like(data, -np.inf), np.full_like(data, np.inf)]
    for each in every:
        np.testing.assert_array_equal(machine.run(each).numpy(), expected(each, axis=axes, keepdims=keepdims))
