"""What rules ask about the blocks of a kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import s_tir, te, tirx, topi

from vmkit.schedule.blocks import (
    extent,
    inline_cheap_blocks,
    is_reduction,
    kernel_blocks,
    loops_of_results,
    partial_results,
    single_reduction,
    static_size,
)

n = tirx.Var("n", "int64")


def kernel(compute: Callable[..., te.Tensor], *shapes: tuple[int | tirx.Var, ...]) -> s_tir.Schedule:
    """Return the schedule of a kernel of operands of some shapes."""
    given = [te.placeholder(shape, name=f"x{at}") for at, shape in enumerate(shapes)]
    return s_tir.Schedule(te.create_prim_func([*given, compute(*given)]))


def call(sch: s_tir.Schedule, *values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return what a scheduled kernel computes."""
    function = sch.mod["main"].with_attr("global_symbol", "main")
    result = tvm.runtime.empty(shape)
    tvm.compile(tvm.IRModule({"main": function}), "llvm")["main"](*map(tvm.runtime.tensor, values), result)
    return result.numpy()


def test_sizes_of_loops_are_known_or_not() -> None:
    sch = kernel(lambda x: topi.exp(x), (n, 4, 5))
    loops = sch.get_loops(kernel_blocks(sch)[0])
    assert [extent(sch, loop) for loop in loops] == [None, 4, 5]
    assert static_size(sch, loops) == 20


def test_blocks_that_map_elements_are_inlined_into_their_one_reader() -> None:
    sch = kernel(lambda x: topi.nn.relu(topi.exp(x) + 1), (8,))
    inline_cheap_blocks(sch)
    assert len(kernel_blocks(sch)) == 1


def test_a_block_that_a_reduction_reads_is_not_inlined() -> None:
    sch = kernel(lambda x: topi.sum(topi.exp(x), 1), (8, 9))
    inline_cheap_blocks(sch)
    assert [is_reduction(sch, block) for block in kernel_blocks(sch)] == [False, True]


def test_a_block_whose_elements_are_read_many_times_is_not_inlined() -> None:
    def spread(x: te.Tensor) -> te.Tensor:
        root = topi.sqrt(x)
        return te.compute((5, 8), lambda i, j: root[j] + i, name="spread")

    sch = kernel(spread, (8,))
    inline_cheap_blocks(sch)
    assert len(kernel_blocks(sch)) == 2


def test_a_kernel_around_one_reduction_is_taken_apart() -> None:
    sch = kernel(lambda x, w: topi.nn.relu(topi.nn.dense(topi.exp(x), w)), (n, 6), (5, 6))
    found = single_reduction(sch)
    assert found is not None and found.after is not None and found.spatial == 2
    assert is_reduction(sch, found.block) and len(found.others) == 1


@pytest.mark.parametrize(
    "compute",
    [topi.exp, lambda x: topi.sum(x), lambda x: topi.nn.softmax(x)],
    ids=["no reduction", "nothing left of it", "several"],
)
def test_other_kernels_are_none_around_one_reduction(compute: Callable[..., te.Tensor]) -> None:
    assert single_reduction(kernel(compute, (8, 9))) is None


@pytest.mark.parametrize("reduce", [topi.sum, topi.max, topi.min], ids=["sum", "max", "min"])
def test_partial_results_keep_the_result(reduce: Callable[..., te.Tensor]) -> None:
    sch = kernel(lambda x: reduce(x, 1), (3, 12))
    (block,) = kernel_blocks(sch)
    _, lane = sch.split(sch.get_loops(block)[-1], [None, 4])
    partial = partial_results(sch, block, lane, 1)
    assert [extent(sch, loop) for loop in sch.get_loops(partial)] == [3, 3, 4]
    x = np.random.default_rng(0).standard_normal((3, 12)).astype("float32")
    expected = {"sum": x.sum(1), "max": x.max(1), "min": x.min(1)}[reduce.__name__]
    np.testing.assert_allclose(call(sch, x, shape=(3,)), expected, rtol=1e-6)


def test_partial_results_of_an_extreme_start_from_infinity() -> None:
    def largest(x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 8), "k")
        most = te.comm_reducer(lambda a, b: tirx.max(a, b), lambda dtype: tirx.FloatImm(dtype, float("-inf")))
        return te.compute((2,), lambda i: most(x[i, k], axis=k), name="largest")

    sch = kernel(largest, (2, 8))
    (block,) = kernel_blocks(sch)
    _, lane = sch.split(sch.get_loops(block)[-1], [None, 4])
    partial_results(sch, block, lane, 1)
    x = np.full((2, 8), -np.inf, "float32")
    x[1, 5] = 2
    assert call(sch, x, shape=(2,)).tolist() == [-np.inf, 2]


def test_results_of_a_tile_are_written_at_its_end() -> None:
    sch = kernel(lambda x, w: topi.nn.dense(x, w), (4, 6), (8, 6))
    found = single_reduction(sch)
    assert found is not None
    i, j, k = sch.get_loops(found.block)
    tile, lane = sch.split(j, [None, 4])
    sch.reorder(i, tile, k, lane)
    assert [extent(sch, loop) for loop in loops_of_results(sch, found, [i, tile])] == [1, 4]
    assert sch.get(found.block).writes[0].source.scope() == "local"


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
