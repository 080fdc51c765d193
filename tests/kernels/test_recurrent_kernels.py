"""Kernels of recurrent layers compute what numpy does step by step, whatever the batch, the lengths and the options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.kernels.written_kernels import built, normal
from vmkit.kernels.gate_functions import GATE_FUNCTIONS, gate_functions
from vmkit.kernels.gru import GRUShape, gru
from vmkit.kernels.lstm import LSTMShape, lstm
from vmkit.kernels.recurrent_layer import LayerShape
from vmkit.kernels.recurrent_tiles import RecurrentTiles
from vmkit.kernels.rnn import RNNShape, rnn

FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "affine": lambda x, a, b: a * x + b,
    "leaky_relu": lambda x, a: np.where(x < 0, a * x, x),
    "thresholded_relu": lambda x, a: np.where(x > a, x, 0),
    "scaled_tanh": lambda x, a, b: a * np.tanh(b * x),
    "hard_sigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "softsign": lambda x: x / (1 + np.abs(x)),
}
KERNELS = {RNNShape: (rnn, 1), GRUShape: (gru, 3), LSTMShape: (lstm, 4)}
# Steps and rows: a tile of each size, tiles of one size and of two.
SIZES = ((1, 1), (4, 4), (3, 6), (2, 7), (0, 2), (2, 3), (2, 5), (2, 8), (1, 13))
# Vectors that divide the hidden units and those that do not.
# With 16 lanes up to six rows go together, with fewer two or four.
SHAPES = [
    RNNShape(8, 4),
    RNNShape(7, 4, is_reverse=True, lengths="int32", clip=0.5),
    RNNShape(48, 16, functions="relu", lengths="int64"),
    RNNShape(1, 1),
    GRUShape(8, 4, is_reverse=True),
    GRUShape(80, 16, linear_before_reset=True),
    GRUShape(6, 4, lengths="int32"),
    GRUShape(24, 16, is_reverse=True, linear_before_reset=True, lengths="int64"),
    GRUShape(4, 4, clip=0.5, linear_before_reset=True),
    GRUShape(5, 4, clip=0.5, functions="hard_sigmoid:0.3:0.4 softsign"),
    LSTMShape(8, 4, is_reverse=True),
    LSTMShape(48, 16),
    LSTMShape(7, 4, lengths="int64"),
    LSTMShape(24, 16, is_reverse=True, lengths="int32"),
    LSTMShape(6, 4, has_peepholes=True, lengths="int32"),
    LSTMShape(4, 4, has_peepholes=True, input_forget=True, clip=0.5, functions="hard_sigmoid:0.2:0.5 relu tanh"),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_layer_goes_through_the_steps_of_each_row(shape: Any) -> None:
    run = built(kernel(shape))
    for steps, batch in SIZES:
        given = operands(shape, steps, batch)
        expected = reference(shape, given)
        results = run(
            [blocked(shape, v) if k == "weight" else v for k, v in given.items()], [e.shape for e in expected]
        )
        for result, want in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, want, rtol=1e-5, atol=2e-6, err_msg=f"{steps} steps of {batch} rows")


@pytest.mark.parametrize("batch", [1, 3, 6, 7, 13])
@pytest.mark.parametrize("lengths", [None, "int64"])
def test_a_layer_of_a_known_batch_has_code_for_its_tiles(batch: int, lengths: str | None) -> None:
    shape = LSTMShape(24, 16, lengths=lengths, batch=batch)
    given = operands(shape, 3, batch)
    expected = reference(shape, given)
    values = [blocked(shape, v) if k == "weight" else v for k, v in given.items()]
    for result, want in zip(built(kernel(shape))(values, [e.shape for e in expected]), expected, strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-5, atol=2e-6)


def test_tiles_are_as_few_as_there_may_be_and_alike() -> None:
    rows = {batch: RecurrentTiles.of(16, 4, 4, batch).rows for batch in (1, 6, 7, 8, 13, 31)}
    assert rows == {1: (1,), 6: (6,), 7: (4, 3), 8: (4,), 13: (5, 3), 31: (6, 1)}
    assert RecurrentTiles.of(16, 4, 4, 7, may_end=True).rows == (4, 3, 2, 1)
    assert [RecurrentTiles.of(8, 4, gates).rows[0] for gates in (1, 3, 4)] == [4, 4, 2]


@pytest.mark.parametrize("name", GATE_FUNCTIONS)
def test_every_function_of_a_gate(name: str) -> None:
    text = ":".join([name, *["0.3", "0.8"][: GATE_FUNCTIONS[name][1]]])
    test_a_layer_goes_through_the_steps_of_each_row(RNNShape(4, 4, functions=text))


@pytest.mark.parametrize("text", ["sigmoid", "sigmoid tanh tanh tanh", "sigmoid elu tanh", "sigmoid relu:1 tanh"])
def test_functions_that_there_are_not_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="function"):
        gate_functions(text, 3)


def test_what_is_beyond_a_row_is_never_read() -> None:
    shape = GRUShape(8, 4, lengths="int32")
    given = operands(shape, 5, 6)
    for row, length in enumerate(np.clip(given["lengths"], 0, 5)):
        given["data"][length:, row] = np.nan
    results = built(kernel(shape))(
        [blocked(shape, v) if k == "weight" else v for k, v in given.items()], [(5, 6, 8), (6, 8)]
    )
    assert all(np.isfinite(result).all() for result in results)


def test_gates_at_their_ends_are_finite_and_not_a_number_stays() -> None:
    hidden = lanes = 4
    run = built(lstm(LSTMShape(hidden, lanes)))
    gates = np.repeat(np.array([[-np.inf], [np.inf], [-1e30], [1e30], [np.nan]], "float32"), 4 * hidden, 1)
    zeros = np.zeros((5, hidden), "float32")
    states, _, cells = run([gates[None], np.zeros((1, hidden, 4, lanes), "float32"), zeros, zeros + 1], [
        (1, 5, hidden), (5, hidden), (5, hidden),
    ])  # fmt: skip
    cell = np.array([0, 2, 0, 2])
    np.testing.assert_allclose(cells[:4], np.repeat(cell[:, None], hidden, 1), atol=1e-6)
    np.testing.assert_allclose(states[0, :4], np.repeat([[0], [np.tanh(2)], [0], [np.tanh(2)]], hidden, 1), atol=1e-6)
    assert np.isnan(cells[4]).all() and np.isnan(states[0, 4]).all()


def kernel(shape: Any) -> Any:
    make, _ = KERNELS[type(shape)]
    return make(shape)


def operands(shape: LayerShape, steps: int, batch: int) -> dict[str, np.ndarray]:
    """Return what a kernel takes by name, in order; the weight is (gates * hidden, hidden)."""
    hidden, (_, gates) = shape.hidden, KERNELS[type(shape)]
    given = {
        "data": normal(steps, batch, gates * hidden),
        "weight": normal(gates * hidden, hidden, seed=9) / hidden,
        "state": normal(batch, hidden, seed=1),
    }
    if isinstance(shape, LSTMShape):
        given["cell"] = normal(batch, hidden, seed=2)
    if isinstance(shape, GRUShape):
        given["bias"] = normal(hidden, seed=3)
    if getattr(shape, "has_peepholes", False):
        given["peephole"] = normal(3 * hidden, seed=4)
    if shape.lengths:
        # Some are shorter, all and none, and some lie outside.
        given["lengths"] = np.resize([steps - 1, steps, 0, 1, steps + 10**9, -3, 2], batch).astype(shape.lengths)
    return given


def blocked(shape: LayerShape, weight: np.ndarray) -> np.ndarray:
    """Return a weight in blocks of hidden units; the last one ends with them."""
    hidden, lanes = shape.hidden, shape.lanes
    columns = weight.reshape(-1, hidden, hidden).transpose(2, 0, 1)
    begins = [min(block * lanes, hidden - lanes) for block in range(-(-hidden // lanes))]
    return np.ascontiguousarray(np.stack([columns[:, :, begin : begin + lanes] for begin in begins]))


def reference(shape: Any, given: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return the states of all steps and the last states, row by row in float64."""
    given = {name: value if name == "lengths" else value.astype("float64") for name, value in given.items()}
    steps, batch, _ = given["data"].shape
    lengths = np.clip(given["lengths"], 0, steps) if shape.lengths else [steps] * batch
    names = [name for name in ("state", "cell") if name in given]
    last = [given[name].copy() for name in names]
    states = np.zeros((steps, batch, shape.hidden))
    for row in range(batch):
        times = range(lengths[row])
        for t in reversed(times) if shape.is_reverse else times:
            new = STEPS[type(shape)](shape, given, given["data"][t, row], *(each[row] for each in last))
            for each, value in zip(last, new, strict=True):
                each[row] = value
            states[t, row] = new[0]
    return [states, *last]


