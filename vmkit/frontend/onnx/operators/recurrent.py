"""Recurrent layers: RNN, GRU and LSTM, of both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Any as AnyDim
from ....relay.ir import Constant, Dim, Expr, TensorType, dims, type_text
from ....relay.op import build
from ..context import Context
from ..known import constant, value_of
from ..registry import AttributeGroup, converter
from ..run_time_axes import pinned, shape_vector, size_along
from ..typing import typed
from .gate_activations import gate_activations
from .recurrence import Layer, run

__all__ = ["Projection", "Recurrent", "add_peepholes", "joined_bias", "part", "recurrent"]


def _rows(x: Expr, first: int, last: int) -> Expr:
    """Return rows of a tensor; those of a constant are a constant."""
    if isinstance(x, Constant):
        return constant(value_of(x)[first:last])
    return typed(relay.strided_slice(x, [first], [last], [1]))


def part(x: Expr, index: int) -> Expr:
    """Return what belongs to one direction."""
    row = _rows(x, index, index + 1)
    return constant(value_of(row)[0]) if isinstance(row, Constant) else typed(relay.squeeze(row, [0]))


def _sum(a: Expr, b: Expr) -> Expr:
    # Of float16, the compiler says in which type it is computed.
    if isinstance(a, Constant) and isinstance(b, Constant) and a.checked_type.dtype != "float16":
        return constant(value_of(a) + value_of(b))
    return relay.add(a, b)


def joined_bias(b: Expr | None, index: int, size: int) -> Expr | None:
    """Return the biases of the input and of the recurrence, which are only ever added, as one."""
    if b is None:
        return None
    bias = part(b, index)
    return _sum(_rows(bias, 0, size), _rows(bias, size, 2 * size))


Projection = Callable[[Expr], Expr]
"""From the rows of all steps (steps * batch, features) to what they add to each gate (steps * batch, gates)."""


def _projection(weight: Expr, bias: Expr | None) -> Projection:
    def project(rows: Expr) -> Expr:
        product = relay.nn.dense(rows, weight)
        return product if bias is None else relay.add(product, bias)

    return project


# Of one direction, where the attributes name none.
_ACTIVATIONS = {"rnn": ("Tanh",), "gru": ("Sigmoid", "Tanh"), "lstm": ("Sigmoid", "Tanh", "Tanh")}


@dataclass(frozen=True)
class Recurrent(AttributeGroup):
    """The attributes that RNN, GRU and LSTM share."""

    activations: Sequence[str] | None = None
    activation_alpha: Sequence[float] = ()
    activation_beta: Sequence[float] = ()
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int | None = None
    layout: int = 0
    output_sequence: int | None = None

    @property
    def directions(self) -> int:
        """How many directions the sequences are gone through in."""
        return 2 if self.direction == "bidirectional" else 1

    def sized(self, ctx: Context, weights: Expr, sizes: Sequence[int | None]) -> Expr:
        """Return weights with sizes in units of ``hidden_size`` where their type says none; None is any size.

        That they have these sizes is checked when the program runs.
        """
        unit = self.hidden_size
        if unit is None or ctx.rank(weights) != 1 + len(sizes):
            return weights
        wanted = [self.directions, *(AnyDim() if size is None else size * unit for size in sizes)]
        shape = [AnyDim() if isinstance(own, int) else d for own, d in zip(ctx.shape(weights), wanted, strict=True)]
        return typed(pinned(ctx, weights, shape))

    def names(self, ctx: Context, cell: str) -> list[str]:
        """Return the activations' names, those of each direction one after the other; ModelError for another number."""
        usual = [*_ACTIVATIONS[cell]] * self.directions
        if not self.activations:
            return usual
        # Two are the standard's default for RNN, and written out they stay two for one direction: it uses the first.
        given = list(self.activations)
        if cell == "rnn" and len(given) == 2:
            given = given[: self.directions]
        if len(given) != len(usual):
            ctx.fail(f"activations are {', '.join(self.activations)}; expected {len(usual)} of them")
        return given

    def check(self, ctx: Context, recurrence: Expr, axis: int = -1) -> int:
        """Return the hidden size, which an axis of the weights has.

        ModelError for attributes that do not agree with the weights or the outputs.
        """
        if self.direction not in ("forward", "reverse", "bidirectional"):
            ctx.fail(f"direction is {self.direction!r}; it is forward, reverse or bidirectional")
        hidden = ctx.shape(recurrence)[axis]
        if not isinstance(hidden, int):
            ctx.fail("the hidden size is not known at import")
        if self.hidden_size not in (None, hidden):
            ctx.fail(
                f"hidden_size is {self.hidden_size}, but the weights of the recurrence, {ctx.type(recurrence)}, are "
                f"for a hidden size of {hidden}"
            )
        if self.output_sequence not in (None, 0, 1):
            ctx.fail(f"output_sequence is {self.output_sequence}; it is 0 or 1")
        # Until opset 7 the sequence of hidden states was optional only where this said so; now it always is.
        if self.output_sequence and not ctx.wants(0):
            ctx.fail("output_sequence is 1, but the node leaves out its first output, the sequence of hidden states")
        return hidden


