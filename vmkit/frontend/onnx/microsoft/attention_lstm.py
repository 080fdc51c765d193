"""A recurrent layer that reads a memory at every step: an LSTM with Bahdanau's attention around it."""

from __future__ import annotations

import numpy as np

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Any as AnyDim
from ....relay.ir import Expr, Function
from ....relay.op import build
from ..context import Context
from ..operators.product import matmul
from ..operators.recurrence import Layer
from ..operators.recurrent import Projection, Recurrent, add_peepholes, joined_bias, part, recurrent
from ..registry import converter
from ..run_time_axes import pinned, positions_along, size_along
from ..typing import typed


@dataclass
class _AttentionLayer(Layer):
    """An LSTM whose third state, what it attends to, is beside its input.

    Its weights are, beside those of the LSTM: those of the attention in the gates; ``query`` for the hidden state,
    ``keys`` of the memory, ``score`` for the sum of both, the ``memory`` and which steps of it count; ``of_hidden`` and
    ``of_context``, if what it attends to is not the context itself.
    """

    def step(self, x: Expr, state: list[Expr]) -> list[Expr]:
        *inner, attention = state
        h, c = super().step(relay.add(x, relay.nn.dense(attention, self.weights["attention"])), inner)
        context = self.context(h)
        if "of_hidden" in self.weights:
            own = relay.nn.matmul(h, self.weights["of_hidden"])
            context = relay.add(own, relay.nn.matmul(context, self.weights["of_context"]))
        return [h, c, context]

    def context(self, h: Expr) -> Expr:
        """Return the mean of the memory, weighted by how well each step of it fits to a hidden state."""
        query = relay.nn.matmul(h, self.weights["query"])
        both = relay.tanh(relay.add(self.weights["keys"], relay.expand_dims(query, 1)))
        scores = relay.sum(relay.multiply(both, self.weights["score"]), [2])
        if "counts" in self.weights:
            scores = relay.where(self.weights["counts"], scores, self.ctx.constant(-np.inf, "float32"))
        shares = relay.expand_dims(relay.nn.softmax(scores), 1)
        return relay.squeeze(relay.nn.batch_matmul(shares, self.weights["memory"], transpose_b=False), [1])

    def marked(self, loop: Function, is_reverse: bool, has_lengths: bool) -> Function:
        """Return the loop as it is: no kernel knows this layer."""
        return loop


@converter("AttnLSTM", domain="com.microsoft", without=("layout", "output_sequence"))
def attention_lstm(
    ctx: Context,
    x: Expr,
    w: Expr,
    r: Expr,
    b: Expr | None,
    lengths: Expr | None,
    initial_h: Expr | None,
    initial_c: Expr | None,
    p: Expr | None,
    query: Expr,
    memory_weight: Expr,
    score: Expr,
    memory: Expr,
    memory_lengths: Expr | None = None,
    attention_weight: Expr | None = None,
    *,
    options: Recurrent,
    input_forget: int = 0,
) -> list[Expr]:
    """The attention begins with zeros; it goes into the gates behind the features of the input."""
    if ctx.dtype(x) != "float32":
        ctx.fail(f"the input is {ctx.type(x)}; float32 is supported")
    hidden = options.check(ctx, r)
    features, depth = ctx.shape(x)[2], ctx.shape(memory)[2]
    width = depth if attention_weight is None else ctx.shape(attention_weight)[2]
    if not isinstance(features, int) or not isinstance(width, int):
        ctx.fail(f"widths are not known at import: the input is {ctx.type(x)}, the memory {ctx.type(memory)}")
    memory = typed(pinned(ctx, memory, [ctx.shape(x)[1], AnyDim(), AnyDim()]))
    counts = None if memory_lengths is None else _counts(ctx, memory, memory_lengths)

    def one_direction(layer: Layer, index: int) -> Projection:
        layer.input_forget = bool(input_forget)
        layer.more_states = [width]
        gates = part(w, index)
        own, attended = (_columns(gates, *ends) for ends in ((0, features), (features, features + width)))
        rows = matmul(ctx, memory, part(memory_weight, index))
        layer.weights |= {
            "recurrence": part(r, index), "attention": attended, "query": part(query, index), "keys": typed(rows),
            "score": part(score, index), "memory": memory,
        }  # fmt: skip
        if counts is not None:
            layer.weights["counts"] = counts
        if attention_weight is not None:
            whole = part(attention_weight, index)
            first = typed(relay.strided_slice(whole, [0], [hidden], [1]))
            rest = typed(relay.strided_slice(whole, [hidden], [2**31 - 1], [1]))
            layer.weights |= {"of_hidden": first, "of_context": rest}
        add_peepholes(layer, p, index)
        bias = joined_bias(b, index, 4 * hidden)

        def project(inputs: Expr) -> Expr:
            product = relay.nn.dense(inputs, own)
            return product if bias is None else relay.add(product, bias)

        return project

    states = [initial_h, initial_c]
    return recurrent(ctx, "lstm", x, options, one_direction, lengths, states, hidden, _AttentionLayer)


def _columns(matrix: Expr, first: int, end: int) -> Expr:
    return typed(relay.strided_slice(matrix, [first], [end], [1], axes=[1]))


def _counts(ctx: Context, memory: Expr, lengths: Expr) -> Expr:
    """Return which steps of the memory count: bool (batch, steps)."""
    zero, most = ctx.constant(0, "int64"), size_along(ctx, memory, 1)
    number = relay.cast(lengths, "int64")
    fits = relay.all(relay.logical_and(relay.less(zero, number), relay.less_equal(number, most)))
    message = f"{ctx.node.op_type}: memory_seq_lens are 1 to all steps of the memory"
    number = build("dyn.require", number, fits, message=message)
    return typed(relay.less(relay.expand_dims(positions_along(ctx, memory, 1), 0), relay.expand_dims(number, 1)))
