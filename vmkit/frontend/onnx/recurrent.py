"""Recurrent layers: RNN, GRU and LSTM, of both directions, for sequences of any length.

A layer is one cell, a Relay expression of one step, which is written out for a short sequence of known length and
otherwise put into a global function that calls itself for the next step: a loop on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from ... import relay
from ...relay.ir import Any as AnyDim
from ...relay.ir import (
    Call,
    Constant,
    Dim,
    Expr,
    Function,
    FuncType,
    If,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Var,
    dims,
)
from .activation import elu, hard_sigmoid, softplus, softsign, thresholded_relu
from .context import Context
from .elementwise import binary
from .known import constant, known_value
from .layout import to_shape
from .registry import converter
from .typing import typed

_WRITTEN_OUT = 8  # steps; a longer sequence is a loop

Cell = Callable[["Layer", Expr, list[Expr]], list[Expr]]


@dataclass
class Layer:
    """One direction of a recurrent layer.

    Attributes
    ----------
    weights : dict
        What a step needs beside the input and the state, by name; a loop hands them on.
    """

    ctx: Context
    hidden: int
    activations: list[Callable[[Expr], Expr]]
    clip: float | None
    weights: dict[str, Expr] = field(default_factory=dict)
    linear_before_reset: bool = False
    input_forget: bool = False

    def limited(self, x: Expr) -> Expr:
        """Return the input of an activation, limited to the range that `clip` gives."""
        if self.clip is None:
            return x
        return binary(self.ctx, "minimum", binary(self.ctx, "maximum", x, -self.clip), self.clip)

    def gates(self, x: Expr, count: int) -> list[Expr]:
        """Return the parts of the columns of a matrix that belong to each gate."""
        return list(relay.split(x, count, axis=1)) if count > 1 else [x]


# -- cells: (layer, input times weight plus bias, state) to the next state


def _rnn_cell(layer: Layer, x: Expr, state: list[Expr]) -> list[Expr]:
    (f,) = layer.activations
    total = relay.add(x, relay.nn.dense(state[0], layer.weights["recurrence"]))
    return [f(layer.limited(total))]


def _gru_cell(layer: Layer, x: Expr, state: list[Expr]) -> list[Expr]:
    f, g = layer.activations
    (h,) = state
    weights = layer.weights
    x_update, x_reset, x_hidden = layer.gates(x, 3)
    update_reset = relay.nn.dense(h, weights["recurrence_gates"])
    h_update, h_reset = layer.gates(update_reset, 2)
    update = f(layer.limited(relay.add(x_update, h_update)))
    reset = f(layer.limited(relay.add(x_reset, h_reset)))
    if layer.linear_before_reset:
        linear = relay.add(relay.nn.dense(h, weights["recurrence_hidden"]), weights["bias_hidden"])
        recurrent = relay.multiply(reset, linear)
    else:
        product = relay.nn.dense(relay.multiply(reset, h), weights["recurrence_hidden"])
        recurrent = relay.add(product, weights["bias_hidden"])
    hidden = g(layer.limited(relay.add(x_hidden, recurrent)))
    keep = relay.multiply(update, relay.subtract(h, hidden))
    return [relay.add(hidden, keep)]


def _lstm_cell(layer: Layer, x: Expr, state: list[Expr]) -> list[Expr]:
    f, g, h_activation = layer.activations
    h, c = state
    total = relay.add(x, relay.nn.dense(h, layer.weights["recurrence"]))
    into, out, forget, cell = layer.gates(total, 4)
    peep = layer.weights.get
    if peep("peephole_in") is not None:
        into = relay.add(into, relay.multiply(layer.weights["peephole_in"], c))
        forget = relay.add(forget, relay.multiply(layer.weights["peephole_forget"], c))
    i = f(layer.limited(into))
    kept = binary(layer.ctx, "subtract", relay.negative(i), -1) if layer.input_forget else f(layer.limited(forget))
    c = relay.add(relay.multiply(kept, c), relay.multiply(i, g(layer.limited(cell))))
    if peep("peephole_out") is not None:
        out = relay.add(out, relay.multiply(layer.weights["peephole_out"], c))
    return [relay.multiply(f(layer.limited(out)), h_activation(c)), c]


# -- steps over a sequence


def _run(
    layer: Layer, cell: Cell, x: Expr, state: list[Expr], lengths: Expr | None, is_reverse: bool
) -> tuple[Expr, list[Expr]]:
    """Return the hidden states of all steps, stacked, and the last state."""
    ctx = layer.ctx
    steps = ctx.shape(x)[0]
    if isinstance(steps, int) and steps <= _WRITTEN_OUT:
        return _written_out(layer, cell, x, state, lengths, steps, is_reverse)
    return _loop(layer, cell, x, state, lengths, is_reverse)


def _step(
    layer: Layer, cell: Cell, row: Expr, state: list[Expr], lengths: Expr | None, position: Expr
) -> tuple[Expr, list[Expr]]:
    """Return the output and the state after one step; a sequence that has ended keeps its state and gives zeros."""
    new = cell(layer, row, state)
    if lengths is None:
        return new[0], new
    goes_on = relay.expand_dims(relay.less(position, lengths), 1)
    kept = [relay.where(goes_on, a, b) for a, b in zip(new, state, strict=True)]
    return relay.where(goes_on, new[0], layer.ctx.constant(0, layer.ctx.dtype(new[0]))), kept


def _written_out(
    layer: Layer, cell: Cell, x: Expr, state: list[Expr], lengths: Expr | None, steps: int, is_reverse: bool
) -> tuple[Expr, list[Expr]]:
    ctx = layer.ctx
    outputs: list[Expr] = []
    dtype = ctx.dtype(lengths) if lengths is not None else "int32"
    for step in reversed(range(steps)) if is_reverse else range(steps):
        row = relay.squeeze(x, [0]) if steps == 1 else relay.take(x, ctx.constant(step, "int64"), axis=0)
        output, state = _step(layer, cell, row, state, lengths, ctx.constant(step, dtype))
        outputs.append(relay.expand_dims(output, 0))
    if is_reverse:
        outputs.reverse()
    if not outputs:
        return typed(relay.strided_slice(relay.expand_dims(state[0], 0), [0], [0], [1])), state
    return typed(relay.concatenate(outputs, 0) if len(outputs) > 1 else outputs[0]), state


def _loop(
    layer: Layer, cell: Cell, x: Expr, state: list[Expr], lengths: Expr | None, is_reverse: bool
) -> tuple[Expr, list[Expr]]:
    """Return the steps by a global function that computes one and calls itself for the rest."""
    ctx = layer.ctx
    names = list(layer.weights)
    given = [x, *state, *layer.weights.values(), *([lengths] if lengths is not None else [])]
    batch, steps = ctx.shape(x)[1], ctx.shape(x)[0]
    formal_batch = batch if isinstance(batch, int) else tirx.Var("batch", "int64")
    formal_steps = steps if isinstance(steps, int) else tirx.Var("steps", "int64")
    position = _variable("position", TensorType((), "int64"))
    formals = [
        _variable(f"x{i}", _renamed(ctx.type(v), {batch: formal_batch, steps: formal_steps}))
        for i, v in enumerate(given)
    ]
    row_type = TensorType([AnyDim(), formal_batch, layer.hidden], ctx.dtype(state[0]))
    collected = _variable("collected", row_type)

    inner = Layer(ctx, layer.hidden, layer.activations, layer.clip, {}, layer.linear_before_reset, layer.input_forget)
    rows, states, rest = formals[0], formals[1 : 1 + len(state)], formals[1 + len(state) :]
    inner.weights = dict(zip(names, rest, strict=False))
    limits = rest[len(names)] if lengths is not None else None
    one = ctx.constant(1, "int64")
    row = relay.take(rows, position, axis=0)
    at = position if limits is None else relay.cast(position, ctx.dtype(limits))
    output, new = _step(inner, cell, row, list(states), limits, at)
    parts = [relay.expand_dims(output, 0), collected] if is_reverse else [collected, relay.expand_dims(output, 0)]
    result = TupleType([row_type, *[s.checked_type_ for s in states]])
    gvar = ctx.importer.new_function("recurrence")
    again = Call(gvar, [
        relay.subtract(position, one) if is_reverse else relay.add(position, one),
        relay.concatenate(parts, 0), rows, *new, *rest,
    ])  # fmt: skip
    again.checked_type_ = result
    count = relay.take(relay.shape_of(rows, dtype="int64"), ctx.constant(0, "int64"), axis=0)
    going = relay.greater_equal(position, ctx.constant(0, "int64")) if is_reverse else relay.less(position, count)
    body = typed(If(going, again, Tuple([collected, *states])))
    params = [position, collected, *formals]
    function = Function(params, body, result)
    function.checked_type_ = FuncType([p.checked_type_ for p in params], result)
    ctx.importer.functions[gvar] = function

    whole = relay.take(relay.shape_of(x, dtype="int64"), ctx.constant(0, "int64"), axis=0)
    start = relay.subtract(whole, one) if is_reverse else ctx.constant(0, "int64")
    empty = relay.strided_slice(relay.expand_dims(state[0], 0), [0], [0], [1])
    call = Call(gvar, [typed(start), typed(empty), *given])
    final = [ctx.type(s) for s in state]
    call.checked_type_ = TupleType([TensorType([AnyDim(), batch, layer.hidden], final[0].dtype), *final])
    stacked = to_shape(TupleGetItem(call, 0), [steps, batch, layer.hidden])
    return typed(stacked), [typed(TupleGetItem(call, i + 1)) for i in range(len(state))]


def _variable(name: str, ty: TensorType) -> Var:
    variable = Var(name, ty)
    variable.checked_type_ = ty
    return variable


def _renamed(ty: TensorType, names: dict[Any, Dim]) -> TensorType:
    """Return a type in the symbols of another function."""
    shape = []
    for dim in ty.shape:
        found = next((new for old, new in names.items() if not isinstance(dim, int) and old is dim), dim)
        shape.append(found)
    return TensorType(shape, ty.dtype)


# -- the operators


_ACTIVATIONS: dict[str, Callable[..., Callable[[Expr], Expr]]] = {
    "relu": lambda ctx, a, b: relay.nn.relu,
    "tanh": lambda ctx, a, b: relay.tanh,
    "sigmoid": lambda ctx, a, b: relay.sigmoid,
    "affine": lambda ctx, a, b: lambda x: binary(
        ctx, "add", binary(ctx, "multiply", x, 1.0 if a is None else a), 0.0 if b is None else b
    ),
    "leakyrelu": lambda ctx, a, b: lambda x: relay.nn.leaky_relu(x, 0.01 if a is None else a),
    "thresholdedrelu": lambda ctx, a, b: lambda x: thresholded_relu(ctx, x, alpha=1.0 if a is None else a),
    "scaledtanh": lambda ctx, a, b: lambda x: binary(
        ctx, "multiply", relay.tanh(binary(ctx, "multiply", x, 1.0 if b is None else b)), 1.0 if a is None else a
    ),
    "hardsigmoid": lambda ctx, a, b: lambda x: hard_sigmoid(
        ctx, x, alpha=0.2 if a is None else a, beta=0.5 if b is None else b
    ),
    "elu": lambda ctx, a, b: lambda x: elu(ctx, x, alpha=1.0 if a is None else a),
    "softsign": lambda ctx, a, b: lambda x: softsign(ctx, x),
    "softplus": lambda ctx, a, b: lambda x: softplus(ctx, x),
}


def _activations(
    ctx: Context,
    names: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
) -> list[Callable[[Expr], Expr]]:
    takes_alpha = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
    takes_beta = {"affine", "scaledtanh", "hardsigmoid"}
    alpha, beta = iter(alphas), iter(betas)
    made = []
    for name in names:
        key = name.lower()
        if key not in _ACTIVATIONS:
            ctx.fail(f"the activation {name!r} is unknown; there are {', '.join(_ACTIVATIONS)}")
        a = next(alpha, None) if key in takes_alpha else None
        b = next(beta, None) if key in takes_beta else None
        made.append(_ACTIVATIONS[key](ctx, a, b))
    return made


def _rows(x: Expr, first: int, last: int) -> Expr:
    """Return rows of a tensor; those of a constant are a constant."""
    if isinstance(x, Constant):
        return constant(known_value(x)[first:last])
    return typed(relay.strided_slice(x, [first], [last], [1]))


def _part(x: Expr | None, index: int) -> Expr | None:
    """Return what belongs to one direction."""
    if x is None:
        return None
    row = _rows(x, index, index + 1)
    return constant(known_value(row)[0]) if isinstance(row, Constant) else typed(relay.squeeze(row, [0]))


def _sum(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Constant) and isinstance(b, Constant):
        return constant(known_value(a) + known_value(b))
    return relay.add(a, b)


def _joined_bias(b: Expr | None, index: int, size: int) -> Expr | None:
    """Return the biases of the input and of the recurrence, which are only ever added, as one."""
    bias = _part(b, index)
    return None if bias is None else _sum(_rows(bias, 0, size), _rows(bias, size, 2 * size))


@dataclass
class _Options:
    """Attributes that RNN, GRU and LSTM share."""

    activations: Sequence[str]
    activation_alpha: Sequence[float]
    activation_beta: Sequence[float]
    clip: float | None
    direction: str
    layout: int
    hidden_size: int | None


def _recurrent(
    ctx: Context,
    x: Expr,
    options: _Options,
    direction_layer: Callable[[Layer, int], tuple[Cell, Expr, Expr | None]],
    lengths: Expr | None,
    initial: Sequence[Expr | None],
    recurrence: Expr,
) -> list[Expr]:
    """Return the outputs of a recurrent operator: the hidden states of all steps, and the last states."""
    if options.direction not in ("forward", "reverse", "bidirectional"):
        ctx.fail(f"direction is {options.direction!r}; it is forward, reverse or bidirectional")
    if options.layout:
        x = typed(relay.transpose(x, [1, 0, 2]))
        initial = [None if s is None else typed(relay.transpose(s, [1, 0, 2])) for s in initial]
    hidden = ctx.shape(recurrence)[-1]
    if not isinstance(hidden, int):
        ctx.fail("the hidden size is not known at import")
    steps, batch, _ = ctx.shape(x)
    count = 2 if options.direction == "bidirectional" else 1
    functions = _activations(ctx, options.activations, options.activation_alpha, options.activation_beta)
    each = len(functions) // count
    stacks, finals = [], []
    for index in range(count):
        layer = Layer(ctx, hidden, functions[index * each : (index + 1) * each], options.clip)
        cell, weight, bias = direction_layer(layer, index)
        rows = relay.nn.dense(to_shape(x, [dims.mul(steps, batch), ctx.shape(x)[2]]), weight)
        rows = rows if bias is None else relay.add(rows, bias)
        rows = typed(to_shape(rows, [steps, batch, ctx.shape(weight)[0]]))
        zeros = [_zeros(ctx, batch, hidden, ctx.dtype(x)) if s is None else _part(s, index) for s in initial]
        is_reverse = options.direction == "reverse" or index == 1
        stack, state = _run(layer, cell, rows, [typed(z) for z in zeros if z is not None], lengths, is_reverse)
        stacks.append(relay.expand_dims(stack, 1))
        finals.append([relay.expand_dims(s, 0) for s in state])
    whole = relay.concatenate(stacks, 1) if count > 1 else stacks[0]
    last = [relay.concatenate(list(s), 0) if count > 1 else s[0] for s in zip(*finals, strict=True)]
    if options.layout:
        whole = relay.transpose(whole, [2, 0, 1, 3])
        last = [relay.transpose(s, [1, 0, 2]) for s in last]
    return [whole, *last]


def _zeros(ctx: Context, batch: Dim, hidden: int, dtype: str) -> Expr:
    if isinstance(batch, int):
        return relay.zeros([batch, hidden], dtype)
    return relay.broadcast_to(ctx.constant(0, dtype), [batch, hidden])


def _directions(direction: str) -> int:
    return 2 if direction == "bidirectional" else 1


@converter("RNN")
def rnn(
    ctx: Context,
    x: Expr,
    w: Expr,
    r: Expr,
    b: Expr | None = None,
    lengths: Expr | None = None,
    initial_h: Expr | None = None,
    *,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 0,
) -> list[Expr]:
    names = activations or ["Tanh"] * _directions(direction)
    options = _Options(names, activation_alpha, activation_beta, clip, direction, layout, hidden_size)

    def one_direction(layer: Layer, index: int) -> tuple[Cell, Expr, Expr | None]:
        layer.weights["recurrence"] = _part(r, index)
        return _rnn_cell, _part(w, index), _joined_bias(b, index, layer.hidden)

    return _recurrent(ctx, x, options, one_direction, lengths, [initial_h], r)


@converter("GRU")
def gru(
    ctx: Context,
    x: Expr,
    w: Expr,
    r: Expr,
    b: Expr | None = None,
    lengths: Expr | None = None,
    initial_h: Expr | None = None,
    *,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> list[Expr]:
    names = activations or ["Sigmoid", "Tanh"] * _directions(direction)
    options = _Options(names, activation_alpha, activation_beta, clip, direction, layout, hidden_size)

    def one_direction(layer: Layer, index: int) -> tuple[Cell, Expr, Expr | None]:
        layer.linear_before_reset = bool(linear_before_reset)
        hidden, recurrence = layer.hidden, _part(r, index)
        layer.weights["recurrence_gates"] = _rows(recurrence, 0, 2 * hidden)
        layer.weights["recurrence_hidden"] = _rows(recurrence, 2 * hidden, 3 * hidden)
        bias = _part(b, index)
        if bias is None:
            bias = ctx.constant([0.0] * (6 * hidden), ctx.dtype(x))
        # The recurrent bias of the hidden gate stays apart: it may come before the reset.
        gates = _sum(_rows(bias, 0, 2 * hidden), _rows(bias, 3 * hidden, 5 * hidden))
        layer.weights["bias_hidden"] = _rows(bias, 5 * hidden, 6 * hidden)
        return _gru_cell, _part(w, index), relay.concatenate([gates, _rows(bias, 2 * hidden, 3 * hidden)], 0)

    return _recurrent(ctx, x, options, one_direction, lengths, [initial_h], r)


@converter("LSTM")
def lstm(
    ctx: Context,
    x: Expr,
    w: Expr,
    r: Expr,
    b: Expr | None = None,
    lengths: Expr | None = None,
    initial_h: Expr | None = None,
    initial_c: Expr | None = None,
    p: Expr | None = None,
    *,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
) -> list[Expr]:
    names = activations or ["Sigmoid", "Tanh", "Tanh"] * _directions(direction)
    options = _Options(names, activation_alpha, activation_beta, clip, direction, layout, hidden_size)

    def one_direction(layer: Layer, index: int) -> tuple[Cell, Expr, Expr | None]:
        layer.input_forget = bool(input_forget)
        layer.weights["recurrence"] = _part(r, index)
        peephole = _part(p, index)
        if peephole is not None:
            for position, name in enumerate(("peephole_in", "peephole_out", "peephole_forget")):
                layer.weights[name] = _rows(peephole, position * layer.hidden, (position + 1) * layer.hidden)
        return _lstm_cell, _part(w, index), _joined_bias(b, index, 4 * layer.hidden)

    return _recurrent(ctx, x, options, one_direction, lengths, [initial_h, initial_c], r)
