"""Sorting, searching, scanning, masking and finding agree with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from tests.relay.programs import assert_same, assert_table, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import const, var
from vmkit.relay.lower import lower_module
from vmkit.relay.transform import infer_module
from vmkit.target import canonical_target


def data(n: int) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, 4)).astype("float32")


def sizes(dim: Any) -> list[int]:
    return [5] if isinstance(dim(5), int) else [5, 2, 7]


def test_sorts_agree_with_numpy(dim: Any) -> None:
    x, i = var("x", shape=(dim(5), 4)), var("i", shape=(dim(5), 4), dtype="int64")
    h, b = var("h", shape=(dim(5), 4), dtype="float16"), var("b", shape=(dim(5), 4), dtype="bool")
    k = var("k", shape=(1,), dtype="int64")

    def order(x: np.ndarray, axis: int) -> np.ndarray:
        return np.argsort(x, axis, kind="stable")

    def top(x: np.ndarray, k: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
        best = order(-x, 1)[:, :k]
        return np.take_along_axis(x, best, 1), best.astype(dtype)

    def search(x: np.ndarray, *_: Any) -> np.ndarray:
        return np.stack([np.searchsorted(np.sort(row), row) for row in x]).astype("int32")

    table: dict[str, Any] = {
        "sort": (relay.sort(x, 0), lambda x, *_: np.sort(x, 0)),
        "sort down": (relay.sort(x, 1, False), lambda x, *_: -np.sort(-x, 1)),
        "sort float16": (relay.sort(h, 0), lambda x, i, h, *_: np.sort(h, 0)),
        "sort bool": (relay.sort(b, 1), lambda x, i, h, b, k: np.sort(b, 1)),
        "argsort keeps the order of equals": (relay.argsort(i, 0), lambda x, i, *_: order(i, 0).astype("int32")),
        "argsort down": (
            relay.argsort(x, is_ascend=False, dtype="float32"),
            lambda x, *_: order(-x, 1).astype("float32"),
        ),
        "topk": (relay.topk(x, 3), lambda x, *_: top(x, 3, "int32")),
        "k read": (relay.topk(x, k, dtype="int64"), lambda x, *_: top(x, 2, "int64")),
        "smallest values": (relay.topk(i, 2, 0, "values", True), lambda x, i, *_: np.sort(i, 0)[:2]),
        "all indices": (relay.topk(x, 0, 1, "indices"), lambda x, *_: order(-x, 1).astype("int32")),
        "searchsorted": (relay.searchsorted(relay.sort(x), x), search),
    }
    arrays = [
        (data(n), (data(n) * 2).astype("int64"), data(n).astype("float16"), data(n) > 0, np.array([2]))
        for n in sizes(dim)
    ]
    assert_table([x, i, h, b, k], table, *arrays)


def test_scans_and_masks_agree_with_numpy(dim: Any) -> None:
    x, i = var("x", shape=(dim(5), 4)), var("i", shape=(dim(5), 4), dtype="int32")
    lengths, k = var("lengths", shape=(4,), dtype="int32"), var("k", shape=(1,), dtype="int64")

    def masked(x: np.ndarray, i: np.ndarray, lengths: np.ndarray, k: np.ndarray) -> np.ndarray:
        return np.where(np.arange(len(x))[:, None] >= lengths, np.float32(-1), x)

    table: dict[str, Any] = {
        "cumsum": (relay.cumsum(x, 1), lambda x, *_: np.cumsum(x, 1)),
        "exclusive": (relay.cumsum(x, 0, exclusive=True), lambda x, *_: np.cumsum(np.pad(x, ((1, 0), (0, 0)))[:-1], 0)),
        "cumprod": (relay.cumprod(x), lambda x, *_: np.cumprod(x)),
        "cast": (relay.cumsum(i, -1, "float32"), lambda x, i, *_: np.cumsum(i, 1).astype("float32")),
        "sequence_mask": (relay.sequence_mask(x, lengths, -1.0, 0), masked),
        "upper": (relay.trilu(x, k), lambda x, *_: np.triu(x, 1)),
        "lower": (relay.trilu(x, -1, False), lambda x, *_: np.tril(x, -1)),
    }
    arrays = [
        (data(n), (data(n) * 9).astype("int32"), np.array([1, 2, 0, 9], "int32"), np.array([1])) for n in sizes(dim)
    ]
    assert_table([x, i, lengths, k], table, *arrays)


def test_matrix_set_diag_aligns_the_diagonals() -> None:
    x, d = var("x", shape=(relay.Any(), 4)), var("d", shape=(3, relay.Any()))
    expected = np.zeros((3, 4), "float32")
    diagonals = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 0]], "float32")
    for k, row in zip((2, 0, -1), ([1, 2], [3, 4, 5], [6, 7]), strict=True):
        for at, value in enumerate(row):
            expected[at + max(-k, 0), at + max(k, 0)] = value
    with_gap = compiled([x, d], relay.matrix_set_diag(x, d, (-1, 1)))
    rows = np.stack([[8, 9, 1], diagonals[1], diagonals[2]]).astype("float32")
    filled = expected.copy()
    filled[0, 2] = filled[1, 3] = 0
    filled[0, 1], filled[1, 2], filled[2, 3] = 8, 9, 1
    assert_same(with_gap(np.zeros((3, 4), "float32"), rows), filled)


def test_positions_and_distinct_elements(dim: Any) -> None:
    x, i = var("x", shape=(dim(5), 4)), var("i", shape=(dim(6),), dtype="int64")

    def distinct(x: np.ndarray, i: np.ndarray, is_sorted: bool) -> tuple[np.ndarray, ...]:
        values, first, inverse, counts = np.unique(i, True, True, True)
        by_first = np.arange(len(values)) if is_sorted else np.argsort(first)
        rank = np.argsort(by_first)
        padded = [np.pad(v[by_first], (0, len(i) - len(v))) for v in (values, first, counts)]
        total = np.array([len(values)], "int32")
        return padded[0], padded[1].astype("int32"), rank[inverse].astype("int32"), total, padded[2].astype("int32")

    table: dict[str, Any] = {
        "argwhere": (relay.argwhere(x), lambda x, i: np.argwhere(x).astype("int32")),
        "argwhere of bool": (relay.argwhere(x > const(0.0)), lambda x, i: np.argwhere(x > 0).astype("int32")),
        "gathered": (relay.gather_nd(x, relay.transpose(relay.argwhere(x))), lambda x, i: x[x != 0]),
        "unique": (relay.unique(i, True, True), lambda x, i: distinct(x, i, True)),
        "as they appear": (relay.unique(i, False), lambda x, i: distinct(x, i, False)[:4]),
    }
    arrays = [(np.maximum(data(5), 0), np.array([5, 1, 5, 9, 1, 1]))]
    if not isinstance(dim(5), int):
        arrays += [(np.zeros((2, 4), "float32"), np.array([3])), (data(0), np.zeros(0, "int64"))]
    assert_table([x, i], table, *arrays)


def test_fixed_point_multiplication_rounds_halves_up() -> None:
    x = var("x", shape=(relay.Any(),), dtype="int32")
    values = np.array([7, -6, 5, 100, -4], "int32")
    actual = compiled([x], relay.fixed_point_multiply(x, 1 << 30, -2))(values)
    assert_same(actual, np.floor(values / 8 + 0.5).astype("int32"))


def test_errors_at_run_time() -> None:
    x, k = var("x", shape=(relay.Any(), 4)), var("k", "int64")
    with pytest.raises(VMError, match=r"dyn\.topk: k is 9, but the axis has 4 elements"):
        compiled([x, k], relay.topk(x, k))(data(2), np.int64(9))
    with pytest.raises(VMError, match="topk: k is 3, but axis 0 has fewer elements"):
        compiled([x], relay.topk(x, 3, 0))(data(2))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: relay.topk(x, 9), "k is 9, but axis -1 has 4 elements"),
        (lambda x: relay.topk(x, 1, ret_type="all"), "ret_type is 'all'; it is 'both', 'values' or 'indices'"),
        (lambda x: relay.sort(x, 2), "axis is 2, but the input has 2 dimensions; allowed are -2 to 1"),
        (lambda x: relay.unique(x), "the input must be a vector, not Tensor[(2, 4), float32]"),
        (lambda x: relay.fixed_point_multiply(x, 1, 0), "the input must be int32, not float32"),
    ],
)
def test_wrong_attributes_say_what_is_wrong(build: Any, message: str) -> None:
    x = var("x", shape=(2, 4))
    assert type_error([x], build(x)) == message


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint64", "bool"])
@pytest.mark.parametrize("is_ascend", [False, True])
def test_the_best_of_many_with_equals_among_them(dtype: str, is_ascend: bool) -> None:
    random = np.random.default_rng(0)
    values = random.integers(0, 2 if dtype == "bool" else 60, (3, 200, 2)).astype(dtype)
    x = var("x", shape=(relay.Any(), relay.Any(), 2), dtype=dtype)
    counts = (1, 2, 7, 64, 199, 200)
    tops = [part for k in counts for part in relay.topk(x, k, axis=1, is_ascend=is_ascend)]
    found = compiled([x], *tops)(values)
    keys = values.astype("int64") if is_ascend else -values.astype("int64")
    order = np.argsort(keys, axis=1, kind="stable")
    for k, best, where in zip(counts, found[::2], found[1::2], strict=True):
        np.testing.assert_array_equal(where, order[:, :k])
        np.testing.assert_array_equal(best, np.take_along_axis(values, order[:, :k], 1))


def test_of_no_elements_none_are_the_best() -> None:
    x = var("x", shape=(relay.Any(), 0))
    best, where = compiled([x], *relay.topk(x, 0))(np.zeros((2, 0), "float32"))
    assert best.shape == where.shape == (2, 0)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int32", "uint32", "int64", "float16", "float32", "float64"]
)
def test_any_part_of_a_line_is_taken_in_order(dtype: str, dim: Any) -> None:
    random = np.random.default_rng(0)
    values = random.integers(0, 2 if dtype == "bool" else 100, (3, 300, 2)).astype(dtype)
    if dtype not in ("bool", "uint8", "uint32"):
        values[0] = -values[0]
    if dtype.startswith("float"):
        values[1, ::5], values[1, 1::9], values[2, ::7], values[2, 1::7] = np.nan, -np.inf, -0.0, 0.0
    counts = (1, 12, 13, 100, 300)  # some by a heap, some by digits of the best, one by those of all
    x = var("x", shape=(3, dim(300), 2), dtype=dtype)
    for is_ascend in (False, True):
        tops = [part for k in counts for part in relay.topk(x, k, axis=1, is_ascend=is_ascend)]
        found = compiled([x], *tops)(values)
        keys = values.astype("float64")
        # NaN is greater than every number; equal elements keep their order.
        ranked = np.where(np.isnan(keys), 1000, np.clip(keys, -500, 500))
        order = np.argsort(ranked if is_ascend else -ranked, 1, kind="stable")
        for at, k in enumerate(counts):
            np.testing.assert_array_equal(found[2 * at + 1], order[:, :k])
            np.testing.assert_array_equal(found[2 * at], np.take_along_axis(values, order[:, :k], 1))


@pytest.mark.parametrize(("length", "k", "sorts"), [(77, 5, False), (77, 12, True), (40, 40, False), (41, 40, True)])
def test_few_elements_and_those_of_short_lines_are_not_sorted(length: int, k: int, sorts: bool) -> None:
    x = var("x", shape=(3, length))
    top = relay.topk(x, k, axis=1)
    mod = infer_module(tvm.IRModule({"main": relay.Function([x], relay.Tuple([*top]))}))
    lowered = lower_module(mod, canonical_target("llvm").primary).module
    (kernel,) = [f for name, f in lowered.functions.items() if name.name_hint == "topk"]
    assert (len(kernel.params) > 3) == sorts  # words and counts of digits beside the elements and positions
    values = np.random.default_rng(0).integers(0, 20, (3, length)).astype("float32")
    best, where = compiled([x], *top)(values)
    order = np.argsort(-values, 1, kind="stable")[:, :k]
    np.testing.assert_array_equal(where, order)
    np.testing.assert_array_equal(best, np.take_along_axis(values, order, 1))


def test_of_long_lines_those_that_may_be_the_best_are_sorted() -> None:
    length, counts = 4200, (65, 300)
    values = np.random.default_rng(0).standard_normal((4, length)).astype("float32")
    values[1:] = np.abs(values[1] * 1e-3), np.exp(values[2] * 20), values[3] * 0
    x = var("x", shape=values.shape)
    found = compiled([x], *(part for k in counts for part in relay.topk(x, k)))(values)
    order = np.argsort(-values, 1, kind="stable")
    for k, best, where in zip(counts, found[::2], found[1::2], strict=True):
        np.testing.assert_array_equal(where, order[:, :k])
        np.testing.assert_array_equal(best, np.take_along_axis(values, order[:, :k], 1))

    def kernels(k: int) -> str:
        mod = infer_module(tvm.IRModule.from_expr(relay.Function([x], relay.topk(x, k)[0])))
        return str(lower_module(mod, canonical_target("llvm").primary).module.script())

    # Which bits differ is asked where they are counted, which few elements are not worth.
    assert ["clz" in kernels(k) for k in (40, 66)] == [False, True]
