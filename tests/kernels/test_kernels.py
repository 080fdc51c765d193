"""Kernels that are written out compute what numpy does, in whole tiles and in what is left beside them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.written_kernels import built, normal
from vmkit.kernels.attention import AttentionShape, attention

HEADS, INNER, WIDTH = 2, 8, 16
MASKS = ((False,) * 4, (True, False, False, True), (True, True, True, True), (False, False, True, False))


@pytest.mark.sweep
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("is_one_row", "lanes"), [(False, 4), (False, 8), (True, 8)])
def test_attention_is_softmax_of_scores_times_values(
    is_one_row: bool, lanes: int, mask: tuple[bool, bool, bool, bool]
) -> None:
    run = built(attention(AttentionShape(INNER, WIDTH, HEADS, 0.25, mask, is_one_row, lanes)))
    # Parts of a tile, whole ones, and more of them than stay in the first cache together.
    for batch, rows, columns in ((1, 1, 1), (2, 8, 16), (3, 13, 35), (1, 61, 70)):
        rows = 1 if is_one_row else rows
        count = batch * HEADS
        q, k, v = (
            normal(count, rows, INNER),
            normal(count, columns, INNER, seed=1),
            normal(count, columns, WIDTH, seed=2),
        )
        whole = (batch, HEADS, rows, columns)
        m = 3 * normal(*(n if is_whole else 1 for n, is_whole in zip(whole, mask, strict=True)), seed=3)
        scores = ((q @ k.transpose(0, 2, 1) * 0.25).reshape(whole) + m).reshape(count, rows, columns)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        expected = weights / weights.sum(-1, keepdims=True) @ v
        (result,) = run([q, k, v, m], [expected.shape])
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_attention_leaves_out_what_the_mask_makes_least() -> None:
    run = built(attention(AttentionShape(INNER, WIDTH, 1, 1.0, (False, False, False, True), False, 8)))
    q, k, v = normal(1, 3, INNER), normal(1, 20, INNER, seed=1), normal(1, 20, WIDTH, seed=2)
    m = np.full((1, 1, 1, 20), -np.inf, "float32")
    m[..., 7] = 0
    (result,) = run([q, k, v, m], [(1, 3, WIDTH)])
    np.testing.assert_allclose(result, np.broadcast_to(v[:, 7:8], result.shape), rtol=1e-6)


@pytest.mark.parametrize("is_one_row", [False, True])
def test_attention_to_nothing_is_zero(is_one_row: bool) -> None:
    run = built(attention(AttentionShape(INNER, WIDTH, 1, 1.0, (False,) * 4, is_one_row, 8)))
    rows = 1 if is_one_row else 9
    (result,) = run(
        [normal(2, rows, INNER), normal(2, 0, INNER), normal(2, 0, WIDTH), normal(1, 1, 1, 1)], [(2, rows, WIDTH)]
    )
    np.testing.assert_array_equal(result, np.zeros((2, rows, WIDTH)))


@pytest.mark.parametrize("is_one_row", [False, True])
def test_attention_is_uniform_where_the_mask_is_the_least_number_everywhere(is_one_row: bool) -> None:
    run = built(attention(AttentionShape(INNER, WIDTH, 1, 1.0, (False, False, False, True), is_one_row, 8)))
    rows = 1 if is_one_row else 3
    q, k, v = normal(1, rows, INNER), normal(1, 5, INNER, seed=1), normal(1, 5, WIDTH, seed=2)
    m = np.full((1, 1, 1, 5), np.finfo("float32").min)
    (result,) = run([q, k, v, m], [(1, rows, WIDTH)])
    np.testing.assert_allclose(result, np.broadcast_to(v.mean(1, keepdims=True), result.shape), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_one_row", [False, True])
@pytest.mark.parametrize("nothing", ["nan", "zero", "zero if masked", "zero or nan"])
def test_attention_of_rows_whose_columns_are_all_left_out(nothing: str, is_one_row: bool) -> None:
    mask = (True, False, True, True)
    run = built(attention(AttentionShape(INNER, WIDTH, 1, 1.0, mask, is_one_row, 8, nothing)))
    rows = 1 if is_one_row else 9
    q, k, v = normal(3, rows, INNER), normal(3, 20, INNER, seed=1), normal(3, 20, WIDTH, seed=2)
    q[1, 0, 0] = np.nan
    m = np.zeros((3, 1, rows, 20), "float32")
    m[2, 0, 0] = -np.inf
    with np.errstate(invalid="ignore"):
        scores = q @ k.transpose(0, 2, 1) + m[:, 0]
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        expected = weights / weights.sum(-1, keepdims=True) @ v
    assert np.isnan(expected[1:, 0]).all()
    if nothing != "nan":
        expected[2, 0] = 0
    if nothing == "zero or nan":
        expected[1, 0] = 0
    (result,) = run([q, k, v, m], [expected.shape])
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_one_row", [False, True])
def test_rows_of_attention_that_something_else_than_the_mask_leaves_out_are_no_numbers(is_one_row: bool) -> None:
    shape = AttentionShape(INNER, WIDTH, 1, 1.0, (True, False, True, True), is_one_row, 8, "zero if masked")
    rows = 1 if is_one_row else 9
    q, k, v = normal(2, rows, INNER), abs(normal(2, 20, INNER, seed=1)), normal(2, 20, WIDTH, seed=2)
    m = np.zeros((2, 1, rows, 20), "float32")
    q[0, 0] = -np.inf  # so that all scores are
    v[1, 3] = np.inf  # which the weight 0 does not make a number
    m[1] = -np.inf
    (result,) = built(attention(shape))([q, k, v, m], [(2, rows, WIDTH)])
    assert np.isnan(result[0, 0]).all()
    assert not np.isnan(result[0, 1:]).any()
    np.testing.assert_array_equal(result[1], 0)
