"""Layers that formats have and Relay has not: recurrent cells, unrolled over their steps, and padding to a stride."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from vmkit.errors import InputError
from vmkit.relay import op
from vmkit.relay.ir import RelayExpr, const

from .frontend_values import infer_shape, infer_type, infer_value, shape_of

__all__ = ["autopad", "gru_cell", "lstm_cell", "rnn_cell"]

Activation: TypeAlias = Callable[[RelayExpr], RelayExpr]
Steps: TypeAlias = Sequence[RelayExpr]


def _call(name: str, *args: Any, **attrs: Any) -> RelayExpr:
    result: RelayExpr = op.REGISTRY[name].builder(*args, **attrs)
    return result


def _split(x: RelayExpr, count: int, axis: int = -1) -> list[RelayExpr]:
    parts = op.REGISTRY["split"].builder(x, count, axis)
    return [parts[i] for i in range(count)]


def _sigmoid(x: RelayExpr) -> RelayExpr:
    return _call("sigmoid", x)


def _tanh(x: RelayExpr) -> RelayExpr:
    return _call("tanh", x)


def _affine(x: RelayExpr, weight: RelayExpr, bias: RelayExpr | None) -> RelayExpr:
    """Return ``x weight^T + bias``."""
    product = _call("nn.dense", x, weight)
    return product if bias is None else product + bias


def _ordered(input_seqs: Steps, backwards: bool) -> Steps:
    return list(reversed(input_seqs)) if backwards else list(input_seqs)


def rnn_cell(
    input_seqs: Steps,
    hidden_state: RelayExpr,
    w_inp: RelayExpr,
    w_hid: RelayExpr,
    b_inp: RelayExpr | None = None,
    b_hid: RelayExpr | None = None,
    act: Activation = _tanh,
    backwards: bool = False,
) -> tuple[list[RelayExpr], RelayExpr]:
    """Return the hidden states of a plain recurrent layer, one a step, and the last one.

    Parameters
    ----------
    input_seqs : sequence of Expr
        The input of each step, of shape (batch, features).
    hidden_state : Expr
        The state before the first step, of shape (batch, hidden).
    w_inp, w_hid : Expr
        Weights of shapes (hidden, features) and (hidden, hidden).
    b_inp, b_hid : Expr, optional
        Biases of shape (hidden,).
    act : callable
        The activation.
    backwards : bool
        Whether the last step comes first; the states come in the order of computation.
    """
    outputs = []
    for x in _ordered(input_seqs, backwards):
        hidden_state = act(_affine(x, w_inp, b_inp) + _affine(hidden_state, w_hid, b_hid))
        outputs.append(hidden_state)
    return outputs, hidden_state


def gru_cell(
    input_seqs: Steps,
    hidden_state: RelayExpr,
    w_inp: RelayExpr,
    w_hid: RelayExpr,
    b_inp: RelayExpr | None = None,
    b_hid: RelayExpr | None = None,
    rz_act: Activation = _sigmoid,
    n_act: Activation = _tanh,
    backwards: bool = False,
    linear_before_reset: bool = True,
    sequence_lens: RelayExpr | None = None,
) -> tuple[list[RelayExpr], RelayExpr]:
    """Return the hidden states of a GRU, one a step, and the last one.

    Parameters
    ----------
    input_seqs : sequence of Expr
        The input of each step, of shape (batch, features).
    hidden_state : Expr
        The state before the first step, of shape (batch, hidden).
    w_inp, w_hid : Expr
        Weights of shapes (3 * hidden, features) and (3 * hidden, hidden): of the gates reset, update and new.
    b_inp, b_hid : Expr, optional
        Biases of shape (3 * hidden,).
    rz_act, n_act : callable
        The activations of the gates reset and update, and of the gate new.
    backwards : bool
        Whether the last step comes first; the states come in the order of computation.
    linear_before_reset : bool
        Whether the gate reset multiplies the product with the state; otherwise the state itself.
    sequence_lens : Expr, optional
        How many steps each row has, of shape (batch,). At the others its output is 0 and its state stays.
    """
    steps = _ordered(input_seqs, backwards)
    dtype = infer_type(steps[0]).checked_type.dtype if steps else "float32"
    outputs = []
    for number, x in enumerate(steps):
        made = _gru_step(x, hidden_state, (w_inp, w_hid), (b_inp, b_hid), (rz_act, n_act), linear_before_reset)
        if sequence_lens is None:
            hidden_state = made
            outputs.append(made)
            continue
        place = len(steps) - 1 - number if backwards else number
        inside = _call("expand_dims", _call("greater", sequence_lens, _like(sequence_lens, place)), 1)
        hidden_state = _call("where", inside, made, hidden_state)
        outputs.append(_call("where", inside, made, const(np.zeros((), dtype))))
    return outputs, hidden_state


def _like(tensor: RelayExpr, number: int) -> RelayExpr:
    """Return a number of a tensor's data type."""
    return const(np.asarray(number, infer_type(tensor).checked_type.dtype))


def _gru_step(
    x: RelayExpr,
    state: RelayExpr,
    weights: tuple[RelayExpr, RelayExpr],
    biases: tuple[RelayExpr | None, RelayExpr | None],
    activations: tuple[Activation, Activation],
    linear_before_reset: bool,
) -> RelayExpr:
    (w_inp, w_hid), (b_inp, b_hid), (rz_act, n_act) = weights, biases, activations
    x_reset, x_update, x_new = _split(_affine(x, w_inp, b_inp), 3)
    if linear_before_reset:
        h_reset, h_update, h_new = _split(_affine(state, w_hid, b_hid), 3)
        reset, update = rz_act(x_reset + h_reset), rz_act(x_update + h_update)
        new = n_act(x_new + reset * h_new)
    else:
        w_reset, w_update, w_new = _split(w_hid, 3, 0)
        b_reset, b_update, b_new = (None, None, None) if b_hid is None else _split(b_hid, 3)
        reset = rz_act(x_reset + _affine(state, w_reset, b_reset))
        update = rz_act(x_update + _affine(state, w_update, b_update))
        new = n_act(x_new + _affine(reset * state, w_new, b_new))
    return (state - new) * update + new


