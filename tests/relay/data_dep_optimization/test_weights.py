"""Programs changed together with the values of their parameters: they compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from tests.relay.programs import assert_same, compiled
from tests.relay.transform.passes import operators
from vmkit import relay
from vmkit.relay.analysis.block_sparse import BlockSparse
from vmkit.relay.data_dep_optimization import bsr_conv2d, bsr_dense, simplify_fc_transpose

RNG = np.random.default_rng(0)


def sparse_matrix(rows: int, columns: int, block: tuple[int, int], kept: int = 3) -> np.ndarray:
    """A matrix in which a few blocks are not zero."""
    made = np.zeros((rows, columns), "float32")
    for place in RNG.choice(rows // block[0] * (columns // block[1]), kept, replace=False):
        i, j = divmod(int(place), columns // block[1])
        made[i * block[0] : (i + 1) * block[0], j * block[1] : (j + 1) * block[1]] = RNG.standard_normal(block)
    return made


def run(function: relay.Function, params: dict[str, Any], data: np.ndarray) -> Any:
    values = [data, *(params[p.name_hint].numpy() for p in function.params[1:])]
    return compiled(list(function.params), function.body)(*values)


def tensor(value: np.ndarray) -> Any:
    return tvm.runtime.tensor(np.ascontiguousarray(value))


def test_blocks_are_those_with_elements():
    matrix = sparse_matrix(8, 6, (4, 2))
    made = BlockSparse.of(matrix, (4, 2))
    dense = np.zeros_like(matrix)
    for row in range(2):
        for at in range(made.indptr[row], made.indptr[row + 1]):
            dense[4 * row : 4 * row + 4, 2 * made.indices[at] : 2 * made.indices[at] + 2] = made.data[at]
    np.testing.assert_array_equal(dense, matrix)
    assert made.sizes == [3, 4, 2, 3, 3]
    with pytest.raises(ValueError, match="blocks of 3 x 2 do not divide a matrix of 8 x 6"):
        BlockSparse.of(matrix, (3, 2))


def test_dense_layers_with_sparse_weights():
    x, w, full = (relay.var(n, shape=s) for n, s in (("x", (2, 16)), ("w", (32, 16)), ("full", (8, 32))))
    function = relay.Function([x, w, full], relay.nn.dense(relay.nn.relu(relay.nn.dense(x, w)), full))
    values = {
        "w": tensor(sparse_matrix(32, 16, (8, 1))),
        "full": tensor(RNG.standard_normal((8, 32)).astype("float32")),
    }
    data = RNG.standard_normal((2, 16)).astype("float32")
    expected = run(function, dict(values), data)
    made, params = bsr_dense.convert(function, values, (8, 1), 0.5)
    assert operators(made) == ["nn.sparse_dense", "nn.relu", "nn.dense"]
    assert [p.name_hint for p in made.params] == ["x", "full", "w.data", "w.indices", "w.indptr"]
    assert sorted(params) == ["full", "w.data", "w.indices", "w.indptr"]
    assert_same(run(made, params, data), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.sweep
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("is_constant", [False, True])
def test_convolutions_with_sparse_weights(layout: str, size: int, is_constant: bool):
    matrix = sparse_matrix(16, 4 * size * size, (8, 1))
    value = matrix.T.reshape(size, size, 4, 16) if layout == "NHWC" else matrix.reshape(16, 4, size, size)
    shape = (1, 6, 6, 4) if layout == "NHWC" else (1, 4, 6, 6)
    x, w = relay.var("x", shape=shape), relay.var("w", shape=value.shape)
    attrs = {"data_layout": layout, "kernel_layout": "HWIO" if layout == "NHWC" else "OIHW"}
    weight = relay.const(value) if is_constant else w
    body = relay.nn.conv2d(x, weight, channels=16, kernel_size=(size, size), padding=(size // 2,) * 2, **attrs)
    function = relay.Function([x] if is_constant else [x, w], relay.nn.relu(body))
    values = {} if is_constant else {"w": tensor(value)}
    data = RNG.standard_normal(shape).astype("float32")
    expected = run(function, dict(values), data)
    convert = bsr_conv2d.convert2 if is_constant else bsr_conv2d.convert
    made, params = convert(function, values, (8, 1), 0.2, layout, size)
    assert operators(made) == ["nn.sparse_conv2d", "nn.relu"]
    assert_same(run(made, params, data), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("attrs", [{"strides": (2, 2)}, {"padding": (1, 1)}, {"dilation": (2, 2)}])
def test_convolutions_that_have_no_sparse_form_stay(attrs: dict[str, Any]):
    x, w = relay.var("x", shape=(1, 4, 6, 6)), relay.var("w", shape=(16, 4, 1, 1))
    function = relay.Function([x, w], relay.nn.conv2d(x, w, channels=16, kernel_size=(1, 1), **attrs))
    values = {"w": tensor(sparse_matrix(16, 4, (8, 1)).reshape(16, 4, 1, 1))}
    made, params = bsr_conv2d.convert(function, values, (8, 1), 0.2, "NCHW", 1)
    assert operators(made) == ["nn.conv2d"]
    assert list(params) == ["w"]


def test_weights_are_turned_round_ahead():
    x, w, w2 = (relay.var(n, shape=s) for n, s in (("x", (2, 8)), ("w", (8, 6)), ("w2", (6, 6))))
    turned = relay.transpose(w2, [1, 0])
    body = relay.nn.dense(relay.nn.dense(x, relay.transpose(w, [1, 0])), turned) + relay.sum(w2)
    function = relay.Function([x, w, w2], body)
    values = {n: tensor(RNG.standard_normal(s).astype("float32")) for n, s in (("w", (8, 6)), ("w2", (6, 6)))}
    data = RNG.standard_normal((2, 8)).astype("float32")
    expected = run(function, dict(values), data)
    made, params = simplify_fc_transpose.convert(function, values)
    assert "transpose" not in operators(made)
    # w2 is used as it is, too.
    assert sorted(params) == ["w.T", "w2", "w2.T"]
    assert_same(run(made, params, data), expected, rtol=1e-5, atol=1e-5)
