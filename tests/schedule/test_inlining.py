"""Blocks that map elements are written into what reads them, where that repeats no work."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import s_tir, te, tirx, topi

from tests.schedule.kernels import call, kernel
from vmkit.schedule.blocks import is_reduction, kernel_blocks
from vmkit.schedule.inlining import inline_cheap_blocks, inline_rows

n = tirx.Var("n", "int64")


def test_blocks_that_map_elements_are_inlined_into_their_one_reader() -> None:
    sch = kernel(lambda x: topi.nn.relu(topi.exp(x) + 1), (8,))
    inline_cheap_blocks(sch)
    assert len(kernel_blocks(sch)) == 1


@pytest.mark.parametrize(("finish", "blocks"), [(topi.nn.relu, 1), (topi.exp, 2)], ids=["clipped", "exp"])
def test_a_concatenation_of_many_is_written_into_what_calls_no_function(
    finish: Callable[[te.Tensor], te.Tensor], blocks: int
) -> None:
    sch = kernel(lambda *xs: finish(topi.concatenate(xs, -1)), *[(5, 8)] * 9)
    inline_cheap_blocks(sch)
    assert len(kernel_blocks(sch)) == blocks
    xs = [np.linspace(-at, 2, 40, dtype="float32").reshape(5, 8) for at in range(9)]
    joined = np.concatenate(xs, -1)
    expected = np.maximum(joined, 0) if blocks == 1 else np.exp(joined)
    np.testing.assert_allclose(call(sch, *xs, shape=(5, 72)), expected, rtol=1e-6)


def test_a_block_that_a_reduction_reads_again_and_again_is_not_inlined() -> None:
    sch = kernel(lambda x, y: topi.matmul(topi.exp(x), y), (8, 9), (9, 5))
    inline_cheap_blocks(sch)
    assert [is_reduction(sch, block) for block in kernel_blocks(sch)] == [False, True]


@pytest.mark.parametrize("shape", [(8, 9), (8, n)])
def test_a_block_that_a_reduction_reads_once_is_inlined(shape: tuple[int | tirx.Var, ...]) -> None:
    sch = kernel(lambda x, y: topi.sum(topi.exp(topi.add(x, y)), 1), shape, (8, 1))
    inline_cheap_blocks(sch)
    assert [is_reduction(sch, block) for block in kernel_blocks(sch)] == [True]
    x, y = np.linspace(-1, 1, 72, dtype="float32").reshape(8, 9), np.linspace(1, 2, 8, dtype="float32").reshape(8, 1)
    np.testing.assert_allclose(call(sch, x, y, shape=(8,)), np.exp(x + y).sum(1), rtol=1e-5)


@pytest.mark.parametrize(("made", "count"), [(topi.subtract, 1), (lambda x, y: topi.exp(topi.subtract(x, y)), 2)])
def test_arithmetic_that_a_sum_of_squares_reads_twice_is_inlined(made: Callable[..., te.Tensor], count: int) -> None:
    def squares(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        difference = made(topi.expand_dims(x, 2), topi.expand_dims(y, 0))
        return topi.sum(topi.multiply(difference, difference), 1)

    sch = kernel(squares, (8, 9), (9, 5))
    inline_cheap_blocks(sch)
    whole = [block for block in kernel_blocks(sch) if len(sch.get_loops(block)) == 3 and sch.get(block).writes]
    sizes = [[int(sch.get(loop).extent) for loop in sch.get_loops(block)] for block in whole]
    assert len([each for each in sizes if each in ([8, 9, 5], [8, 5, 9])]) == count
    x, y = np.linspace(-1, 1, 72, dtype="float32").reshape(8, 9), np.linspace(1, 2, 45, dtype="float32").reshape(9, 5)
    difference = x[:, :, None] - y[None]
    expected = (difference**2 if count == 1 else np.exp(difference) ** 2).sum(1)
    np.testing.assert_allclose(call(sch, x, y, shape=(8, 5)), expected, rtol=1e-5)


@pytest.mark.parametrize("move", [lambda x: topi.nn.pad(x, [0, 1], [0, 1]), topi.transpose], ids=["pad", "transpose"])
def test_what_moves_elements_is_not_inlined_into_a_reduction(move: Callable[..., te.Tensor]) -> None:
    sch = kernel(lambda x: topi.sum(move(x), 1), (8, 9))
    inline_cheap_blocks(sch)
    assert len(kernel_blocks(sch)) == 2


def test_a_product_of_numbers_is_inlined_into_what_is_made_of_a_sum() -> None:
    sch = kernel(lambda x, y, a, b: topi.multiply(topi.matmul(x, y), topi.multiply(a, b)), (8, 9), (9, 5), (), ())
    inline_cheap_blocks(sch)
    # As a block behind the sum, it would keep what is made of that out of the sum's loops.
    assert [is_reduction(sch, block) for block in kernel_blocks(sch)] == [True, False]


def test_a_block_whose_elements_are_read_many_times_is_not_inlined() -> None:
    def spread(x: te.Tensor) -> te.Tensor:
        root = topi.sqrt(x)
        return te.compute((5, 8), lambda i, j: root[j] + i, name="spread")

    sch = kernel(spread, (8,))
    inline_cheap_blocks(sch)
    assert len(kernel_blocks(sch)) == 2


def test_a_tanh_of_a_tanh_of_a_tanh_is_computed_apart() -> None:
    sch = kernel(lambda x: topi.tanh(topi.add(topi.tanh(topi.add(topi.tanh(x), x)), x)), (4,))
    inline_cheap_blocks(sch)
    assert len(kernel_blocks(sch)) == 2
    x = np.linspace(-2, 2, 4, dtype="float32")
    np.testing.assert_allclose(call(sch, x, shape=(4,)), np.tanh(np.tanh(np.tanh(x) + x) + x), rtol=1e-5)


def test_what_would_become_a_large_statement_is_not_inlined() -> None:
    def reshaped(x: te.Tensor) -> te.Tensor:
        for shape in [(30, 20), (2, 300), (20, 30)] * 8:
            x = topi.reshape(x, shape)  # each writes the index that it is read at several times over
        return x

    sch = kernel(reshaped, (20, 30))
    assert len(kernel_blocks(sch)) == 24
    inline_cheap_blocks(sch)
    blocks = kernel_blocks(sch)
    assert 2 <= len(blocks) < 12
    nodes: list[tvm.ir.Expr] = []
    tvm_ffi.structural_walk(sch.mod["main"].body, (tvm.ir.Expr, nodes.append))
    assert len(nodes) < len(blocks) * 3 * 2000  # what blocks read is told beside what they compute
    x = np.arange(600, dtype="float32").reshape(20, 30)
    np.testing.assert_array_equal(call(sch, x, shape=(20, 30)), x)


def test_quotients_of_integers_within_each_other_are_computed_apart() -> None:
    x = te.placeholder((8,), "int64", name="x")
    value = x
    for k in range(5):
        value = topi.floor_divide(value, topi.add(x, tirx.const(k + 1, "int64")))
    sch = s_tir.Schedule(te.create_prim_func([x, value]))
    inline_cheap_blocks(sch)
    assert len(kernel_blocks(sch)) == 3  # two quotients in each of the first, and one that is left


@pytest.mark.parametrize("operation", [topi.floor_divide, topi.floor_mod], ids=["quotient", "remainder"])
def test_one_quotient_of_integers_is_inlined(operation: Callable[..., te.Tensor]) -> None:
    x = te.placeholder((8,), "int64", name="x")
    sch = s_tir.Schedule(te.create_prim_func([x, topi.add(operation(x, topi.add(x, x)), x)]))
    inline_cheap_blocks(sch)
    assert len(kernel_blocks(sch)) == 1


def test_arithmetic_of_one_row_is_inlined_where_rows_go_by_its_elements() -> None:
    sch = kernel(lambda x, y: x - y * 3.0, (n, 9), (9,))
    inline_cheap_blocks(sch)
    assert len(kernel_blocks(sch)) == 2
    inline_rows(sch)
    assert len(kernel_blocks(sch)) == 1
    x, y = np.arange(36, dtype="float32").reshape(4, 9), np.arange(9, dtype="float32")
    np.testing.assert_array_equal(call(sch, x, y, shape=(4, 9)), x - y * 3)


def weighted(x: te.Tensor, y: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, 9))
    return te.compute((x.shape[0],), lambda i: te.sum(x[i, k] * y[k], k))


@pytest.mark.parametrize(
    ("compute", "shapes"),
    [
        (lambda x, y: x - topi.exp(y), [(n, 9), (9,)]),
        (lambda x, y: weighted(x, y * 3.0), [(n, 9), (9,)]),
    ],
    ids=["a function", "a reduction"],
)
def test_other_rows_stay_blocks_of_their_own(compute: Callable[..., te.Tensor], shapes: list[tuple[int, ...]]) -> None:
    sch = kernel(compute, *shapes)
    before = len(kernel_blocks(sch))
    inline_rows(sch)
    assert len(kernel_blocks(sch)) == before
