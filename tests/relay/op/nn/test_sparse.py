"""Operators on sparse matrices agree with numpy on the matrix written out; broken matrices are refused."""

from __future__ import annotations

from collections import namedtuple
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import Call, nn, var
from vmkit.relay.op import entry

Matrix = namedtuple("Matrix", "data indices indptr")


def sparse(rows: int, columns: int, block: tuple[int, int] = (1, 1), dtype: str = "float32") -> np.ndarray:
    """A matrix of blocks of which about half are zero, the second row of blocks wholly."""
    random = np.random.default_rng(rows * columns)
    kept = random.random((rows // block[0], columns // block[1])) < 0.5
    kept[1:2] = False
    whole = np.repeat(np.repeat(kept, block[0], 0), block[1], 1)
    return (random.integers(-8, 8, (rows, columns)) * whole).astype(dtype)


def compressed(dense: np.ndarray, block: tuple[int, int] | None = None, index: str = "int32") -> Matrix:
    """CSR without block; BSR with."""
    height, width = block or (1, 1)
    rows, columns = dense.shape[0] // height, dense.shape[1] // width
    blocks = dense.reshape(rows, height, columns, width).transpose(0, 2, 1, 3)
    data, indices, indptr = [], [], [0]
    for row in range(rows):
        own = [c for c in range(columns) if blocks[row, c].any()]
        data += [blocks[row, c] for c in own]
        indices += own
        indptr.append(len(indices))
    elements = np.array(data, dense.dtype).reshape(len(data), height, width)
    return Matrix(elements if block else elements[:, 0, 0], np.array(indices, index), np.array(indptr, index))


def variables(matrix: Matrix, dim: Any = int) -> Matrix:
    return Matrix(*(var(n, shape=[dim(s) for s in a.shape], dtype=a.dtype.name) for n, a in matrix._asdict().items()))


@pytest.mark.parametrize(
    ("block", "index"),
    [
        (None, "int32"),
        ((3, 2), "int64"),
        *(
            pytest.param(block, index, marks=pytest.mark.nightly)
            for block, index in [(None, "int64"), ((3, 2), "int32"), *product([(1, 1), (4, 1)], ["int32", "int64"])]
        ),
    ],
)
def test_sparse_dense_agrees_with_numpy(dim: Any, block: tuple[int, int] | None, index: str) -> None:
    weight = sparse(12, 8, block or (1, 1))
    matrix = compressed(weight, block, index)
    x, given = var("x", shape=(dim(5), dim(8))), variables(matrix, dim)
    padded = Call(entry("nn.internal.sparse_dense_padded").op, [x, *given], entry("nn.sparse_dense").attrs())
    run = compiled([x, *given], nn.sparse_dense(x, given), nn.sparse_dense(x, tuple(given), sparse_lhs=True), padded)
    a = np.random.default_rng(0).normal(size=(5, 8)).astype("float32")
    assert_same(run(a, *matrix), (a @ weight.T, weight @ a.T, a @ weight.T), rtol=1e-4, atol=1e-5)
    if not isinstance(dim(1), int):
        empty = compressed(np.zeros((12, 8), "float32"), block, index)
        nothing = np.zeros((0, 12), "float32")
        assert_same(run(a[:0], *empty), (nothing, nothing.T, nothing))


@pytest.mark.parametrize("dtype", ["int8", "float16", "float64"])
def test_products_are_of_the_data_type_of_the_operands(dtype: str) -> None:
    weight = sparse(6, 4, dtype=dtype)
    x = var("x", shape=(3, 4), dtype=dtype)
    a = np.random.default_rng(0).integers(-3, 3, (3, 4)).astype(dtype)
    assert_same(compiled([x], nn.sparse_dense(x, compressed(weight)))(a), (a @ weight.T).astype(dtype))


def test_bfloat16_is_computed_in_float32() -> None:
    weight, x = sparse(6, 4), var("x", shape=(6, 4))
    data, indices, indptr = map(relay.const, compressed(weight))
    matrix = Matrix(relay.cast(data, "bfloat16"), indices, indptr)
    short = relay.cast(x, "bfloat16")
    results = [nn.sparse_dense(short, matrix), nn.sparse_add(short, matrix)]
    a = np.random.default_rng(0).integers(-3, 3, (6, 4)).astype("float32")
    run = compiled([x], *[relay.cast(r, "float32") for r in results])
    assert_same(run(a), (a @ weight.T, a + weight))


def test_sums_and_transposes_agree_with_numpy(dim: Any) -> None:
    dense = sparse(6, 6, dtype="float64")
    matrix = compressed(dense, index="int64")
    x, given = var("x", shape=(dim(6), dim(6)), dtype="float64"), variables(matrix, dim)
    run = compiled([x, *given], nn.sparse_add(x, given), nn.sparse_transpose(given))
    a = np.random.default_rng(0).normal(size=(6, 6))
    assert_same(run(a, *matrix), (a + dense, tuple(compressed(dense.T, index="int64"))))
    if not isinstance(dim(1), int):
        none = compressed(np.zeros((0, 0)), index="int64")
        assert_same(run(np.zeros((0, 0)), *none), (np.zeros((0, 0)), tuple(none)))


def test_elements_that_share_a_place_are_added() -> None:
    x = var("x", shape=(2, 3))
    twice = Matrix(np.array([1, 2, 4], "float32"), np.array([1, 1, 0]), np.array([0, 2, 3]))
    run = compiled([x], nn.sparse_add(x, twice), nn.sparse_dense(x, twice))
    expected = np.array([[0, 3, 0], [4, 0, 0]], "float32")
    assert_same(run(np.ones((2, 3), "float32")), (1 + expected, np.ones((2, 3), "float32") @ expected.T))


def convolved(x: np.ndarray, weight: np.ndarray, layout: str, size: int) -> np.ndarray:
    """Convolution by numpy, of a weight whose columns are ordered as the layout wants them."""
    x = x if layout == "NHWC" else x.transpose(0, 2, 3, 1)
    batch, rows, columns, channels = x.shape
    pad = size // 2
    wide = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    kernel = weight.reshape(-1, size, size, channels) if layout == "NHWC" else weight.reshape(-1, channels, size, size)
    kernel = kernel if layout == "NHWC" else kernel.transpose(0, 2, 3, 1)
    result = np.zeros((batch, rows, columns, len(weight)), x.dtype)
    for a in range(size):
        for b in range(size):
            result += np.einsum("nyxc,oc->nyxo", wide[:, a : a + rows, b : b + columns], kernel[:, a, b])
    return result if layout == "NHWC" else result.transpose(0, 3, 1, 2)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize(
    ("size", "block"),
    [
        (1, (4, 1)),
        (3, (2, 3)),
        *(pytest.param(*each, marks=pytest.mark.nightly) for each in [(1, (2, 3)), (3, (4, 1))]),
    ],
)
def test_sparse_conv2d_agrees_with_numpy(dim: Any, layout: str, size: int, block: tuple[int, int]) -> None:
    weight = sparse(8, 6 * size * size, block)
    matrix = compressed(weight, block)
    if block[1] == 1:
        matrix = matrix._replace(data=matrix.data[:, :, 0])
    shape = (2, 5, 4, 6) if layout == "NHWC" else (2, 6, 5, 4)
    x, given = var("x", shape=[dim(s) for s in shape]), variables(matrix, dim)
    run = compiled([x, *given], nn.sparse_conv2d(x, given, layout=layout, kernel_size=(size, size)))
    a = np.random.default_rng(0).normal(size=shape).astype("float32")
    assert_same(run(a, *matrix), convolved(a, weight, layout, size), rtol=1e-4, atol=1e-4)


GOOD = Matrix(np.ones(3, "float32"), np.array([0, 1, 1]), np.array([0, 1, 3]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": [0, 1, 2]}, "{}: an index of the sparse matrix lies outside of its columns"),
        ({"indices": [0, -1, 1]}, "{}: an index of the sparse matrix lies outside of its columns"),
        ({"indptr": [0, 4, 3]}, "{}: indptr must not decrease"),
        ({"indptr": [-1, 1, 3]}, "{}: indptr must not decrease"),
        ({"indptr": [0, 1, 4]}, "{}: indptr must not decrease"),
        ({"indices": [0, 1]}, "{}: there are 2 sparse_indices and 3 sparse_data"),
        ({"indptr": []}, "{}: sparse_indptr is empty"),
    ],
)
def test_a_matrix_that_does_not_hold_together_is_an_error_when_run(change: dict[str, Any], message: str) -> None:
    x, given = var("x", shape=(2, 2)), variables(GOOD, lambda size: relay.Any())
    bad = GOOD._replace(**{name: np.array(value, "int64") for name, value in change.items()})
    product, transpose = nn.sparse_dense(x, given), nn.sparse_transpose(given)
    for name, result in (("nn.sparse_dense", product), ("nn.sparse_transpose", transpose)):
        run = compiled([x, *given], result)
        run(np.ones((2, 2), "float32"), *GOOD)
        with pytest.raises(VMError, match=message.format(name)):
            run(np.ones((2, 2), "float32"), *bad)


def test_a_transpose_needs_every_element_in_a_row() -> None:
    given = variables(GOOD)
    with pytest.raises(VMError, match=r"nn\.sparse_transpose: .* begin with 0 and end with the number of elements"):
        compiled(list(given), nn.sparse_transpose(given))(*GOOD._replace(indptr=np.array([1, 2, 3])))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda x, m: nn.sparse_dense(x, (m.indices, m.indices, m.indptr)),
            "sparse_data are int64, the dense tensor float32; cast one of them",
        ),
        (
            lambda x, m: nn.sparse_dense(x, (x, m.indices, m.indptr)),
            "sparse_data must have 1 or 3 dimensions, not 2: Tensor[(2, 2), float32]",
        ),
        (
            lambda x, m: nn.sparse_dense(x, (m.data, m.data, m.indptr)),
            "sparse_indices must be integers, not float32; cast them",
        ),
        (
            lambda x, m: nn.sparse_add(x, (m.data, m.indices, relay.const([0, 1, 2, 3]))),
            "the sparse matrix has 3 rows, the dense one 2",
        ),
        (
            lambda x, m: nn.sparse_transpose((m.data, m.indptr, relay.zeros((0,), "int32"))),
            "sparse_indptr is empty; it has one element more than the matrix has rows of blocks",
        ),
        (
            lambda x, m: nn.sparse_conv2d(x, m, layout="NWHC"),
            "layout is 'NWHC'; it is 'NHWC' or 'NCHW'",
        ),
        (
            lambda x, m: nn.sparse_conv2d(x, m, kernel_size=(3, 1)),
            "kernel_size is [3, 1]; it is [1, 1] or [3, 3]",
        ),
    ],
)
def test_wrong_operands_say_what_is_wrong(build: Any, message: str) -> None:
    x, given = var("x", shape=(2, 2)), variables(GOOD)
    assert type_error([x, *given], build(x, given)) == message
