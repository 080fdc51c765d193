"""Positions outside of the data: what is read is the nearest element, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax, te, topi

import vmkit

DATA = np.arange(24, dtype="float32").reshape(4, 6)
FAR = 1 << 40


def ran(make: Callable[..., relax.Expr], *arrays: np.ndarray) -> np.ndarray:
    """Return what an operator of Relax gives, whose inputs have rows as many as the run says."""
    builder, rows = relax.BlockBuilder(), tvm.tirx.Var("rows", "int64")
    shapes = [[rows, *array.shape[1:]] if array is not DATA else array.shape for array in arrays]
    params = [
        relax.Var(f"p{at}", relax.TensorType(shape, str(array.dtype)))
        for at, (shape, array) in enumerate(zip(shapes, arrays, strict=True))
    ]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(make(*params)))
    found = vmkit.VirtualMachine(vmkit.compile(builder.get()), "cpu").run(*arrays).numpy()
    return np.asarray(found)


@pytest.mark.parametrize("axis", [0, 1])
def test_take_reads_the_nearest(axis: int) -> None:
    found = ran(lambda x, i: relax.op.take(x, i, axis), DATA, np.array([1, 3, -1, 99, FAR, -FAR]))
    np.testing.assert_array_equal(found, DATA.take([1, 3, 0, 99, 99, 0], axis, mode="clip"))


@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_take_keeps_a_mode_that_was_asked_for(mode: str) -> None:
    at = np.array([1, 3, 9, -1])
    found = ran(lambda x, i: relax.op.take(x, i, 0, mode=mode), DATA, at)
    np.testing.assert_array_equal(found, DATA.take(at, 0, mode=mode))


def test_gathered_elements_are_the_nearest() -> None:
    at = np.array([[0, 1, -1, 99, FAR, -FAR], [3, 2, 1, 0, -4, 3]])
    found = ran(lambda x, i: relax.op.gather_elements(x, i, 0), DATA, at)
    rows = np.array([[0, 1, 3, 3, 3, 0], [3, 2, 1, 0, 0, 3]])
    np.testing.assert_array_equal(found, np.take_along_axis(DATA, rows, 0))
    found = ran(lambda x, i: relax.op.gather_elements(x, i, -1), DATA, np.array([[0], [-1], [FAR], [-FAR]]))
    np.testing.assert_array_equal(found, DATA[np.arange(4), [0, 5, 5, 0]][:, None])


def test_gathered_slices_are_the_nearest() -> None:
    found = ran(lambda x, i: relax.op.gather_nd(x, i), DATA, np.array([[1, 2], [-1, -1], [99, FAR], [-FAR, 3]]))
    np.testing.assert_array_equal(found, DATA[[1, 3, 3, 0], [2, 5, 5, 3]])
    found = ran(lambda x, i: relax.op.gather_nd(x, i), DATA, np.array([[2], [-1], [FAR]]))
    np.testing.assert_array_equal(found, DATA[[2, 3, 3]])
    found = ran(lambda x, i: relax.op.gather_nd(x, i, 1), DATA, np.array([[2], [-1], [FAR], [0]]))
    np.testing.assert_array_equal(found, DATA[range(4), [2, 5, 5, 0]])


ROWS, COLUMNS = np.array([[1], [-1], [FAR], [-FAR]]), np.array([0, -1, 99, -FAR])


def test_tensors_of_positions_count_from_either_end_and_read_the_nearest() -> None:
    found = ran(lambda x, i: relax.op.index_tensor(x, [i]), DATA, ROWS)
    np.testing.assert_array_equal(found, DATA[[[1], [3], [3], [0]]])
    found = ran(lambda x, i, j: relax.op.index_tensor(x, [i, j]), DATA, ROWS, COLUMNS)
    np.testing.assert_array_equal(found, DATA[[[1], [3], [3], [0]], [0, 5, 5, 0]])


@pytest.mark.parametrize("is_added", [False, True])
def test_values_are_put_inside_alone(is_added: bool) -> None:
    def put(*given: relax.Expr) -> relax.Expr:
        data, rows, columns, values = given
        return relax.op.index_put(data, relax.Tuple([rows, columns]), values, is_added)

    columns, values = np.array([0, -1, 99, 0]), np.float32([100, 101, 102, 103])
    found = ran(put, DATA, ROWS, columns, values)
    wanted = DATA.copy()
    for row in (1, 3):
        wanted[row, [0, 5]] = [203 + DATA[row, 0], 101 + DATA[row, 5]] if is_added else [103, 101]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("reduction", "first"), [("update", -2.0), ("add", -3.0)])
def test_elements_are_scattered_inside_alone(reduction: str, first: float) -> None:
    at = np.array([[0, 1, -1, 99, FAR, -FAR], [0, 2, 2, 4, -5, 3]])
    updates = np.float32([[-1] * 6, [-2] * 6])
    found = ran(lambda x, i, u: relax.op.scatter_elements(x, i, u, 0, reduction), DATA, at, updates)
    wanted = DATA.copy()
    old = wanted if reduction == "add" else np.zeros_like(wanted)
    wanted[0, 0] = first + old[0, 0]
    for row, column, value in [(1, 1, -1), (3, 2, -1), (2, 1, -2), (2, 2, -2), (3, 5, -2)]:
        wanted[row, column] = value + old[row, column]
    np.testing.assert_array_equal(found, wanted)


def test_slices_are_scattered_inside_alone() -> None:
    at, updates = np.array([[1], [-1], [4], [FAR], [-FAR]]), -np.ones((5, 6), "float32")
    found = ran(lambda x, i, u: relax.op.scatter_nd(x, i, u, "update"), DATA, at, updates)
    wanted = DATA.copy()
    wanted[[1, 3]] = -1
    np.testing.assert_array_equal(found, wanted)


def test_a_kernel_whose_last_stage_is_loops_of_other_code_is_compiled() -> None:
    def kernel(x: te.Tensor, i: te.Tensor, u: te.Tensor) -> te.Tensor:
        return topi.scatter_nd(x, topi.transpose(i, [1, 0]), u, "update")

    builder = relax.BlockBuilder()
    types = [((4, 6), "float32"), ((2, 1), "int64"), ((2, 6), "float32")]
    params = [relax.Var(f"p{at}", relax.TensorType(shape, dtype)) for at, (shape, dtype) in enumerate(types)]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit_te(kernel, *params))
    machine = vmkit.VirtualMachine(vmkit.compile(builder.get()), "cpu")
    found = machine.run(DATA, np.array([[1], [3]]), -np.ones((2, 6), "float32")).numpy()
    wanted = DATA.copy()
    wanted[[1, 3]] = -1
    np.testing.assert_array_equal(found, wanted)