def functions(shape: LayerShape) -> list[Callable[[np.ndarray], np.ndarray]]:
    """Return the functions that a shape names."""

    def one(text: str) -> Callable[[np.ndarray], np.ndarray]:
        name, *parameters = text.split(":")
        return lambda x: FUNCTIONS[name](x, *map(float, parameters))

    return [one(text) for text in shape.functions.split()]


def limited(shape: LayerShape, x: np.ndarray) -> np.ndarray:
    return x if shape.clip is None else np.clip(x, -shape.clip, shape.clip)


def rnn_step(shape: RNNShape, given: dict[str, np.ndarray], x: np.ndarray, h: np.ndarray) -> list[np.ndarray]:
    (f,) = functions(shape)
    return [f(limited(shape, x + given["weight"] @ h))]


def gru_step(shape: GRUShape, given: dict[str, np.ndarray], x: np.ndarray, h: np.ndarray) -> list[np.ndarray]:
    f, g = functions(shape)
    of_update, of_reset, of_hidden = np.split(given["weight"], 3)
    x_update, x_reset, x_hidden = np.split(x, 3)
    update = f(limited(shape, x_update + of_update @ h))
    reset = f(limited(shape, x_reset + of_reset @ h))
    product = reset * (of_hidden @ h + given["bias"]) if shape.linear_before_reset else (
        of_hidden @ (reset * h) + given["bias"]
    )  # fmt: skip
    return [(1 - update) * g(limited(shape, x_hidden + product)) + update * h]


def lstm_step(
    shape: LSTMShape, given: dict[str, np.ndarray], x: np.ndarray, h: np.ndarray, c: np.ndarray
) -> list[np.ndarray]:
    f, g, last = functions(shape)
    into, out, forget, cell = np.split(x + given["weight"] @ h, 4)
    for_into, for_out, for_forget = np.split(given.get("peephole", np.zeros(3 * shape.hidden)), 3)
    i = f(limited(shape, into + for_into * c))
    kept = 1 - i if shape.input_forget else f(limited(shape, forget + for_forget * c))
    c = kept * c + i * g(limited(shape, cell))
    return [f(limited(shape, out + for_out * c)) * last(c), c]


STEPS: dict[type, Callable[..., list[np.ndarray]]] = {RNNShape: rnn_step, GRUShape: gru_step, LSTMShape: lstm_step}
