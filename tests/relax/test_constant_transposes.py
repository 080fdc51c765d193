"""Transposes of constants take no time when a Relax program runs."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import vmkit
from vmkit.relax.constant_transposes import with_transposed_constants
from vmkit.relax.rewrite import nested_bindings

n = tirx.Var("n", "int64")


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


def transposes_in(mod: object) -> int:
    return sum("permute_dims" in str(b.value.op) for b in nested_bindings(mod["main"].body) if hasattr(b.value, "op"))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_layer_whose_weight_was_written_the_other_way_round(dtype: str) -> None:
    first, second = numbers(16, 8, dtype=dtype), numbers(16, 16, dtype=dtype)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((n, 8), dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            hidden = builder.emit(relax.op.matmul(x, builder.emit(relax.op.permute_dims(relax.const(first)))))
            turned = builder.emit(relax.op.permute_dims(relax.const(second), [1, 0]))
            result = builder.emit_output(relax.op.matmul(builder.emit(relax.op.matmul(hidden, turned)), turned))
        builder.emit_func_output(result)
    mod = builder.get()
    assert (transposes_in(mod), transposes_in(with_transposed_constants(mod))) == (2, 0)
    machine = vmkit.VirtualMachine(vmkit.compile(mod, "native"), "cpu")
    for rows in (1, 5):
        data = numbers(rows, 8, dtype=dtype)
        wide = [each.astype("float32") for each in (data, first, second)]
        expected = wide[0] @ wide[1].T @ wide[2].T @ wide[2].T
        tolerance = 1e-4 if dtype == "float32" else 5e-2
        np.testing.assert_allclose(machine.run(data).numpy(), expected, rtol=tolerance, atol=10 * tolerance)


def test_transposes_of_several_axes_that_are_results_too() -> None:
    weight = numbers(2, 3, 4)
    builder = relax.BlockBuilder()
    x, flag = relax.Var("x", relax.TensorType((4, 2, 3), "float32")), relax.Var("flag", relax.TensorType((), "bool"))
    with builder.function("main", [flag, x]):
        turned = builder.emit(relax.op.permute_dims(relax.const(weight), [2, 0, 1]))
        with builder.dataflow():
            moved = builder.emit(relax.op.permute_dims(x, [1, 2, 0]))
            total = builder.emit_output(relax.op.add(moved, relax.const(weight)))
        builder.emit_func_output(relax.Tuple([turned, total]))
    mod = builder.get()
    assert (transposes_in(mod), transposes_in(with_transposed_constants(mod))) == (2, 1)
    data = numbers(4, 2, 3) + 1
    first, second = vmkit.VirtualMachine(vmkit.compile(mod, "native"), "cpu").run(np.array(True), data)
    np.testing.assert_array_equal(first.numpy(), weight.transpose(2, 0, 1))
    np.testing.assert_allclose(second.numpy(), data.transpose(1, 2, 0) + weight, rtol=1e-6)


def test_a_program_without_any_stays_as_it_is() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((n, 8), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.permute_dims(x)))
    mod = builder.get()
    assert with_transposed_constants(mod).same_as(mod)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_what_numpy_does_not_hold_is_left_to_the_run(dtype: str) -> None:
    builder = relax.BlockBuilder()
    with builder.function("main", []):
        weight = relax.const(tvm.runtime.empty((2, 3), dtype))
        builder.emit_func_output(builder.emit(relax.op.permute_dims(weight)))
    mod = builder.get()
    assert with_transposed_constants(mod).same_as(mod)
