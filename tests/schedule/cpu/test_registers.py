"""Tiles of results are buffers of their size, and where a tile begins is computed once."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import s_tir, te, tirx

from tests.schedule.cpu.kernels import called
from vmkit.schedule.cpu.overlap import tiles, with_overlaps
from vmkit.schedule.cpu.registers import with_registers

n = tirx.Var("n", "int64")


def rows_of_sums(size: int | tirx.Var) -> tirx.PrimFunc:
    x = te.placeholder((size, 5, 8), name="x")
    k = te.reduce_axis((0, 5), "k")
    total = te.compute((size, 8), lambda i, j: te.sum(x[i, k, j], k), name="total")
    return te.create_prim_func([x, te.compute((size, 8), lambda i, j: total[i, j] * 2, name="result")])


def tiled(size: int | tirx.Var, function: tirx.PrimFunc | None = None) -> tirx.PrimFunc:
    """Return sums in tiles of four rows, whose results are in registers."""
    sch = s_tir.Schedule(rows_of_sums(size) if function is None else function)
    total, result = sch.get_sblock("total"), sch.get_sblock("result")
    i, j, k = sch.get_loops(total)
    whole, row = tiles(sch, i, 4)
    sch.reorder(whole, k, row, j)
    sch.set_scope(total, 0, "local")
    sch.reverse_compute_at(result, whole, preserve_unit_loops=True)
    for loop in (row, sch.get_loops(result)[1]):
        sch.unroll(loop)
    for loop in (j, sch.get_loops(result)[2]):
        sch.vectorize(loop)
    sch.decompose_reduction(total, k)
    return with_overlaps(sch.mod["main"], n if size is n else None)


def buffers_in(function: tirx.PrimFunc) -> list[list[str]]:
    return [[str(d) for d in each.ty.shape] for each in function.body.block.alloc_buffers]


@pytest.mark.parametrize("size", [n, 7, 8])
def test_the_buffer_of_a_tile_is_as_large_as_the_tile(size: int | tirx.Var) -> None:
    before = tiled(size)
    made = with_registers(before)
    assert buffers_in(before) == [[str(size), "8"]] and buffers_in(made) == [["4", "8"]]
    for rows in (4, 5, 7, 8, 9) if size is n else (size,):
        x = np.random.default_rng(rows).standard_normal((rows, 5, 8)).astype("float32")
        np.testing.assert_allclose(called(made, [x], (rows, 8)), 2 * x.sum(1), 1e-5, 1e-5)


def test_where_a_tile_of_an_unknown_size_begins_is_computed_once() -> None:
    assert tiled(n).script().count("T.min(") == 3
    made = with_registers(tiled(n)).script()
    assert made.count("T.min(") == 1 and "start + " in made
    assert with_registers(tiled(7)).script().count("T.min(") == tiled(7).script().count("T.min(")  # a few constants


def test_where_a_tile_begins_whose_elements_are_tested_is_computed_once() -> None:
    x = te.placeholder((n, 5, 8), name="x")
    k = te.reduce_axis((0, 5), "k")
    within = te.compute((n, 8), lambda i, j: te.sum(tirx.if_then_else(i + k > 3, x[i, k, j], 0.0), k), name="total")
    function = te.create_prim_func([x, te.compute((n, 8), lambda i, j: within[i, j] * 2, name="result")])
    made = with_registers(tiled(n, function))
    assert made.script().count("T.min(") == 1
    for rows in (4, 6, 9):
        data = np.random.default_rng(rows).standard_normal((rows, 5, 8)).astype("float32")
        is_in = np.add.outer(np.arange(rows), np.arange(5)) > 3
        np.testing.assert_allclose(called(made, [data], (rows, 8)), 2 * (data * is_in[..., None]).sum(1), 1e-5, 1e-5)


def test_a_place_is_seen_where_another_buffer_of_the_kernel_is_read() -> None:
    x = te.placeholder((n, 8), name="x")
    stage = te.compute((n + 2, 8), lambda i, j: tirx.if_then_else(i < 1, 0.0, x[tirx.max(i - 2, 0), j]), name="stage")
    k = te.reduce_axis((0, 3), "k")
    total = te.compute((n, 8), lambda i, j: te.sum(stage[i + k, j], k), name="total")
    result = te.compute((n, 8), lambda i, j: total[i, j] * 2, name="result")
    made = with_registers(tiled(n, te.create_prim_func([x, result])))
    assert ["4", "8"] in buffers_in(made) and "start" not in made.script()
    for rows in (4, 6, 9):
        value = np.random.default_rng(rows).standard_normal((rows, 8)).astype("float32")
        padded = np.concatenate([np.zeros((1, 8), "float32"), value[:1], value])
        expected = 2 * (padded[:-2] + padded[1:-1] + padded[2:])
        np.testing.assert_allclose(called(made, [value], (rows, 8)), expected, 1e-5, 1e-5)


def test_sums_over_an_outer_loop_keep_their_buffer() -> None:
    sch = s_tir.Schedule(rows_of_sums(n))
    total = sch.get_sblock("total")
    i, j, k = sch.get_loops(total)
    sch.reorder(k, i, j)
    sch.set_scope(total, 0, "local")
    sch.vectorize(j)
    sch.decompose_reduction(total, k)
    function = sch.mod["main"]
    assert buffers_in(with_registers(function)) == [["n", "8"]]


def test_a_kernel_without_registers_stays_as_it_is() -> None:
    function = rows_of_sums(n)
    assert with_registers(function).same_as(function)
