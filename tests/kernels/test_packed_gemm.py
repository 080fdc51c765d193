"""Products of rows with a weight in blocks, with a bias and a residual."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx

from tests.kernels.written_kernels import normal
from vmkit.kernels.packed_gemm import packed_gemm, shared_packed_gemm
from vmkit.kernels.packed_gemm_plan import (
    PackedGemmPlan,
    PackedGemmShape,
    PackedGemmWindow,
    block_of,
    plan_packed_gemm,
    rows_ahead,
    shared_plan,
    vectors_of,
)


@pytest.mark.sweep
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("rows", [1, 3, 4, 9, 32])
@pytest.mark.parametrize(("outer", "block"), [(24, 8), (40, 16), (28, 16), (44, 16), (4, 8), (52, 24)])
def test_a_kernel_computes_any_number_of_rows(outer: int, block: int, rows: int, is_known: bool) -> None:
    lanes, inner = 8, 6
    shape = PackedGemmShape((1, rows if is_known else None), inner, outer, block, lanes, True, True, -0.5, 0.75)
    plan = plan_packed_gemm(shape, 8) if is_known else PackedGemmPlan(4, 2, 2, 1)
    data, weight, bias = normal(1, rows, inner), normal(inner, outer, seed=1), normal(outer, seed=2)
    residual = normal(1, rows, outer, seed=3)
    whole = np.pad(weight, ((0, 0), (0, -outer % block)), constant_values=np.nan)  # what fills up is not used
    blocks = np.ascontiguousarray(whole.reshape(inner, -1, block).transpose(1, 0, 2))
    result = tvm.runtime.tensor(np.full((1, rows, outer), np.nan, "float32"))
    kernel = packed_gemm(shape, plan).with_attr("global_symbol", "main")
    inputs = [tvm.runtime.tensor(each) for each in (data, blocks, bias, residual)]
    tvm.compile(tvm.IRModule({"main": kernel}), tvm.target.Target("llvm"))["main"](*inputs, result)
    expected = np.clip(data.astype("float64") @ weight + bias + residual, -0.5, 0.75)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 9, 32])
@pytest.mark.parametrize(
    ("outer", "block", "vectors"),
    [(12, 16, [8, 4]), (20, 24, [8, 8, 4]), (4, 8, [4]), (16, 16, [8, 8]), (14, 16, [8, 8]), (28, 16, [8, 8])],
)
def test_the_last_vector_is_shorter_where_that_takes_less_time(
    outer: int, block: int, vectors: list[int], rows: int
) -> None:
    lanes, inner = 8, 6
    shape = PackedGemmShape((1, rows), inner, outer, block, lanes, True, True, -0.5, 0.75, least=4)
    assert shape.vectors(min(outer, block)) == vectors
    assert set(replace(shape, lead=(1, None)).vectors(min(outer, block))) == {lanes}
    data, weight, bias = normal(1, rows, inner), normal(inner, outer, seed=1), normal(outer, seed=2)
    residual = normal(1, rows, outer, seed=3)
    whole = np.pad(weight, ((0, 0), (0, -outer % block)), constant_values=np.nan)  # what fills up is not used
    blocks = np.ascontiguousarray(whole.reshape(inner, -1, block).transpose(1, 0, 2))
    result = tvm.runtime.tensor(np.full((1, rows, outer), np.nan, "float32"))
    kernel = packed_gemm(shape, plan_packed_gemm(shape, 16)).with_attr("global_symbol", "main")
    inputs = [tvm.runtime.tensor(each) for each in (data, blocks, bias, residual)]
    tvm.compile(tvm.IRModule({"main": kernel}), tvm.target.Target("llvm"))["main"](*inputs, result)
    expected = np.clip(data.astype("float64") @ weight + bias + residual, -0.5, 0.75)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.sweep
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("rows", [1, 9, 2000])
@pytest.mark.parametrize("joined", [(6, 2), (4, 7, 9)])
def test_rows_go_on_in_other_data(joined: tuple[int, ...], rows: int, is_known: bool) -> None:
    inner, outer, block = sum(joined), 28, 16
    shape = PackedGemmShape(
        (1, rows if is_known else None), inner, outer, block, 8, True, True, -0.5, 0.75, joined=joined
    )
    plan = plan_packed_gemm(shape, 16)
    assert all(size % plan.unrolled == 0 for size in joined)
    weight, bias, residual = normal(inner, outer, seed=1), normal(outer, seed=2), normal(1, rows, outer, seed=3)
    first, *more = [normal(1, rows, size, seed=size) for size in joined]
    whole = np.pad(weight, ((0, 0), (0, -outer % block)), constant_values=np.nan)  # what fills up is not used
    blocks = np.ascontiguousarray(whole.reshape(inner, -1, block).transpose(1, 0, 2))
    result = tvm.runtime.tensor(np.full((1, rows, outer), np.nan, "float32"))
    kernel = packed_gemm(shape, plan).with_attr("global_symbol", "main")
    inputs = [tvm.runtime.tensor(each) for each in (first, blocks, *more, bias, residual)]
    tvm.compile(tvm.IRModule({"main": kernel}), tvm.target.Target("llvm"))["main"](*inputs, result)
    data = np.concatenate([first, *more], axis=-1).astype("float64")
    np.testing.assert_allclose(result.numpy(), np.clip(data @ weight + bias + residual, -0.5, 0.75), 1e-5, 1e-5)


def test_shapes_that_differ_in_sizes_alone_have_one_kernel() -> None:
    one = PackedGemmShape((1, 14, 14), 64, 48, 32, 16, has_bias=True)
    other = PackedGemmShape((2, 28, 28), 20, 112, 32, 16, has_bias=True)
    assert one.without_sizes() == other.without_sizes()
    assert shared_plan(one, 32) == shared_plan(other, 32)
    window = PackedGemmWindow(16, 16, 32, (3, 3), (1, 1), (1, 1))
    images = [replace(one, inner=288, window=window), replace(one, inner=90, window=replace(window, channels=10))]
    assert len({image.without_sizes() for image in images}) == 1
    kinds = [
        one,
        replace(one, outer=64),  # whose last block is full
        replace(one, has_residual=True),
        replace(one, low=0.0),
        images[0],
        replace(images[0], window=replace(window, strides=(2, 2))),
    ]
    assert len({kind.without_sizes() for kind in kinds}) == len(kinds)


def test_a_shared_kernel_computes_what_is_of_its_kind() -> None:
    lanes, block = 8, 16
    kind = PackedGemmShape((1, 9), 12, 24, block, lanes, True, True, -0.5, 0.75)
    kernel = shared_packed_gemm(kind.without_sizes(), shared_plan(kind, 16)).with_attr("global_symbol", "main")
    main = tvm.compile(tvm.IRModule({"main": kernel}), tvm.target.Target("llvm"))["main"]
    for rows, inner, outer in ((9, 12, 24), (6, 4, 8), (31, 20, 40), (2000, 8, 8), (1, 12, 24), (3, 4, 8)):
        data, weight, bias = normal(1, rows, inner), normal(inner, outer, seed=1), normal(outer, seed=2)
        residual = normal(1, rows, outer, seed=3)
        whole = np.pad(weight, ((0, 0), (0, -outer % block)), constant_values=np.nan)  # what fills up is not used
        blocks = np.ascontiguousarray(whole.reshape(inner, -1, block).transpose(1, 0, 2))
        result = tvm.runtime.tensor(np.full((1, rows, outer), np.nan, "float32"))
        main(*(tvm.runtime.tensor(each) for each in (data, blocks, bias, residual)), result)
        expected = np.clip(data.astype("float64") @ weight + bias + residual, -0.5, 0.75)
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_where_rows_are_of_a_batch_alone_all_of_them_go_a_few_at_a_time() -> None:
    few = PackedGemmShape((None, 1, 1), 8, 16, 16, 8)
    any_image = replace(few, lead=(None, None, None))
    kernels = [packed_gemm(shape, plan_packed_gemm(shape, 16)).script() for shape in (few, any_image)]
    assert [kernel.count("T.parallel(") for kernel in kernels] == [1, 2]


def test_a_vector_that_is_not_whole_is_shorter_ones() -> None:
    made = {width: vectors_of(width, 16) for width in (16, 24, 28, 4)}
    assert made == {16: [(0, 16)], 24: [(0, 16), (16, 8)], 28: [(0, 16), (16, 8), (24, 4)], 4: [(0, 4)]}


def test_a_block_is_two_vectors_or_three_where_they_leave_less_over() -> None:
    assert [block_of(8 * vectors, 8) // 8 for vectors in range(1, 12)] == [1, 2, 3, 2, 2, 2, 2, 2, 3, 2, 2]


@pytest.mark.parametrize(("inner", "rows"), [(1000, 14), (1024, 7), (2048, 7), (1536, 14)])
def test_rows_that_are_in_one_set_of_the_cache_are_no_more_than_it_holds(inner: int, rows: int) -> None:
    assert plan_packed_gemm(PackedGemmShape((196,), inner, 256, 32, 16), 32).rows == rows


@pytest.mark.parametrize(("lanes", "block", "lines"), [(16, 32, 2), (8, 16, 1), (16, 48, 3), (8, 24, 2)])
def test_every_line_of_a_residual_and_of_the_result_is_fetched_ahead(lanes: int, block: int, lines: int) -> None:
    plain = PackedGemmShape((1, 64), 64, 4 * block, block, lanes, True)
    plan = plan_packed_gemm(plain, 16)
    texts = [packed_gemm(shape, plan).script() for shape in (plain, replace(plain, has_residual=True))]
    read, written = ([text.count(f", {how}, 1)") for text in texts] for how in ("0, 2", "1, 3"))
    assert read[1] - read[0] == plan.rows * lines  # those of the weight are in both
    assert written == [plan.rows * lines] * 2


@pytest.mark.parametrize(
    ("inner", "outer", "lines"),
    [
        (256, 64, 2),  # 14 rows of 16 lines, by two blocks of 64 rounds
        (64, 256, 1),
        (64, 512, 0),  # so many blocks take longer than the rows to come
        (1024, 256, 0),  # a weight that does not stay is fetched itself
    ],
)
def test_rows_are_fetched_while_those_before_go_by_a_weight_that_stays(inner: int, outer: int, lines: int) -> None:
    shape = PackedGemmShape((8, 56, 56), inner, outer, 32, 16, True)
    plan = plan_packed_gemm(shape, 32)
    assert rows_ahead(shape, plan) == lines
    text = packed_gemm(shape, plan).script()
    assert text.count(", 0, 2, 1)") == (lines or plan.fetched)
    assert rows_ahead(replace(shape, inner=inner // 2, joined=(inner // 4,) * 2), plan) == 0


def test_no_rows_are_fetched_beyond_the_last_one() -> None:
    shape, size = PackedGemmShape((8, 56, 56), 256, 64, 32, 16, True), 8 * 56 * 56 * 256
    fetched: list[Any] = []

    def note(call: tvm.ir.Call) -> None:
        if call.op.name == "tirx.address_of" and int(call.args[0].source.ty.shape[0]) == size:
            fetched.append(call.args[0])

    tvm_ffi.structural_walk(packed_gemm(shape, plan_packed_gemm(shape, 32)).body, (tvm.ir.Call, note))
    assert fetched
    for (index,) in (element.indices for element in fetched):
        assert isinstance(index, tirx.Min)
        assert int(index.b) == size - 1


@pytest.mark.parametrize(("rows", "inner", "tiles", "parts"), [(196, 64, 33, 17), (784, 32, 131, 66), (49, 576, 10, 2)])
def test_groups_of_tiles_that_cores_share_are_equal(rows: int, inner: int, tiles: int, parts: int) -> None:
    plan = plan_packed_gemm(PackedGemmShape((1, rows), inner, 96, 16, 8), 16)
    assert (-(-rows // plan.rows), plan.parts) == (tiles, parts)


@pytest.mark.parametrize(
    ("rows", "inner", "outer", "parts"),
    [
        (3136, 64, 256, 56),  # the second cache holds them beside the weight
        (3136, 64, 64, 56),  # two blocks of it, of which four groups each are shared
        (784, 352, 128, 1),  # no block fits into the first cache, and these rows have just been written
        (25088, 352, 128, 13),
    ],
)
def test_many_rows_go_by_a_block_that_is_nearer_than_they(rows: int, inner: int, outer: int, parts: int) -> None:
    assert plan_packed_gemm(PackedGemmShape((1, rows), inner, outer, 32, 16), 32).parts == parts


def test_rows_whose_ends_take_longer_than_their_sums_are_few() -> None:
    shape = PackedGemmShape((8, 56, 56), 64, 256, 32, 16, True)
    short, long = replace(shape, has_residual=True), replace(shape, inner=256, has_residual=True)
    assert [plan_packed_gemm(each, 32).rows for each in (shape, short, long)] == [14, 8, 14]


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [0, 1, 4, 68, 69, 96])
@pytest.mark.parametrize("parts", [5, 17, None])
def test_rows_of_any_number_go_in_equal_groups_of_tiles(parts: int | None, rows: int) -> None:
    shape = PackedGemmShape((1, None), 6, 40, 16, 8, overlaps=True)
    data, weight = normal(1, rows, 6), normal(6, 40, seed=1)
    blocks = np.stack([weight[:, at : at + 16] for at in (0, 16, 24)])
    plan = PackedGemmPlan(4, parts, 2, 1)
    result = tvm.runtime.tensor(np.full((1, rows, 40), np.nan, "float32"))
    kernel = packed_gemm(shape, plan).with_attr("global_symbol", "main")
    module = tvm.compile(tvm.IRModule({"main": kernel}), tvm.target.Target("llvm"))
    module["main"](tvm.runtime.tensor(data), tvm.runtime.tensor(blocks), result)
    np.testing.assert_allclose(result.numpy(), data.astype("float64") @ weight, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_known", [True, False])
def test_parts_of_windows_in_padding_alone_are_not_multiplied(is_known: bool) -> None:
    channels, outer, lanes, size, apart = 4, 16, 8, 5, 6
    window = PackedGemmWindow(size + 1, size, channels, (3, 3), (1, 1), (apart, apart), (apart,) * 4)
    shape = PackedGemmShape((2, size, size), 9 * channels, outer, 16, lanes, window=window)
    plan = PackedGemmPlan(4, 2, 2, 1)
    kernel = packed_gemm(shape, plan) if is_known else shared_packed_gemm(shape.without_sizes(), shared_plan(shape, 16))
    inside, weight = normal(2, size, size, channels), normal(9, channels, outer, seed=1)
    # What is not to be multiplied is no number: parts but that in the middle are farther away than the image is wide.
    weight[np.arange(9) != 4] = np.nan
    data = np.pad(inside, ((0, 0), (0, 1), (0, 0), (0, 0)))
    inputs = [tvm.runtime.tensor(each) for each in (data, weight.reshape(1, -1, outer))]
    result = tvm.runtime.tensor(np.full((2, size, size, outer), np.nan, "float32"))
    mod = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    tvm.compile(mod, tvm.target.Target("llvm"))["main"](*inputs, result)
    np.testing.assert_allclose(result.numpy(), inside @ weight[4], rtol=1e-5, atol=1e-5)
