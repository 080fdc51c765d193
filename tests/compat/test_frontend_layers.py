"""Recurrent cells and padding of the old converters agree with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, compiled
from vmkit import relay
from vmkit.compat import frontend_common as common
from vmkit.errors import InputError

STEPS, BATCH, FEATURES, HIDDEN = 3, 2, 4, 5


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


X, STATE, CELL = _numbers(STEPS, BATCH, FEATURES), _numbers(BATCH, HIDDEN), _numbers(BATCH, HIDDEN) + 1


def _weights(gates: int) -> list[np.ndarray]:
    return [_numbers(gates * HIDDEN, FEATURES), _numbers(gates * HIDDEN, HIDDEN), *_numbers(2, gates * HIDDEN)]


def _run(cell: Any, states: list[np.ndarray], weights: list[np.ndarray], **more: Any) -> list[np.ndarray]:
    """Return the outputs and the states of a cell."""
    x = relay.var("x", shape=X.shape)
    steps = [relay.squeeze(part, axis=[0]) for part in relay.split(x, STEPS, 0)]
    outputs, *last = cell(steps, *map(relay.const, states), *map(relay.const, weights), **more)
    return list(compiled([x], *outputs, *last)(X))


def _close(found: list[np.ndarray], outputs: list[np.ndarray], *states: np.ndarray) -> None:
    for value, expected in zip(found, [*outputs, *states], strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_plain_cell(backwards: bool) -> None:
    w, r, b, c = weights = _weights(1)
    h, outputs = STATE, []
    for x in X[:: -1 if backwards else 1]:
        h = np.tanh(x @ w.T + b + h @ r.T + c)
        outputs.append(h)
    _close(_run(common.rnn_cell, [STATE], weights, backwards=backwards), outputs, h)


def _gru(x: np.ndarray, h: np.ndarray, weights: list[np.ndarray], linear: bool) -> np.ndarray:
    w, r, b, c = weights
    (xr, xz, xn), (hr, hz, hn) = np.split(x @ w.T + b, 3, -1), np.split(h @ r.T + c, 3, -1)
    reset, update = _sigmoid(xr + hr), _sigmoid(xz + hz)
    inner = reset * hn if linear else (reset * h) @ r[2 * HIDDEN :].T + c[2 * HIDDEN :]
    return (1 - update) * np.tanh(xn + inner) + update * h


@pytest.mark.parametrize("linear", [False, True])
def test_a_gru(linear: bool) -> None:
    weights, h, outputs = _weights(3), STATE, []
    for x in X:
        h = _gru(x, h, weights, linear)
        outputs.append(h)
    _close(_run(common.gru_cell, [STATE], weights, linear_before_reset=linear), outputs, h)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_gru_leaves_rows_that_have_ended(backwards: bool) -> None:
    weights, lengths, h, outputs = _weights(3), np.array([1, 3], "int32"), STATE, []
    for step in range(STEPS)[:: -1 if backwards else 1]:
        inside = (lengths > step)[:, None]
        h = np.where(inside, _gru(X[step], h, weights, True), h)
        outputs.append(np.where(inside, h, 0))
    given = {"sequence_lens": relay.const(lengths), "backwards": backwards}
    _close(_run(common.gru_cell, [STATE], weights, **given), outputs, h)


@pytest.mark.parametrize("with_peepholes", [False, True])
def test_an_lstm(with_peepholes: bool) -> None:
    w, r, b, c = weights = _weights(4)
    peep = _numbers(3, HIDDEN) * with_peepholes
    h, s, outputs = STATE, CELL, []
    for x in X:
        i, f, g, o = np.split(x @ w.T + b + h @ r.T + c, 4, -1)
        i, f = _sigmoid(i + peep[0] * s), _sigmoid(f + peep[1] * s)
        s = f * s + i * np.tanh(g)
        h = _sigmoid(o + peep[2] * s) * np.tanh(s)
        outputs.append(h)
    more = dict(zip(("p_i", "p_f", "p_o"), map(relay.const, peep), strict=True)) if with_peepholes else {}
    _close(_run(common.lstm_cell, [STATE, CELL], weights, **more), outputs, h, s)


def test_an_lstm_with_a_projection() -> None:
    proj = _numbers(2, HIDDEN)
    w, _, b, c = weights = _weights(4)
    weights[1] = r = _numbers(4 * HIDDEN, 2)
    h, s, outputs = _numbers(BATCH, 2), CELL, []
    start = h
    for x in X:
        i, f, g, o = np.split(x @ w.T + b + h @ r.T + c, 4, -1)
        s = _sigmoid(f) * s + _sigmoid(i) * np.tanh(g)
        h = (_sigmoid(o) * np.tanh(s)) @ proj.T
        outputs.append(h)
    _close(_run(common.lstm_cell, [start, CELL], weights, proj=relay.const(proj)), outputs, h, s)


@pytest.mark.parametrize("dim", [lambda n: n, lambda n: relay.Any()], ids=["known", "unknown"])
def test_padding_gives_as_many_windows_as_strides_fit(dim: Any) -> None:
    x = relay.var("x", shape=(1, 1, dim(7), dim(6)))
    data = _numbers(1, 1, 7, 6)
    run = compiled(
        [x],
        common.autopad(x, (2, 3), (3, 2), (2, 1)),
        common.autopad(x, (2, 1), (3, 2), mode="SAME_LOWER", pad_value=1.5),
        common.autopad(x, (2, 1), (4, 2), pad_type="edge", deconv=True),
    )
    # Axis 0: 7 = 3 * 2 + 1, so a window of 5 lacks 4 elements; 6 = 2 * 3, and one of 2 lacks none.
    none = ((0, 0), (0, 0))
    assert_same(
        run(data),
        (
            np.pad(data, (*none, (2, 2), (0, 0))),
            np.pad(data, (*none, (1, 1), (1, 0)), constant_values=1.5),
            np.pad(data, (*none, (0, 0), (0, 0)), "edge"),
        ),
    )
    with pytest.raises(InputError, match="for each spatial axis"):
        common.autopad(x, (2,), (3, 2))
