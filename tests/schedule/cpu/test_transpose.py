"""Transposes go from tile to tile along the axis whose lines stay in the cache, and give what numpy gives."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import te, topi
from tvm.target import Target

from vmkit.schedule import cpu as rules
from vmkit.schedule.cpu import transpose
from vmkit.schedule.rule import Versions

from .kernels import called

ONE = Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "skylake-avx512"})
TWO = Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "skylake-avx512", "num-cores": 2})


def planned(shape: tuple[int, ...], dtype: str = "float32", target: Target = ONE) -> transpose.Decisions:
    x = te.placeholder(shape, dtype, name="x")
    return decided(te.create_prim_func([x, topi.transpose(x, (0, 2, 1))]), target)[0]


def decided(
    function: tvm.tirx.PrimFunc, target: Target
) -> tuple[transpose.Decisions, Versions[transpose.Decisions] | None]:
    """Return how a kernel is to be written, and the versions of it among which sizes of a call decide, if any."""
    schedule = rules.prepared(function)
    assert schedule is not None
    decisions = transpose.RULE.decide(schedule, target)
    assert decisions is not None
    assert transpose.RULE.spare_versions is not None
    return decisions, transpose.RULE.spare_versions(schedule, target, decisions)


def versions_of(function: tvm.tirx.PrimFunc, target: Target) -> Versions[transpose.Decisions]:
    versions = decided(function, target)[1]
    assert versions is not None
    return versions


@pytest.mark.parametrize(
    ("shape", "dtype", "is_along"),
    [
        ((1, 576, 196), "float32", False),  # half lines of 576 would be read, and are gone before the other half is
        ((1, 49, 576), "float32", True),
        ((1, 3136, 96), "float32", False),
        ((1, 96, 3136), "float32", True),
        ((8, 49, 512), "int64", False),  # lines a page apart are in each other's place
        ((8, 512, 49), "int64", True),
        ((1, 8192, 96), "float32", True),
        ((1, 96, 8192), "float32", False),
        ((1, 256, 256), "float32", True),
    ],
)
def test_tiles_follow_each_other_along_the_lines_that_stay_near(
    shape: tuple[int, ...], dtype: str, is_along: bool
) -> None:
    assert planned(shape, dtype).is_along is is_along


@pytest.mark.parametrize(
    ("shape", "dtype", "lanes", "rows"),
    [
        ((1, 8192, 96), "float32", 8, 8),
        ((1, 1024, 64), "float32", 8, 8),
        ((1, 8192, 96), "float16", 8, 8),
        ((1, 1024, 64), "float16", 8, 16),  # half a page apart, twice as many lines stay
        ((8, 512, 49), "float32", 8, 16),  # no square divides 49, and a tile of two takes one more of them
        ((8, 512, 49), "float16", 8, 8),
        ((1, 2048, 512), "float32", 16, 16),  # lines that are read lie too far apart to be fetched again
    ],
)
def test_no_more_lines_are_written_by_turns_than_stay(
    shape: tuple[int, ...], dtype: str, lanes: int, rows: int
) -> None:
    decisions = planned(shape, dtype)
    assert (decisions.lanes, decisions.rows) == (lanes, rows)


@pytest.mark.parametrize(
    ("shape", "dtype", "columns", "is_along"),
    [
        ((1, 1000, 1000), "uint8", 64, False),
        ((1, 6000, 96), "float16", 32, False),
        ((4, 64, 3136), "int8", 64, False),
        ((1, 8192, 96), "uint8", 64, True),  # lines pages apart are not fetched ahead: those of one square are
    ],
)
def test_squares_of_narrow_elements_fill_lines_together(
    shape: tuple[int, ...], dtype: str, columns: int, is_along: bool
) -> None:
    decisions = planned(shape, dtype)
    assert (decisions.columns, decisions.together, decisions.is_along) == (columns, 4, is_along)


def test_squares_stay_alone_where_cores_could_share_none_of_them_and_where_rows_are_short() -> None:
    assert planned((1, 1000, 1000), "uint8", TWO).together == 1
    assert planned((4, 1000, 1000), "uint8", TWO).together == 4
    assert planned((1, 70, 4000), "uint8").together == 1
    assert planned((1, 100, 1000), "uint8").together == 1
    assert planned((1, 1000, 1000), "float32").together == 1


def test_tiles_keep_a_loop_that_cores_can_share() -> None:
    assert not planned((1, 100, 1024)).is_along
    assert planned((1, 100, 1024), target=TWO).is_along


@pytest.mark.parametrize("shape", [(1, 576, 196), (2, 49, 512), (1, 96, 600), (3, 257, 40), (1, 1024, 36)])
def test_both_ways_give_the_same(shape: tuple[int, ...]) -> None:
    x = te.placeholder(shape, name="x")
    module = tvm.IRModule({"main": te.create_prim_func([x, topi.transpose(x, (0, 2, 1))])})
    values = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    function = rules.schedule_kernels(module, Target("llvm"))["main"]
    np.testing.assert_array_equal(called(function, [values], values.swapaxes(1, 2).shape), values.swapaxes(1, 2))


def test_few_lines_are_written_at_a_time_where_they_may_lie_pages_apart() -> None:
    n = tvm.tirx.Var("n", "int64")

    def made(*shape: int) -> tvm.tirx.PrimFunc:
        x = te.placeholder((n, *shape), name="x")
        return te.create_prim_func([x, topi.transpose(x, (2, 0, 1))])

    def rows(*shape: int) -> int:
        return decided(made(*shape), ONE)[0].rows

    assert (rows(128, 96), rows(4096, 96), rows(4096, 1024)) == (8, 8, 16)
    values = np.arange(3 * 128 * 96, dtype="float32").reshape(3, 128, 96)
    function = rules.schedule_kernels(tvm.IRModule({"main": made(128, 96)}), Target("llvm"))["main"]
    expected = values.transpose(2, 0, 1)
    np.testing.assert_array_equal(called(function, [values], expected.shape), expected)


def test_few_lines_are_written_at_a_time_where_those_that_are_read_stay_in_the_second_cache() -> None:
    def made(*shape: int | tvm.tirx.Var) -> tvm.tirx.PrimFunc:
        sizes = [tvm.tirx.IntImm("int64", size) if isinstance(size, int) else size for size in shape]
        x = te.placeholder(sizes, name="x")
        return te.create_prim_func([x, topi.transpose(x, (0, 2, 1))])

    n = tvm.tirx.Var("n", "int64")
    shapes = ((1, 1024, 196), (1, 2048, 512), (1, 4096, 1000), (1, 1008, 320), (1, 1024, n), (1, 1000, n))
    found = [(decisions.rows, versions is not None) for decisions, versions in (decided(made(*s), ONE) for s in shapes)]
    assert found == [(8, False), (16, False), (16, False), (16, False), (16, True), (16, False)]
    for shape in ((1, 1024, 36), (1, 1024, n)):
        function = rules.schedule_kernels(tvm.IRModule({"main": made(*shape)}), Target("llvm"))["main"]
        values = np.arange(1024 * 36, dtype="float32").reshape(1, 1024, 36)
        np.testing.assert_array_equal(called(function, [values], (1, 36, 1024)), values.swapaxes(1, 2))


@pytest.mark.parametrize("target", [ONE, TWO])
def test_sizes_of_a_call_say_whether_lines_lie_pages_apart(target: Target) -> None:
    n, m = (tvm.tirx.Var(name, "int64") for name in "nm")
    x = te.placeholder((n, m), name="x")
    function = te.create_prim_func([x, topi.transpose(x)])
    size, of_sizes = versions_of(function, target)

    def chosen(rows: int, columns: int) -> int:
        values = dict(zip(function.params[0].ty.shape, (rows, columns), strict=True))
        number = tvm_ffi.structural_map(size, (tvm.ir.Var, lambda var: tvm.tirx.IntImm("int64", values[var])))
        least = int(tvm.sym.Analyzer().simplify(number))
        return next(version.rows for number, version in of_sizes if least >= number)

    # Of lines that share places, or lie in many pages, none is in the second cache when it is read again.
    assert [chosen(*shape) for shape in ((8192, 96), (1000, 96), (1024, 1024), (3072, 20))] == [8, 16, 16, 8]
    assert [chosen(*shape) for shape in ((1024, 196), (1024, 1000), (4096, 1000), (2048, 512))] == [8, 8, 16, 16]
    made = rules.schedule_kernels(tvm.IRModule({"main": function}), Target("llvm"))["main"]
    for shape in ((1024, 9), (1000, 9), (3, 5)):
        values = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        np.testing.assert_array_equal(called(made, [values], values.T.shape), values.T)


def test_narrow_elements_of_any_number_of_lines_are_written_whole_lines_at_a_time() -> None:
    n = tvm.tirx.Var("n", "int64")
    x = te.placeholder((n, 96), name="x", dtype="uint8")
    function = te.create_prim_func([x, topi.transpose(x)])
    assert {version.together for _, version in versions_of(function, ONE)[1]} == {1, 4}
    made = rules.schedule_kernels(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}), ONE)
    kernel = tvm.compile(made, "llvm")["main"]
    for count in (4096, 640, 256, 7):
        values = np.arange(count * 96).astype("uint8").reshape(count, 96)
        result = tvm.runtime.tensor(np.zeros((96, count), "uint8"))
        kernel(tvm.runtime.tensor(values), result)
        np.testing.assert_array_equal(result.numpy(), values.T)


def test_where_code_is_to_be_short_one_version_transposes_any_sizes() -> None:
    n, m = (tvm.tirx.Var(name, "int64") for name in "nm")
    x = te.placeholder((n, m), name="x")
    mod = tvm.IRModule({"main": te.create_prim_func([x, topi.transpose(x)])})
    made, short = (rules.schedule_kernels(mod, TWO, is_short=is_short)["main"] for is_short in (False, True))
    assert len(short.script()) * 2 < len(made.script())
    for shape in ((1024, 9), (3, 5)):
        values = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        np.testing.assert_array_equal(called(short, [values], values.T.shape), values.T)
