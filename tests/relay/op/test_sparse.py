"""Sparse tensors given by positions agree with loops in Python; positions that make no tensor are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import var


def filled(positions: np.ndarray, values: np.ndarray, shape: np.ndarray, default: int) -> tuple[np.ndarray, ...]:
    rows: list[tuple[list[int], int]] = []
    empty = []
    for row in range(shape[0]):
        own = [k for k, p in enumerate(positions) if p[0] == row]
        empty.append(int(not own))
        rows += [(positions[k].tolist(), int(values[k])) for k in own] or [([row] + [0] * (len(shape) - 1), default)]
    where = np.array([p for p, _ in rows], "int64").reshape(len(rows), len(shape))
    return where, np.array([v for _, v in rows], "int64"), np.array(empty, "int64")


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_empty_rows_are_filled(dim: Any, dtype: str) -> None:
    known = isinstance(dim(1), int)
    cases = [
        ([[0, 1], [0, 3], [2, 0], [5, 5]], [7, 6]),
        ([[1, 1], [1, 3], [2, 0], [3, 1]], [4, 4]),
        ([], [3, 2]),
        ([[1, 2, 3]], [2, 3, 4]),
        ([[0], [0], [1]], [2]),
        ([], [0, 1]),
    ]
    names = ("indices", "values", "shape", "default")
    run = None
    for rows, sizes in cases[:2] if known else cases:
        shape = np.array(sizes, dtype)
        positions = np.array(rows, dtype).reshape(len(rows), len(sizes))
        values = np.arange(1, len(rows) + 1).astype(dtype)
        inputs = (positions, values, shape, np.array([-9], dtype))
        if run is None:
            params = [var(n, shape=[dim(s) for s in a.shape], dtype=dtype) for n, a in zip(names, inputs, strict=True)]
            run = compiled(params, relay.sparse_fill_empty_rows(*params))
        found, kept, empty = filled(positions, values, shape, -9)
        assert_same(run(*inputs), (found.astype(dtype), kept.astype(dtype), empty.astype(bool)))


def test_rows_out_of_order_or_range_are_an_error_when_run() -> None:
    i, v = var("i", shape=(relay.Any(), relay.Any()), dtype="int64"), var("v", shape=(relay.Any(),))
    s, d = var("s", shape=(2,), dtype="int64"), var("d", shape=())
    run = compiled([i, v, s, d], relay.sparse_fill_empty_rows(i, v, s, d))
    shape, default = np.array([3, 3]), np.array(0.5, "float32")
    result = run(np.array([[1, 1]]), np.array([2.7], "float32"), shape, default)
    assert [r.tolist() for r in result] == [[[0, 0], [1, 1], [2, 0]], [0, 2, 0], [1, 0, 1]]
    for rows in ([[2, 0], [1, 0]], [[0, 0], [3, 0]], [[-1, 0], [0, 0]]):
        with pytest.raises(VMError, match="the rows of sparse_indices must not decrease, and lie in dense_shape"):
            run(np.array(rows), np.ones(2, "float32"), shape, default)
    with pytest.raises(VMError, match="there are 1 sparse_values and 2 positions"):
        run(np.zeros((2, 2), "int64"), np.ones(1, "float32"), shape, default)
    with pytest.raises(VMError, match="sparse_indices hold 3 positions each, but dense_shape has 2 dimensions"):
        run(np.zeros((2, 3), "int64"), np.ones(2, "float32"), shape, default)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_positions_are_those_of_the_same_elements_in_another_shape(dim: Any, dtype: str) -> None:
    cases = [
        ((2, 3, 6), (9, -1)),
        ((2, 3, 6), (4, 3, 3)),
        ((2, 3, 6), (2, 3, 6)),
        ((36,), (-1, 2, 9)),
        ((4, 9), (36,)),
        ((4, 0), (0, 3)),
        ((4, 0), (0, -1)),
    ]
    params = [var("i", shape=(dim(4), dim(3)), dtype=dtype)]
    params += [var(n, shape=(dim(k),), dtype=dtype) for n, k in (("old", 3), ("new", 2))]
    run = compiled(params, relay.sparse_reshape(*params))
    for old, new in cases[:1] if isinstance(dim(1), int) else cases:
        count = int(np.prod(old))
        flat = np.arange(0, count, max(count // 4, 1))[:4]
        positions = np.stack(np.unravel_index(flat, old), 1) if count else np.zeros((0, len(old)))
        whole = np.empty(old, "bool").reshape(new).shape if count else tuple(0 if d == -1 else d for d in new)
        moved = np.stack(np.unravel_index(flat, whole), 1) if count else np.zeros((0, len(new)))
        given = positions.astype(dtype), np.array(old, dtype), np.array(new, dtype)
        assert_same(run(*given), (moved.astype(dtype), np.array(whole, dtype)))
    if not isinstance(dim(1), int):
        outside = np.array([[0, 100], [300, 400]], dtype), np.array([500, 20], dtype), np.array([500, 20], dtype)
        assert_same(run(*outside), (outside[0], outside[2]))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda i, s: relay.sparse_reshape(i, s, relay.const([1.5])),
            "new_shape must be integers, not float32; cast them",
        ),
        (
            lambda i, s: relay.sparse_reshape(i, relay.const([6]), s),
            "sparse_indices hold 2 positions each, but prev_shape has 1 dimensions",
        ),
        (
            lambda i, s: relay.sparse_fill_empty_rows(s, s, s, s),
            "sparse_indices must have 2 dimensions, one row for each element, not Tensor[(2), int64]",
        ),
        (
            lambda i, s: relay.sparse_fill_empty_rows(i, s, s, s),
            "sparse_values must be a vector, one for each row of Tensor[(4, 2), int64], not Tensor[(2), int64]",
        ),
    ],
)
def test_wrong_tensors_say_what_is_wrong(build: Any, message: str) -> None:
    i, s = var("i", shape=(4, 2), dtype="int64"), var("s", shape=(2,), dtype="int64")
    assert type_error([i, s], build(i, s)) == message
