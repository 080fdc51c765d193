"""Reading and writing at indices: as numpy where the indices are inside, and never outside of the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, assert_table, compiled, type_error
from vmkit import relay
from vmkit.errors import TypeCheckError, VMError
from vmkit.relay import var


def data(n: int) -> np.ndarray:
    return np.arange(n * 4, dtype="float32").reshape(n, 4)


INDICES = np.array([[0, 1], [2, 3], [4, -1], [0, 9]], "int32")


def test_take_and_gather_agree_with_numpy(dim: Any) -> None:
    x, i = var("x", shape=(dim(5), 4)), var("i", shape=(dim(4), 2), dtype="int32")
    g, f = var("g", shape=(dim(3), 4), dtype="int64"), var("f", shape=(2,), dtype="int64")

    def pairs(x: np.ndarray, i: np.ndarray, *_: Any) -> np.ndarray:
        rows, columns = (np.where(c < 0, c + n, c) for c, n in zip(i.T, x.shape, strict=True))
        return x[np.clip(rows, 0, len(x) - 1), np.clip(columns, 0, 3)]

    def batched(x: np.ndarray, i: np.ndarray, g: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.stack([x[k][g[k % len(g)]] for k in range(len(g))])

    first = relay.slice_like(x, g)
    table: dict[str, Any] = {
        "flat": (relay.take(x, i), lambda x, i, *_: x.reshape(-1)[np.clip(i, 0, x.size - 1)]),
        "clip": (relay.take(x, i, 0), lambda x, i, *_: x[np.clip(i, 0, len(x) - 1)]),
        "wrap": (relay.take(x, i, -1, mode="wrap"), lambda x, i, *_: x[:, i % 4]),
        "batch": (relay.take(first, g, 1, batch_dims=1), batched),
        "gather rows": (relay.gather(x, 0, g), lambda x, i, g, f: np.take_along_axis(x, g, 0)),
        "gather columns": (relay.gather(x, 1, g), lambda x, i, g, f: np.take_along_axis(x[: len(g)], g, 1)),
        "gather_nd": (relay.gather_nd(x, relay.transpose(i), index_rank=2), pairs),
        "adv_index": (relay.adv_index([x, g]), lambda x, i, g, f: x[g]),
        "unravel_index": (relay.unravel_index(g, f), lambda x, i, g, f: np.stack(np.unravel_index(g, tuple(f)))),
    }
    for n in [5] if isinstance(x.type_annotation.shape[0], int) else [5, 3, 8]:
        assert_table([x, i, g, f], table, (data(n), INDICES, np.arange(12).reshape(3, 4) % 3, np.array([3, 4])))


def test_adv_index_broadcasts_its_indices() -> None:
    x, i, j = (
        var("x", shape=(5, 4)),
        var("i", shape=(2, 1), dtype="int64"),
        var("j", shape=(relay.Any(),), dtype="int32"),
    )
    rows, columns = np.array([[4], [-2]]), np.array([0, 3, -1], "int32")
    assert_same(compiled([x, i, j], relay.adv_index((x, i, j)))(data(5), rows, columns), data(5)[rows, columns])


def test_reading_from_nothing_is_an_error() -> None:
    x, i = var("x", shape=(relay.Any(), 4)), var("i", shape=(relay.Any(),), dtype="int32")
    run = compiled([x, i], relay.take(x, i, 0))
    assert run(data(0), np.zeros(0, "int32")).shape == (0, 4)
    with pytest.raises(VMError, match="take: elements are read from a dimension of 0"):
        run(data(0), np.zeros(1, "int32"))


def test_reading_fast_from_nothing_gives_zeros() -> None:
    x, i = var("x", shape=(relay.Any(), 4)), var("i", shape=(relay.Any(),), dtype="int32")
    run, given = compiled([x, i], relay.take(x, i, 0, mode="fast")), data(3)
    np.testing.assert_array_equal(run(given, np.array([2, 0, -5, 9], "int32")), given[[2, 0, 0, 2]])
    np.testing.assert_array_equal(run(data(0), np.array([0, 7], "int32")), np.zeros((2, 4)))


def scattered(x: np.ndarray, i: np.ndarray, u: np.ndarray, add: bool) -> np.ndarray:
    x = x.copy()
    for (row, column), k in np.ndenumerate(i):
        if -len(x) <= k < len(x):
            x[k, column] = u[row, column] + (x[k, column] if add else 0)
    return x


def test_scatters_agree_with_loops(dim: Any) -> None:
    x, u = var("x", shape=(dim(5), 4)), var("u", shape=(dim(3), 4))
    i, k = var("i", shape=(dim(3), 4), dtype="int64"), var("k", shape=(1, dim(3)), dtype="int32")

    def rows(x: np.ndarray, u: np.ndarray, i: np.ndarray, k: np.ndarray) -> np.ndarray:
        x = x.copy()
        np.maximum.at(x, k[0], u)
        return x

    table = {
        "update": (relay.scatter_elements(x, i, u, 0), lambda x, u, i, k: scattered(x, i, u, add=False)),
        "add": (relay.scatter_elements(x, i, u, 0, "add"), lambda x, u, i, k: scattered(x, i, u, add=True)),
        "scatter_nd": (relay.scatter_nd(x, k, u, "max"), rows),
        "invert_permutation": (
            relay.invert_permutation(relay.argsort(relay.reshape(x, (-1,)))),
            lambda x, *_: np.arange(x.size, dtype="int32"),
        ),
    }
    where = np.array([[0, 1, -1, 9], [2, 2, 3, -9], [4, 0, 1, 1]])
    assert_table([x, u, i, k], table, (data(5), data(3) + 0.5, where, np.array([[1, 0, 1]], "int32")))


@pytest.mark.parametrize("number", [0.0, -0.0, 1.5, float("nan"), float("-inf"), 7, "int8", "first"])
def test_updates_are_written_into_a_number(number: float | str) -> None:
    """All elements of a constant that are equal are one number of the kernel; others stay a tensor."""
    dtype = "int64" if number == 7 else "int8" if number == "int8" else "float32"
    whole = np.full((5, 4), 3 if isinstance(number, str) else number, dtype)
    if number == "first":
        whole[0, 0] = -0.0
    where = np.array([[0, 1, -1, 9], [2, 2, 3, -9], [4, 0, 1, 1]])
    u, i = var("u", shape=(3, 4), dtype=dtype), var("i", shape=(3, 4), dtype="int64")
    table = {
        mode: (
            relay.scatter_elements(relay.const(whole), i, u, 0, mode),
            lambda u, i, add=mode == "add": scattered(whole, i, u, add=add),
        )
        for mode in ("update", "add")
    }
    values = data(3).astype(dtype) + np.ones(1, dtype)
    assert_table([u, i], table, (values, where))


def test_sparse_to_dense_writes_the_values(dim: Any) -> None:
    where, values = var("where", shape=(dim(3), 2), dtype="int64"), var("values", shape=(dim(3),))
    shape = var("shape", shape=(2,), dtype="int32")
    expected = np.full((2, 3), 1.5, "float32")
    expected[0, 1], expected[1, 2] = 7, 8
    table = {
        "fixed": (relay.sparse_to_dense(where, (2, 3), values, relay.const(1.5)), lambda *_: expected),
        "read": (relay.sparse_to_dense(where, shape, values, relay.const(1.5)), lambda *_: expected),
    }
    inputs = np.array([[0, 1], [1, 2], [5, 5]]), np.array([7, 8, 9], "float32"), np.array([2, 3], "int32")
    assert_table([where, values, shape], table, inputs)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: relay.take(x, x), "indices must be integers, not float32; cast them"),
        (lambda x: relay.take(x, relay.const(1), mode="edge"), "mode is 'edge'; it is 'clip', 'wrap' or 'fast'"),
        (
            lambda x: relay.scatter_elements(x, relay.zeros((1, 1), "int32"), x, 0, "xor"),
            "reduction is 'xor'; it is one of update, add, mul, mean, min, max",
        ),
        (
            lambda x: relay.scatter_nd(x, relay.zeros((1, 3), "int32"), x),
            "updates are Tensor[(2, 4), float32]; for these data and indices they must be Tensor[(3, 4), float32]",
        ),
    ],
)
def test_wrong_indices_say_what_is_wrong(build: Any, message: str) -> None:
    x = var("x", shape=(2, 4))
    assert type_error([x], build(x)) == message


def test_unravel_index_takes_no_more_dimensions_than_arrays_have() -> None:
    indices, shape = relay.var("i", shape=(4,), dtype="int32"), relay.var("s", shape=(65,), dtype="int32")
    with pytest.raises(TypeCheckError, match="shape has 65 dimensions, expected at most 64"):
        relay.analysis.infer_type.infer_expr(relay.unravel_index(indices, shape))
