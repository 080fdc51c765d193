"""What rules ask about the blocks of a kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import s_tir, te, tirx, topi

from tests.schedule.kernels import call, kernel
from vmkit.schedule.blocks import (
    extent,
    is_reduction,
    kernel_blocks,
    loops_of_results,
    partial_results,
    share_among_cores,
    single_reduction,
    static_size,
)

n = tirx.Var("n", "int64")


def test_sizes_of_loops_are_known_or_not() -> None:
    sch = kernel(lambda x: topi.exp(x), (n, 4, 5))
    loops = sch.get_loops(kernel_blocks(sch)[0])
    assert [extent(sch, loop) for loop in loops] == [None, 4, 5]
    assert static_size(sch, loops) == 20


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


def test_cores_share_loops_of_sizes_that_are_sums() -> None:
    """TVM does not fuse all of these; sizes of 64 bits are what its simplifier fails for."""
    b, h = (tirx.Var(name, "int64") for name in "bh")
    channels = tirx.IntImm("int64", 24)
    x = te.placeholder((b, h - 5, channels), name="x")
    made = te.compute((b, channels, h - 5), lambda j, c, i: x[j, i, c], name="made")
    sch = s_tir.Schedule(te.create_prim_func([x, h, made]))
    batch, c, i = sch.get_loops(sch.get_sblock("made"))
    outer, inner = sch.split(c, [None, 8])
    sch.reorder(batch, i, outer, inner)
    share_among_cores(sch, [batch, i, outer])
    assert "T.parallel(b * (h - T.int64(5)))" in sch.mod["main"].script()
    values, result = np.arange(2 * 3 * 24, dtype="float32").reshape(2, 3, 24), np.zeros((2, 24, 3), "float32")
    tensors = [tvm.runtime.tensor(each) for each in (values, result)]
    tvm.compile(sch.mod, "llvm")["main"](tensors[0], 8, tensors[1])
    np.testing.assert_array_equal(tensors[1].numpy(), values.transpose(0, 2, 1))
