"""A long short-term memory, unrolled over its time steps.

S. Hochreiter, J. Schmidhuber: Long short-term memory, Neural Computation 9, 1997. Each step has its own weights.
"""

from __future__ import annotations

from typing import Any

import tvm

from ..ir import Call, Dim, Expr, Function, Let, TensorType, Tuple, TupleGetItem, TupleType, Type, Var, free_vars
from ..op import build
from . import layers
from .init import create_workload

__all__ = ["get_net", "get_workload", "lstm_cell"]


class _Bindings:
    """Let bindings, in order."""

    def __init__(self) -> None:
        self._bound: list[tuple[Var, Expr]] = []

    def let(self, name: str, ty: Type, value: Expr) -> Var:
        """Return a new variable that is bound to a value."""
        self._bound.append((Var(name, ty), value))
        return self._bound[-1][0]

    def around(self, body: Expr) -> Expr:
        """Return a body below all bindings."""
        for variable, value in reversed(self._bound):
            body = Let(variable, value, body)
        return body


def _types(batch_size: Dim, num_hidden: int, dtype: str) -> tuple[TensorType, TensorType, TensorType]:
    """Return the types of a state, of a weight and of a bias."""
    return (
        TensorType((batch_size, num_hidden), dtype),
        TensorType((4 * num_hidden, num_hidden), dtype),
        TensorType((4 * num_hidden,), dtype),
    )


def lstm_cell(num_hidden: int, batch_size: Dim = 1, dtype: str = "float32", name: str = "") -> Function:
    """Return one step, as a function.

    It takes the input, a tuple of the hidden state and the memory, and weight and bias of the input and of the hidden
    state; it gives the output, and a tuple of the new states. Gates are in the order in, forget, transform, out.

    Parameters
    ----------
    num_hidden : int
        The size of the input and of each state.
    batch_size : int or dimension
        The number of sequences; ``relay.Any()`` leaves it to the run.
    dtype : str
        The element type.
    name : str
        What precedes the names of the layers.
    """
    state, weight, bias = _types(batch_size, num_hidden, dtype)
    gates_type = TensorType((batch_size, 4 * num_hidden), dtype)
    states_type = TupleType([state, state])
    result_type = TupleType([state, states_type])
    inputs, states = Var("inputs", state), Var("states", states_type)
    i2h_weight, i2h_bias = Var("i2h_weight", weight), Var("i2h_bias", bias)
    h2h_weight, h2h_bias = Var("h2h_weight", weight), Var("h2h_bias", bias)

    scope = _Bindings()
    units = 4 * num_hidden
    i2h = layers.dense_add_bias(inputs, i2h_weight, i2h_bias, units, name=f"{name}i2h")
    i2h = scope.let("i2h", gates_type, i2h)
    h2h = layers.dense_add_bias(TupleGetItem(states, 0), h2h_weight, h2h_bias, units, name=f"{name}h2h")
    h2h = scope.let("h2h", gates_type, h2h)
    gates = scope.let("gates", gates_type, build("add", i2h, h2h))
    split = build("split", gates, indices_or_sections=4, axis=1).astuple()
    slices = scope.let("slice_gates", TupleType([state] * 4), split)
    in_gate = scope.let("in_gate", state, build("sigmoid", TupleGetItem(slices, 0)))
    forget_gate = scope.let("forget_gate", state, build("sigmoid", TupleGetItem(slices, 1)))
    in_transform = scope.let("in_transform", state, build("tanh", TupleGetItem(slices, 2)))
    out_gate = scope.let("out_gate", state, build("sigmoid", TupleGetItem(slices, 3)))
    kept = build("multiply", forget_gate, TupleGetItem(states, 1))
    next_c = scope.let("next_c", state, build("add", kept, build("multiply", in_gate, in_transform)))
    next_h = scope.let("next_h", state, build("multiply", out_gate, build("tanh", next_c)))
    result = scope.let("ret", result_type, Tuple([next_h, Tuple([next_h, next_c])]))
    params = [inputs, states, i2h_weight, i2h_bias, h2h_weight, h2h_bias]
    return Function(params, scope.around(result), result_type)


def get_net(iterations: int, num_hidden: int, batch_size: Dim = 1, dtype: str = "float32") -> Function:
    """Return the network: the output of the last step, from states of 0.

    The input of the first step is the parameter ``data``, those of the others ``data1``, ``data2`` and so on, as
    Relay's text called them. Relay gave all of them the name ``data``, by which they cannot be told apart.

    Parameters
    ----------
    iterations : int
        The number of steps, at least one.
    num_hidden : int
        The size of an input and of each state.
    batch_size : int or dimension
        The number of sequences; ``relay.Any()`` leaves it to the run.
    dtype : str
        The element type.
    """
    if iterations < 1:
        raise ValueError(f"iterations is {iterations}; a network has one step at least")
    state, weight, bias = _types(batch_size, num_hidden, dtype)
    states_type = TupleType([state, state])
    inputs = [Var("data" if i == 0 else f"data{i}", state) for i in range(iterations)]

    scope = _Bindings()
    is_known = isinstance(batch_size, int)
    zeros = build("zeros", (batch_size, num_hidden), dtype) if is_known else build("zeros_like", inputs[0])
    zeros = scope.let("zeros", state, zeros)
    states = scope.let("init_states", states_type, Tuple([zeros, zeros]))
    out = zeros
    for i, data in enumerate(inputs):
        i2h = [Var(f"i2h_{i}_weight", weight), Var(f"i2h_{i}_bias", bias)]
        h2h = [Var(f"h2h_{i}_weight", weight), Var(f"h2h_{i}_bias", bias)]
        cell = lstm_cell(num_hidden, batch_size, dtype, f"lstm_{i}")
        call = scope.let(f"call_{i}", TupleType([state, states_type]), Call(cell, [data, states, *i2h, *h2h]))
        out = scope.let(f"out_{i}", state, TupleGetItem(call, 0))
        states = scope.let(f"states_{i}", states_type, TupleGetItem(call, 1))
    body = scope.around(out)
    return Function(free_vars(body), body, state)


def get_workload(
    iterations: int, num_hidden: int, batch_size: Dim = 1, dtype: str = "float32"
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Return the network of :func:`get_net` as a typed module, and values for its parameters."""
    return create_workload(get_net(iterations, num_hidden, batch_size, dtype))