def recurrent(
    ctx: Context,
    cell: str,
    x: Expr,
    options: Recurrent,
    direction_layer: Callable[[Layer, int], Projection],
    lengths: Expr | None,
    initial: Sequence[Expr | None],
    hidden: int,
    layer_type: type[Layer] = Layer,
) -> list[Expr]:
    """Return the outputs of a recurrent operator: the hidden states of all steps, and the last states.

    `direction_layer` gives the layer of a direction its weights, and returns what is done to the input beforehand.
    """
    if ctx.rank(x) != 3:
        ctx.fail(f"the input is {ctx.type(x)}; a sequence has 3 dimensions: steps, batch, features")
    if options.layout:
        x = typed(relay.transpose(x, [1, 0, 2]))
        initial = [None if s is None else typed(relay.transpose(s, [1, 0, 2])) for s in initial]
    batch, count = ctx.shape(x)[1], options.directions
    begins = [None if s is None else _of_batch(ctx, s, x, [count, batch, hidden]) for s in initial]
    each = len(_ACTIVATIONS[cell])
    functions = gate_activations(ctx, options.names(ctx, cell), options.activation_alpha, options.activation_beta)
    stacks, finals = [], []
    zeros = typed(_zeros(ctx, x, hidden))
    flat = typed(relay.reshape(x, [-3, 0]))
    for index in range(count):
        layer = layer_type(ctx, cell, hidden, functions[index * each : (index + 1) * each], options.clip)
        project = direction_layer(layer, index)
        rows = typed(project(flat))
        rows = typed(relay.reshape_like(rows, x, 0, 1, 0, 2))
        states = [zeros if s is None else _of_begun(ctx, typed(part(s, index)), lengths) for s in begins]
        is_reverse = options.direction == "reverse" or index == 1
        states += [typed(_zeros(ctx, x, width)) for width in layer.more_states]
        stack, state = run(layer, rows, states, lengths, is_reverse)
        stacks.append(relay.expand_dims(stack, 1))
        finals.append([relay.expand_dims(s, 0) for s in state[: len(begins)]])
    whole = relay.concatenate(stacks, 1) if count > 1 else stacks[0]
    last = [relay.concatenate(list(s), 0) if count > 1 else s[0] for s in zip(*finals, strict=True)]
    if options.layout:
        whole = relay.transpose(whole, [2, 0, 1, 3])
        last = [relay.transpose(s, [1, 0, 2]) for s in last]
    return [whole, *last]


def _of_batch(ctx: Context, state: Expr, x: Expr, shape: list[Dim]) -> Expr:
    """Return an initial state, of which it is checked when the program runs that it is for the batch of the input."""
    name, (directions, batch, hidden) = ctx.node.op_type, shape
    if ctx.rank(state) != 3 or any(dims.equal(a, b) is False for a, b in zip(ctx.shape(state), shape, strict=True)):
        wanted = TensorType(shape, ctx.dtype(state))
        ctx.fail(f"the initial state is {ctx.type(state)}; the input is for one of {type_text(wanted)}")
    own = ctx.shape(state)[1]
    if dims.equal(own, batch):
        return state
    if dims.is_any(own) or dims.is_any(batch):
        axis = ctx.constant(1, "int64")
        sizes = [relay.take(shape_vector(ctx, v), axis, axis=0) for v in (state, x)]
        message = f"{name}: the batch of the initial state differs from that of the input"
        state = typed(build("dyn.require", state, relay.equal(*sizes), message=message))
    if dims.is_any(batch):
        return state
    return typed(pinned(ctx, state, [directions, batch, hidden]))


