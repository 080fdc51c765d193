"""Transposes in registers give what numpy gives, of every width of elements and where squares do not fit."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import vmkit
from tests.fences.arrays import fenced
from vmkit import relay
from vmkit.relay.ir import Expr

# By name: what is computed, and the shape. Sides that squares divide, others, and axes that are one in memory.
CASES = {
    "a matrix": ((64, 96), (1, 0)),
    "odd sides": ((37, 29), (1, 0)),
    "axes too short for a square": ((5, 7), (1, 0)),
    "channels last": ((2, 24, 5, 7), (0, 2, 3, 1)),
    "channels first": ((2, 5, 7, 24), (0, 3, 1, 2)),
    "lines beside each other": ((3, 4, 19, 1, 20), (0, 2, 3, 4, 1)),
    "all axes turned": ((9, 10, 11, 12), (3, 2, 1, 0)),
}
TYPES = ("bool", "int8", "uint16", "float16", "int32", "float32", "int64", "float64")


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    drawn = np.random.default_rng(0).integers(-100, 100, shape)
    return (drawn % 2 if dtype == "bool" else drawn).astype(dtype)


@pytest.mark.sweep
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "any size"])
@pytest.mark.parametrize("dtype", TYPES)
def test_transposes_of_every_type(dtype: str, is_known: bool) -> None:
    shapes = [shape for shape, _ in CASES.values()]
    inputs = [
        relay.var(f"x{i}", shape=s if is_known else [relay.Any() for _ in s], dtype=dtype) for i, s in enumerate(shapes)
    ]
    made = [relay.transpose(x, axes) for x, (_, axes) in zip(inputs, CASES.values(), strict=True)]
    module = tvm.IRModule({"main": relay.Function(inputs, relay.Tuple(made))})
    arrays = [values(shape, dtype) for shape in shapes]
    results = vmkit.VirtualMachine(vmkit.compile(module, "native"), "cpu").run(*arrays)
    for (name, (_, axes)), array, result in zip(CASES.items(), arrays, results, strict=True):
        np.testing.assert_array_equal(result.numpy(), array.transpose(axes), err_msg=name)


# Rows that end within a vector, and lines pages apart.
@pytest.mark.parametrize(
    ("shape", "axes", "dtype"), [((2, 2100, 66), (0, 2, 1), "float16"), ((8192, 48), (1, 0), "bool")]
)
def test_squares_side_by_side(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    x = relay.var("x", shape=shape, dtype=dtype)
    module = tvm.IRModule({"main": relay.Function([x], relay.transpose(x, axes))})
    array = values(shape, dtype)
    result = vmkit.VirtualMachine(vmkit.compile(module, "native"), "cpu").run(array)
    np.testing.assert_array_equal(result.numpy(), array.transpose(axes))


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "any size"])
def test_what_is_computed_of_transposed_elements(is_known: bool) -> None:
    """Beside one that lies across, operands lie along, or are a row, a column or a number; two may lie across."""

    def result(x: Expr, y: Expr, row: Expr, scale: Expr) -> Expr:
        turned = relay.transpose(x, (0, 2, 1))
        return relay.Tuple(
            [
                relay.cast(relay.tanh(turned + row) * y, "float16"),
                turned * relay.transpose(relay.exp(x), (0, 2, 1)),
                relay.concatenate([turned, y], 2),
                turned * relay.sqrt(scale),
            ]
        )

    shapes = (3, 20, 37), (3, 37, 20), (37, 1), ()
    names = zip("xyrs", shapes, strict=True)
    inputs = [relay.var(n, shape=s if is_known or n in "rs" else (relay.Any(), *s[1:])) for n, s in names]
    module = tvm.IRModule({"main": relay.Function(inputs, result(*inputs))})
    x, y, row, scale = (np.float32(np.abs(np.random.default_rng(0).normal(size=shape))) for shape in shapes)
    turned = x.transpose(0, 2, 1)
    expected = (
        np.tanh(turned + row) * y,
        turned * np.exp(turned),
        np.concatenate([turned, y], 2),
        turned * np.sqrt(scale),
    )
    found = vmkit.VirtualMachine(vmkit.compile(module, "native"), "cpu").run(x, y, row, scale)
    for actual, each, rtol in zip(found, expected, (2e-3, 1e-5, 0, 1e-6), strict=True):
        np.testing.assert_allclose(actual.numpy(), each, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "any size"])
@pytest.mark.parametrize("parts", [(64, 18), (16, 16, 16), (3, 5, 40), (8,) * 10], ids=str)
def test_of_parts_of_a_concatenation_only_the_one_at_hand_is_read(parts: tuple[int, ...], is_known: bool) -> None:
    """Squares lie in one part, across seams, and in more parts than have squares of their own."""
    leading = (2, 16, 16) if is_known else [relay.Any() for _ in range(3)]
    inputs = [relay.var(f"x{i}", shape=(*leading, count)) for i, count in enumerate(parts)]
    turned = relay.transpose(relay.concatenate(inputs, 3), (0, 3, 1, 2))
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": relay.Function(inputs, turned)}), "native"))
    drawn = np.random.default_rng(0)
    arrays = [drawn.normal(size=(2, 16, 16, count)).astype("float32") for count in parts]
    for is_last in (False, True):
        result = machine.run(*(fenced(array, is_last=is_last) for array in arrays))
        np.testing.assert_array_equal(result.numpy(), np.concatenate(arrays, 3).transpose(0, 3, 1, 2))


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "any size"])
def test_transposed_padding_reads_nothing_beside_the_tensor(is_known: bool) -> None:
    x = relay.var("x", shape=(2, 16, 16, 24) if is_known else (relay.Any(), relay.Any(), relay.Any(), 24))
    padded = relay.nn.pad(x, ((0, 0), (1, 2), (3, 0), (5, 4)))
    module = tvm.IRModule({"main": relay.Function([x], relay.transpose(padded, (0, 3, 1, 2)))})
    machine = vmkit.VirtualMachine(vmkit.compile(module, "native"))
    array = np.random.default_rng(0).normal(size=(2, 16, 16, 24)).astype("float32")
    expected = np.pad(array, ((0, 0), (1, 2), (3, 0), (5, 4))).transpose(0, 3, 1, 2)
    for is_last in (False, True):
        np.testing.assert_array_equal(machine.run(fenced(array, is_last=is_last)).numpy(), expected)


@pytest.mark.parametrize("cpu", ["x86-64", "skylake-avx512", "znver4"])
@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
def test_squares_are_built_for_other_processors(cpu: str, dtype: str) -> None:
    x = relay.var("x", shape=(relay.Any(), 70, 50), dtype=dtype)
    module = tvm.IRModule({"main": relay.Function([x], relay.transpose(x, (0, 2, 1)))})
    assert vmkit.compile(module, f"llvm -mcpu={cpu}").outputs