def lstm_cell(
    input_seqs: Steps,
    hidden_state: RelayExpr,
    cell_state: RelayExpr,
    w_inp: RelayExpr,
    w_hid: RelayExpr,
    b_inp: RelayExpr | None = None,
    b_hid: RelayExpr | None = None,
    proj: RelayExpr | None = None,
    p_i: RelayExpr | None = None,
    p_f: RelayExpr | None = None,
    p_o: RelayExpr | None = None,
    f_act: Activation = _sigmoid,
    g_act: Activation = _tanh,
    h_act: Activation = _tanh,
    backwards: bool = False,
) -> tuple[list[RelayExpr], RelayExpr, RelayExpr]:
    """Return the hidden states of an LSTM, one a step, the last one, and the last cell state.

    Parameters
    ----------
    input_seqs : sequence of Expr
        The input of each step, of shape (batch, features).
    hidden_state, cell_state : Expr
        The states before the first step, of shapes (batch, hidden or projected) and (batch, hidden).
    w_inp, w_hid : Expr
        Weights of shapes (4 * hidden, features) and (4 * hidden, hidden or projected): of the gates input, forget, cell
        and output.
    b_inp, b_hid : Expr, optional
        Biases of shape (4 * hidden,).
    proj : Expr, optional
        A projection of the hidden state, of shape (projected, hidden).
    p_i, p_f, p_o : Expr, optional
        Peepholes, which the cell state is multiplied by for the gates input, forget and output.
    f_act, g_act, h_act : callable
        The activations of the gates, of the gate cell, and of the cell state in the output.
    backwards : bool
        Whether the last step comes first; the states come in the order of computation.
    """
    outputs = []
    for x in _ordered(input_seqs, backwards):
        gates = _affine(x, w_inp, b_inp) + _affine(hidden_state, w_hid, b_hid)
        entering, forgotten, cell, output = _split(gates, 4)
        entering = f_act(entering if p_i is None else entering + p_i * cell_state)
        forgotten = f_act(forgotten if p_f is None else forgotten + p_f * cell_state)
        cell_state = forgotten * cell_state + entering * g_act(cell)
        output = f_act(output if p_o is None else output + p_o * cell_state)
        hidden_state = output * h_act(cell_state)
        if proj is not None:
            hidden_state = _call("nn.dense", hidden_state, proj)
        outputs.append(hidden_state)
    return outputs, hidden_state, cell_state


def autopad(
    data: RelayExpr,
    strides: Sequence[int],
    kernel_shape: Sequence[int],
    dilations: Sequence[int] = (1, 1),
    pad_type: str = "constant",
    deconv: bool = False,
    mode: str = "SAME_UPPER",
    pad_value: float | RelayExpr = 0.0,
) -> RelayExpr:
    """Return images padded so that a window with strides gives ``ceil(size / stride)`` of them.

    Parameters
    ----------
    data : Expr
        The images, of shape (batch, channels, spatial axes ...).
    strides, kernel_shape, dilations : sequence of int
        Those of the window, one a spatial axis.
    pad_type : str
        What is added, as ``nn.pad`` calls it: ``"constant"``, ``"edge"``, ``"reflect"`` or ``"wrap"``.
    deconv : bool
        Whether the window is of a transposed convolution.
    mode : str
        Where the odd element goes: ``"SAME_UPPER"``, behind, or ``"SAME_LOWER"``, before.
    pad_value : float or Expr
        The constant that is added.
    """
    shape = infer_shape(data)
    if not isinstance(shape, tuple) or not len(shape) - 2 == len(strides) == len(kernel_shape) <= len(dilations):
        raise InputError(f"autopad takes strides, kernel_shape and dilations for each spatial axis of {shape}")
    is_known = all(isinstance(d, int) for d in shape[2:])
    sizes = _vector(shape[2:]) if is_known else shape_of(data, "int64", 2)
    spatial = _around(sizes, strides, [(k - 1) * d + 1 for k, d in zip(kernel_shape, dilations, strict=False)], deconv)
    pair = [_call("reshape", v, (-1, 1)) for v in (reversed(spatial) if "LOWER" in mode else spatial)]
    outer = const(np.zeros((2, 2), "int64"))  # the batch and the channels
    padding = _call("concatenate", [outer, _call("concatenate", pair, 1)], 0)
    known = infer_value(padding, {}).numpy().tolist() if is_known else padding
    return _call("nn.pad", data, known, pad_value, pad_type)


def _around(
    sizes: RelayExpr, strides: Sequence[int], widths: Sequence[int], deconv: bool
) -> tuple[RelayExpr, RelayExpr]:
    """Return the smaller and the larger half of what is added on each axis."""
    step, width = _vector(strides), _vector(widths)
    rest = _call("mod", sizes, step)
    covered = _call("where", _call("equal", rest, _vector([0])), step, rest)
    total = _call("maximum", width - covered, _vector([0]))
    if deconv:
        total = width - _vector([1]) - total
    small = _call("floor_divide", total, _vector([2]))
    return small, total - small


def _vector(values: Sequence[int]) -> RelayExpr:
    return const(np.asarray(values, "int64"))
