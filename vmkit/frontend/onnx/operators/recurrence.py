"""A recurrence over a sequence of any length, given what one step computes.

The cell, a Relay expression of one step, is written out for a short sequence of known length and otherwise put into a
global function that calls itself for the next step: a loop on the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

from tvm import tirx

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import (
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
from ....relay.op import build
from ....relay.recurrent_loop import RecurrentLoop
from ..context import Context
from ..typing import typed
from .elementwise import binary
from .gate_activations import GateActivation

__all__ = ["Layer", "run"]

_WRITTEN_OUT = 8  # steps; a longer sequence is a loop


@dataclass
class Layer:
    """One direction of a recurrent layer.

    Attributes
    ----------
    cell : str
        What a step computes: "rnn", "gru" or "lstm".
    weights : dict
        What a step needs beside the input and the state, by name; a loop hands them on.
    product : callable or None
        (layer, hidden state) to the product with the weights of the recurrence, where that is not one of floats.
    quantized : dict
        The constants of a quantised recurrence by the names that :class:`RecurrentLoop` has for them, if all are known.
    more_states : list of int
        The widths of what the layer keeps beside the states of its cell; it begins with zeros.
    """

    ctx: Context
    cell: str
    hidden: int
    activations: list[GateActivation]
    clip: float | None
    weights: dict[str, Expr] = field(default_factory=dict)
    linear_before_reset: bool = False
    input_forget: bool = False
    product: Callable[[Layer, Expr], Expr] | None = None
    quantized: dict[str, Constant] = field(default_factory=dict)
    more_states: list[int] = field(default_factory=list)

    def recurrent(self, h: Expr) -> Expr:
        """Return the hidden state times the weights of the recurrence."""
        return relay.nn.dense(h, self.weights["recurrence"]) if self.product is None else self.product(self, h)

    def limited(self, x: Expr) -> Expr:
        """Return the input of an activation, limited to the range that `clip` gives."""
        if self.clip is None:
            return x
        return binary(self.ctx, "minimum", binary(self.ctx, "maximum", x, -self.clip), self.clip)

    def gates(self, x: Expr, count: int) -> list[Expr]:
        """Return the parts of the columns of a matrix that belong to each gate."""
        return list(relay.split(x, count, axis=1)) if count > 1 else [x]

    def step(self, x: Expr, state: list[Expr]) -> list[Expr]:
        """Return the next state from the input times weight plus bias, and the state."""
        return _CELLS[self.cell](self, x, state)

    def marked(self, loop: Function, is_reverse: bool, has_lengths: bool) -> Function:
        """Return a loop over the steps with what a compiler that has a kernel for it has to know."""
        functions = [each.function for each in self.activations]
        if None in functions or (self.product is not None and not self.quantized):
            return loop
        mark = RecurrentLoop(
            cell=f"quantized_{self.cell}" if self.quantized else self.cell,
            functions=" ".join(name for name in functions if name is not None),
            is_reverse=is_reverse,
            clip=self.clip,
            has_lengths=has_lengths,
            has_peepholes="peephole_in" in self.weights,
            input_forget=self.input_forget,
            linear_before_reset=self.linear_before_reset,
        )
        return mark.mark(loop, self.quantized)


# -- cells: (layer, input times weight plus bias, state) to the next state


def _rnn_cell(layer: Layer, x: Expr, state: list[Expr]) -> list[Expr]:
    (f,) = layer.activations
    total = relay.add(x, layer.recurrent(state[0]))
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
    total = relay.add(x, layer.recurrent(h))
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


_CELLS: dict[str, Callable[[Layer, Expr, list[Expr]], list[Expr]]] = {
    "rnn": _rnn_cell,
    "gru": _gru_cell,
    "lstm": _lstm_cell,
}


# -- steps over a sequence


def run(layer: Layer, x: Expr, state: list[Expr], lengths: Expr | None, is_reverse: bool) -> tuple[Expr, list[Expr]]:
    """Return the hidden states of all steps, stacked, and the last state."""
    ctx = layer.ctx
    steps = ctx.shape(x)[0]
    if isinstance(steps, int) and steps <= _WRITTEN_OUT:
        return _written_out(layer, x, state, lengths, steps, is_reverse)
    return _loop(layer, x, state, lengths, is_reverse)


def _step(layer: Layer, row: Expr, state: list[Expr], lengths: Expr | None, position: Expr) -> tuple[Expr, list[Expr]]:
    """Return the output and the state after one step; a sequence that has ended keeps its state and gives zeros."""
    new = layer.step(row, state)
    if lengths is None:
        return new[0], new
    goes_on = relay.expand_dims(relay.less(position, lengths), 1)
    kept = [relay.where(goes_on, a, b) for a, b in zip(new, state, strict=True)]
    return relay.where(goes_on, new[0], layer.ctx.constant(0, layer.ctx.dtype(new[0]))), kept


def _written_out(
    layer: Layer, x: Expr, state: list[Expr], lengths: Expr | None, steps: int, is_reverse: bool
) -> tuple[Expr, list[Expr]]:
    ctx = layer.ctx
    outputs: list[Expr] = []
    dtype = ctx.dtype(lengths) if lengths is not None else "int32"
    for step in reversed(range(steps)) if is_reverse else range(steps):
        row = relay.squeeze(x, [0]) if steps == 1 else relay.take(x, ctx.constant(step, "int64"), axis=0)
        output, state = _step(layer, row, state, lengths, ctx.constant(step, dtype))
        outputs.append(relay.expand_dims(output, 0))
    if is_reverse:
        outputs.reverse()
    if not outputs:
        return typed(relay.strided_slice(relay.expand_dims(state[0], 0), [0], [0], [1])), state
    return typed(relay.concatenate(outputs, 0) if len(outputs) > 1 else outputs[0]), state


def _loop(layer: Layer, x: Expr, state: list[Expr], lengths: Expr | None, is_reverse: bool) -> tuple[Expr, list[Expr]]:
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
    row_type = TensorType([formal_steps, formal_batch, layer.hidden], ctx.dtype(state[0]))
    collected = _variable("collected", row_type)

    inner = replace(layer, weights={})
    rows, states, rest = formals[0], formals[1 : 1 + len(state)], formals[1 + len(state) :]
    inner.weights = dict(zip(names, rest, strict=False))
    limits = rest[len(names)] if lengths is not None else None
    one = ctx.constant(1, "int64")
    row = relay.take(rows, position, axis=0, mode="fast")
    at = position if limits is None else relay.cast(position, ctx.dtype(limits))
    output, new = _step(inner, row, list(states), limits, at)
    result = TupleType([row_type, *[s.checked_type_ for s in states]])
    gvar = ctx.importer.new_function("recurrence")
    again = Call(gvar, [
        relay.subtract(position, one) if is_reverse else relay.add(position, one),
        build("buffer.write", collected, output, position), rows, *new, *rest,
    ])  # fmt: skip
    again.checked_type_ = result
    count = relay.take(relay.shape_of(rows, dtype="int64"), ctx.constant(0, "int64"), axis=0)
    going = relay.greater_equal(position, ctx.constant(0, "int64")) if is_reverse else relay.less(position, count)
    body = typed(If(going, again, Tuple([collected, *states])))
    params = [position, collected, *formals]
    function = Function(params, body, result)
    function = layer.marked(function, is_reverse, lengths is not None)
    function.checked_type_ = FuncType([p.checked_type_ for p in params], result)
    ctx.importer.functions[gvar] = function

    whole = relay.take(relay.shape_of(x, dtype="int64"), ctx.constant(0, "int64"), axis=0)
    start = relay.subtract(whole, one) if is_reverse else ctx.constant(0, "int64")
    call = Call(gvar, [typed(start), typed(_buffer(x, [steps, batch, layer.hidden], row_type.dtype)), *given])
    call.checked_type_ = TupleType([TensorType([steps, batch, layer.hidden], row_type.dtype), *map(ctx.type, state)])
    return typed(TupleGetItem(call, 0)), [typed(TupleGetItem(call, i + 1)) for i in range(len(state))]


def _buffer(x: Expr, shape: list[Dim], dtype: str) -> Expr:
    """Return a buffer for the hidden states of all steps of a sequence."""
    if not any(dims.is_any(d) for d in shape):
        return build("buffer.create", shape=shape, dtype=dtype)
    sizes = relay.strided_slice(relay.shape_of(x, dtype="int64"), [0], [2], [1])
    vector = relay.concatenate([sizes, relay.const([shape[2]], "int64")], 0)
    return build("buffer.create", vector, shape=shape, dtype=dtype)


def _variable(name: str, ty: TensorType) -> Var:
    variable = Var(name, ty)
    variable.checked_type_ = ty
    return variable


def _renamed(ty: TensorType, names: dict[Any, Dim]) -> TensorType:
    """Return a type in the symbols of another function."""
    shape = []
    for dim in ty.shape:
        found = next((new for old, new in names.items() if dims.equal(old, dim)), dim)
        shape.append(found)
    return TensorType(shape, ty.dtype)
