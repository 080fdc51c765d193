"""Kernels that are written out compute what numpy does, in whole tiles and in what is left beside them."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import tirx

from vmkit.tophub.kernels.attention import AttentionShape, attention
from vmkit.tophub.kernels.gru import gru
from vmkit.tophub.kernels.lstm import lstm

HEADS, INNER, WIDTH = 2, 8, 16
MASKS = ((False,) * 4, (True, False, False, True), (True, True, True, True), (False, False, True, False))


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


# A number of lanes says how many rows go together; of 3 blocks of hidden units, some are left over.
@pytest.mark.parametrize(("hidden", "lanes"), [(8, 4), (48, 16)])
@pytest.mark.parametrize("is_reverse", [False, True])
def test_lstm_goes_through_the_steps_in_order(is_reverse: bool, hidden: int, lanes: int) -> None:
    run = built(lstm(hidden, lanes, is_reverse))
    weight = normal(4 * hidden, hidden, seed=9) / hidden
    blocks = np.ascontiguousarray(weight.reshape(4, hidden // lanes, lanes, hidden).transpose(1, 3, 0, 2))
    for steps, batch in ((1, 1), (4, 4), (3, 6), (2, 7), (0, 2)):
        x, h, c = normal(steps, batch, 4 * hidden), normal(batch, hidden, seed=1), normal(batch, hidden, seed=2)
        results = run([x, blocks, h, c], [(steps, batch, hidden), h.shape, c.shape])
        states = np.zeros((steps, batch, hidden), "float32")
        for t in reversed(range(steps)) if is_reverse else range(steps):
            i, o, f, g = np.split(x[t] + h @ weight.T, 4, axis=1)
            c = c * sigmoid(f) + sigmoid(i) * np.tanh(g)
            h = states[t] = sigmoid(o) * np.tanh(c)
        for result, expected in zip(results, (states, h, c), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_linear", [False, True])
@pytest.mark.parametrize(("hidden", "lanes"), [(8, 4), (80, 16)])
@pytest.mark.parametrize("is_reverse", [False, True])
def test_gru_goes_through_the_steps_in_order(is_reverse: bool, hidden: int, lanes: int, is_linear: bool) -> None:
    run = built(gru(hidden, lanes, is_reverse, is_linear))
    weight, bias = normal(3 * hidden, hidden, seed=9) / hidden, normal(hidden, seed=3)
    blocks = np.ascontiguousarray(weight.reshape(3, hidden // lanes, lanes, hidden).transpose(1, 3, 0, 2))
    for steps, batch in ((1, 1), (4, 4), (3, 6), (2, 7), (0, 2)):
        x, h = normal(steps, batch, 3 * hidden), normal(batch, hidden, seed=1)
        results = run([x, blocks, bias, h], [(steps, batch, hidden), h.shape])
        states = np.zeros((steps, batch, hidden), "float32")
        for t in reversed(range(steps)) if is_reverse else range(steps):
            of_update, of_reset, of_hidden = np.split(weight, 3)
            update = sigmoid(x[t, :, :hidden] + h @ of_update.T)
            reset = sigmoid(x[t, :, hidden : 2 * hidden] + h @ of_reset.T)
            inner = reset * (h @ of_hidden.T + bias) if is_linear else (reset * h) @ of_hidden.T + bias
            h = states[t] = (1 - update) * np.tanh(x[t, :, 2 * hidden :] + inner) + update * h
        for result, expected in zip(results, (states, h), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_gates_at_their_ends_are_finite_and_not_a_number_stays() -> None:
    hidden = lanes = 4
    run = built(lstm(hidden, lanes, False))
    gates = np.repeat(np.array([[-np.inf], [np.inf], [-1e30], [1e30], [np.nan]], "float32"), 4 * hidden, 1)
    zeros = np.zeros((5, hidden), "float32")
    states, _, cells = run([gates[None], np.zeros((1, hidden, 4, lanes), "float32"), zeros, zeros + 1], [
        (1, 5, hidden), (5, hidden), (5, hidden),
    ])  # fmt: skip
    cell = np.array([0, 2, 0, 2])
    np.testing.assert_allclose(cells[:4], np.repeat(cell[:, None], hidden, 1), atol=1e-6)
    np.testing.assert_allclose(states[0, :4], np.repeat([[0], [np.tanh(2)], [0], [np.tanh(2)]], hidden, 1), atol=1e-6)
    assert np.isnan(cells[4]).all() and np.isnan(states[0, 4]).all()


def built(kernel: tirx.PrimFunc):  # type: ignore[no-untyped-def]
    """Return a kernel as a function of arrays and of the shapes of its results."""
    main = tvm.compile(tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")}), "llvm")["main"]

    def run(arrays: list[np.ndarray], shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
        results = [tvm.runtime.tensor(np.full(shape, np.nan, "float32")) for shape in shapes]
        main(*[tvm.runtime.tensor(a) for a in arrays], *results)
        return [r.numpy() for r in results]

    return run


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))