def _of_begun(ctx: Context, state: Expr, lengths: Expr | None) -> Expr:
    """Return an initial state with zeros for sequences of length 0: onnxruntime gives these as their last state."""
    known = None if lengths is None else ctx.static(lengths)
    if lengths is None or (known is not None and (known > 0).all()):
        return state
    has_begun = relay.expand_dims(relay.greater(lengths, ctx.constant(0, ctx.dtype(lengths))), 1)
    return typed(relay.where(has_begun, state, ctx.constant(0, ctx.dtype(state))))


def _zeros(ctx: Context, x: Expr, width: int) -> Expr:
    """Return what a state is before the first step of a sequence (steps, batch, features): zeros (batch, width)."""
    batch, dtype = ctx.shape(x)[1], ctx.dtype(x)
    if isinstance(batch, int):
        return relay.zeros([batch, width], dtype)
    if not dims.is_any(batch):
        return relay.broadcast_to(ctx.constant(0, dtype), [batch, width])
    shape = relay.stack([size_along(ctx, x, 1), ctx.constant(width, "int64")], 0)
    return pinned(ctx, typed(relay.broadcast_to(ctx.constant(0, dtype), shape)), [AnyDim(), width])


def _sized(
    ctx: Context, options: Recurrent, gates: int, w: Expr, r: Expr, b: Expr | None
) -> tuple[Expr, Expr, Expr | None]:
    """Return weights of the input, of the recurrence and biases, of which sizes are known where they can be."""
    bias = None if b is None else options.sized(ctx, b, [2 * gates])
    return options.sized(ctx, w, [gates, None]), options.sized(ctx, r, [gates, 1]), bias


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
    options: Recurrent,
) -> list[Expr]:
    def one_direction(layer: Layer, index: int) -> Projection:
        layer.weights["recurrence"] = part(r, index)
        return _projection(part(w, index), joined_bias(b, index, layer.hidden))

    w, r, b = _sized(ctx, options, 1, w, r, b)
    hidden = options.check(ctx, r)
    return recurrent(ctx, "rnn", x, options, one_direction, lengths, [initial_h], hidden)


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
    options: Recurrent,
    linear_before_reset: int = 0,
) -> list[Expr]:
    def one_direction(layer: Layer, index: int) -> Projection:
        layer.linear_before_reset = bool(linear_before_reset)
        hidden, recurrence = layer.hidden, part(r, index)
        layer.weights["recurrence_gates"] = _rows(recurrence, 0, 2 * hidden)
        layer.weights["recurrence_hidden"] = _rows(recurrence, 2 * hidden, 3 * hidden)
        bias = ctx.constant([0.0] * (6 * hidden), ctx.dtype(x)) if b is None else part(b, index)
        # The recurrent bias of the hidden gate stays apart: it may come before the reset.
        gates = _sum(_rows(bias, 0, 2 * hidden), _rows(bias, 3 * hidden, 5 * hidden))
        layer.weights["bias_hidden"] = _rows(bias, 5 * hidden, 6 * hidden)
        return _projection(part(w, index), relay.concatenate([gates, _rows(bias, 2 * hidden, 3 * hidden)], 0))

    w, r, b = _sized(ctx, options, 3, w, r, b)
    hidden = options.check(ctx, r)
    return recurrent(ctx, "gru", x, options, one_direction, lengths, [initial_h], hidden)


def add_peepholes(layer: Layer, p: Expr | None, index: int) -> None:
    """Give the layer of a direction what its gates take of the cell."""
    if p is None:
        return
    peephole = part(p, index)
    for position, name in enumerate(("peephole_in", "peephole_out", "peephole_forget")):
        layer.weights[name] = _rows(peephole, position * layer.hidden, (position + 1) * layer.hidden)


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
    options: Recurrent,
    input_forget: int = 0,
) -> list[Expr]:
    def one_direction(layer: Layer, index: int) -> Projection:
        layer.input_forget = bool(input_forget)
        layer.weights["recurrence"] = part(r, index)
        add_peepholes(layer, p, index)
        return _projection(part(w, index), joined_bias(b, index, 4 * layer.hidden))

    w, r, b = _sized(ctx, options, 4, w, r, b)
    p = None if p is None else options.sized(ctx, p, [3])
    hidden = options.check(ctx, r)
    return recurrent(ctx, "lstm", x, options, one_direction, lengths, [initial_h, initial_c], hidden)
