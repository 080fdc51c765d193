"""Parallel branches are combined as far as they are alike, and compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from tests.relay.programs import assert_same, compiled
from tests.relay.transform.passes import after, assert_becomes, operators
from vmkit import relay
from vmkit.relay.transform import CombineParallelBatchMatmul, CombineParallelConv2D, CombineParallelDense


def v(name: str, *shape: Any) -> relay.Var:
    return relay.var(name, shape=shape)


def part(y: Any, begin: list[int], end: list[int]) -> Any:
    return relay.strided_slice(y, begin, end, strides=[1] * len(begin), slice_mode="size")


def assert_same_values(run: tvm.transform.Pass, params: list[relay.Var], body: Any) -> None:
    rng = np.random.default_rng(0)
    shapes = [[3 if isinstance(d, relay.Any) else d for d in p.type_annotation.shape] for p in params]
    values = [rng.standard_normal(s).astype("float32") for s in shapes]
    result = after(run, body, *params)
    expected = compiled(params, body)(*values)
    assert_same(compiled(list(result.params), result.body)(*values), expected, rtol=1e-4, atol=1e-4)


def test_convolutions_of_the_same_kernel_become_one() -> None:
    x, w1, w2, w3, w4 = (
        v("x", 1, 4, 8, 8),
        *(v(f"w{i}", c, 4, k, k) for i, c, k in ((1, 4, 1), (2, 8, 1), (3, 4, 3), (4, 7, 1))),
    )
    conv = relay.nn.conv2d
    before = relay.Tuple([conv(x, w1), conv(x, w2), conv(x, w3), conv(x, w4), relay.nn.max_pool2d(x)])
    y = conv(x, relay.concatenate([w1, w2, w4], axis=0), channels=19)
    parts = [part(y, [0, 0], [-1, 4]), part(y, [0, 4], [-1, 8]), part(y, [0, 12], [-1, 7])]
    expected = relay.Tuple([parts[0], parts[1], conv(x, w3), parts[2], relay.nn.max_pool2d(x)])
    params = [x, w1, w2, w3, w4]
    assert_becomes(CombineParallelConv2D(min_num_branches=2), before, expected, *params)
    assert_becomes(CombineParallelConv2D(min_num_branches=4), before, before, *params)
    assert_same_values(CombineParallelConv2D(min_num_branches=2), params, before)


def test_what_follows_convolutions_is_combined_as_far_as_it_is_alike() -> None:
    x, w1, w2 = v("x", 1, 4, 8, 8), v("w1", 4, 4, 1, 1), v("w2", 8, 4, 1, 1)
    s1, s2, b = v("s1", 4, 1, 1), v("s2", 8, 1, 1), v("b", 8, 1, 1)
    conv, relu = relay.nn.conv2d, relay.nn.relu
    before = relay.Tuple([relu(conv(x, w1) * s1), relu(conv(x, w2) * s2) + b])
    y = conv(x, relay.concatenate([w1, w2], axis=0), channels=12)
    y = relu(y * relay.concatenate([s1, s2], axis=0))
    expected = relay.Tuple([part(y, [0, 0], [-1, 4]), part(y, [0, 4], [-1, 8]) + b])
    params = [x, w1, w2, s1, s2, b]
    assert_becomes(CombineParallelConv2D(2), before, expected, *params)
    assert_same_values(CombineParallelConv2D(2), params, before)


def test_a_scale_for_all_channels_is_not_combined() -> None:
    x, w1, w2, s = v("x", 1, 4, 8, 8), v("w1", 4, 4, 1, 1), v("w2", 8, 4, 1, 1), v("s", 1)
    conv = relay.nn.conv2d
    before = relay.Tuple([conv(x, w1) * s, conv(x, w2) * s])
    y = conv(x, relay.concatenate([w1, w2], axis=0), channels=12)
    expected = relay.Tuple([part(y, [0, 0], [-1, 4]) * s, part(y, [0, 4], [-1, 8]) * s])
    assert_becomes(CombineParallelConv2D(2), before, expected, x, w1, w2, s)


def test_blocks_in_a_row_are_each_combined() -> None:
    x, w = v("x", 1, 4, 8, 8), v("w", 2, 4, 1, 1)

    def blocks(combined: bool) -> Any:
        y: Any = x
        for _ in range(3):
            if combined:
                z = relay.nn.conv2d(y, relay.concatenate([w, w], axis=0), channels=4)
                pair = [part(z, [0, 0], [-1, 2]), part(z, [0, 2], [-1, 2])]
            else:
                pair = [relay.nn.conv2d(y, w), relay.nn.conv2d(y, w)]
            y = relay.concatenate(pair, axis=1)
        return y

    assert_becomes(CombineParallelConv2D(2), blocks(False), blocks(True), x, w)


def test_channels_last() -> None:
    x, w1, w2, b1, b2 = v("x", 1, 8, 8, 4), v("w1", 1, 1, 4, 3), v("w2", 1, 1, 4, 5), v("b1", 3), v("b2", 5)

    def conv(w: Any) -> Any:
        return relay.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO")

    before = relay.Tuple([conv(w1) + b1, conv(w2) + b2])
    params = [x, w1, w2, b1, b2]
    assert operators(after(CombineParallelConv2D(2), before, *params)).count("nn.conv2d") == 1
    assert_same_values(CombineParallelConv2D(2), params, before)


def test_a_branch_that_feeds_another_is_not_combined_with_it() -> None:
    x, w1 = v("x", 1, 2, 2, 2), v("w1", 2, 2, 2, 2)
    first = relay.nn.conv2d(x, w1, padding=(1, 1))
    weight = relay.reshape(relay.strided_slice(first, [0, 0, 0, 0], [1, 2, 2, 2]), (1, 2, 2, 2))
    before = relay.Tuple([first, relay.nn.conv2d(x, weight, padding=(1, 1))])
    assert_becomes(CombineParallelConv2D(2), before, before, x, w1)


def test_branches_of_an_if_stay() -> None:
    c = relay.var("c", shape=(), dtype="bool")
    x, w1, w2 = v("x", 2, 3), v("w1", 4, 3), v("w2", 4, 3)
    before = relay.If(c, relay.nn.dense(x, w1), relay.nn.dense(x, w2))
    assert_becomes(CombineParallelDense(2), before, before, c, x, w1, w2)


@pytest.mark.parametrize("is_matrix", [False, True])
def test_dense_layers_become_a_product_of_batches(is_matrix: bool) -> None:
    i, j, k = 3, 5, 4
    x, w1, w2, w3 = v("x", i, k), v("w1", j, k), v("w2", j, k), v("w3", j + 1, k)
    b1, b2 = (v(n, *((i, j) if is_matrix else (j,))) for n in ("b1", "b2"))
    s1, s2 = v("s1", 1), v("s2", 1)
    dense = relay.nn.dense

    def branch(w: Any, b: Any, s: Any) -> Any:
        return relay.reshape((dense(x, w) + b) * s, (1, 1, 15))

    before = relay.Tuple([branch(w1, b1, s1), branch(w2, b2, s2), dense(x, w3)])
    y = relay.nn.batch_matmul(relay.stack([x, x], axis=0), relay.stack([w1, w2], axis=0))
    biases = [b1, b2] if is_matrix else [relay.expand_dims(b, 0) for b in (b1, b2)]
    y = (y + relay.stack(biases, axis=0)) * relay.stack([relay.expand_dims(s, 0) for s in (s1, s2)], axis=0)
    parts = [relay.reshape(relay.squeeze(p, [0]), (1, 1, 15)) for p in relay.split(y, 2)]
    params = [x, w1, w2, w3, b1, b2, s1, s2]
    assert_becomes(CombineParallelDense(2), before, relay.Tuple([*parts, dense(x, w3)]), *params)
    assert_same_values(CombineParallelDense(2), params, before)


@pytest.mark.parametrize(
    ("first", "second"),
    [((), ()), ((1,), (1,)), ((5,), (1,)), ((1,), (10,)), ((3, 1), (3, 1)), ((3, 5), (3, 1)), ((9, 3, 1), (9, 3, 10))],
)
def test_dense_layers_of_any_sizes_become_one(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    i, j, k = 3, 5, 4
    x, w1, w2, b1, b2 = v("x", i, k), v("w1", j, k), v("w2", 2 * j, k), v("b1", *first), v("b2", *second)
    before = relay.Tuple([relay.nn.dense(x, w1) + b1, relay.nn.dense(x, w2) + b2])
    y = relay.nn.dense(x, relay.concatenate([w1, w2], axis=0), units=3 * j)

    def wide(b: Any, shape: tuple[int, ...], units: int) -> Any:
        if not shape:
            return relay.repeat(relay.expand_dims(b, -1), units, 0)
        return relay.repeat(b, units, len(shape) - 1) if shape[-1] == 1 else b

    y = y + relay.concatenate([wide(b1, first, j), wide(b2, second, 2 * j)], axis=max(0, len(first) - 1))
    rank = max(len(first), 2)
    zeros, whole = [0] * (rank - 1), [-1] * (rank - 1)
    expected = relay.Tuple([part(y, [*zeros, 0], [*whole, j]), part(y, [*zeros, j], [*whole, 2 * j])])
    params = [x, w1, w2, b1, b2]
    assert_becomes(CombineParallelDense(2, to_batch=False), before, expected, *params)


def test_an_axis_after_the_units_is_sliced_through() -> None:
    x, w1, w2 = v("x", 2, 32), v("w1", 16, 32), v("w2", 8, 32)
    before = relay.Tuple([relay.expand_dims(relay.nn.dense(x, w), axis=2) for w in (w1, w2)])
    y = relay.expand_dims(relay.nn.dense(x, relay.concatenate([w1, w2], axis=0), units=24), axis=2)
    expected = relay.Tuple([part(y, [0, 0, 0], [-1, 16, -1]), part(y, [0, 16, 0], [-1, 8, -1])])
    assert_becomes(CombineParallelDense(2, to_batch=False), before, expected, x, w1, w2)


def test_products_of_batches_become_one() -> None:
    x, ws = v("x", 2, 3, 4), [v(f"w{n}", 2, n, 4) for n in (5, 6, 7)]
    bs = [v(f"b{n}", n) for n in (5, 6, 7)]
    before = relay.Tuple([relay.nn.batch_matmul(x, w) + b for w, b in zip(ws, bs, strict=True)])
    y = relay.nn.batch_matmul(x, relay.concatenate(ws, axis=1)) + relay.concatenate(bs, axis=-1)
    offsets = ((0, 5), (5, 6), (11, 7))
    expected = relay.Tuple([part(y, [0, 0, o], [-1, -1, n]) for o, n in offsets])
    assert_becomes(CombineParallelBatchMatmul(), before, expected, x, *ws, *bs)
    assert_same_values(CombineParallelBatchMatmul(), [x, *ws, *bs], before)


def test_data_of_unknown_length() -> None:
    x, ws = v("x", relay.Any(), 4), [v(f"w{n}", 5, 4) for n in range(3)]
    before = relay.Tuple([relay.nn.relu(relay.nn.dense(x, w)) for w in ws])
    assert operators(after(CombineParallelDense(), before, x, *ws)).count("nn.batch_matmul") == 1
    assert_same_values(CombineParallelDense(), [x, *ws], before)
    assert_same_values(CombineParallelDense(to_batch=False), [x, *ws], before)
