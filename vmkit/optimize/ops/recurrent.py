"""A whole layer of long short-term memory, or a plain recurrent one, as one operator: see FuseRecurrence."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tvm import relax

from ...relay.ir.types import Type
from ...relay.op.attrs import Attrs, Bool, Float, Str, attrs_node
from ...relay.op.registry import OpPattern, operator
from .recurrence import Layer

if TYPE_CHECKING:
    from ...relay.lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.RNNAttrs")
class RNNAttrs(Attrs):
    """Attributes of nn.contrib_rnn.

    ``activations`` holds names of functions as vmkit.kernels.gate_functions reads them. ``clip`` is how far from
    0 their arguments may be. These and ``is_reverse`` are the same for all recurrent layers.
    """

    is_reverse: Bool = False
    activations: Str = "tanh"
    clip: Float | None = None


_RNN = Layer("rnn", 1, ["state"], {}, 1)


@operator("nn.contrib_rnn", "data", "weight", "state", "*lengths", attrs=RNNAttrs, level=10, pattern=OpPattern.OPAQUE)
class RNN:
    """One direction of a plain recurrent layer, on a CPU in float32; its value is (states, state).

    data is (steps, batch, hidden): inputs times weights plus bias. weight is (blocks, hidden, 1, lanes): the
    recurrence's, transposed, in blocks. state is (batch, hidden). lengths, if given, is (batch,): how many steps each
    row has. Beyond its length a row's state stays and what it gives is 0; reversed, it starts at its own end. A length
    below 0 counts as 0, and one beyond the steps as all of them.
    """

    @staticmethod
    def relation(attrs: RNNAttrs, *operands: Type) -> Type:
        return _RNN.type(attrs, operands)

    @staticmethod
    def lower(context: LowerContext, attrs: RNNAttrs, *operands: relax.Expr) -> tuple[relax.Expr, ...]:
        from ...kernels.rnn import RNNShape, rnn

        return _RNN.call(context, partial(rnn, RNNShape(**_RNN.known(context, attrs, operands))), operands)


@attrs_node("relay.attrs.LSTMAttrs")
class LSTMAttrs(Attrs):
    """Attributes of nn.contrib_lstm: functions of the gates, of the cell's input and of its output."""

    is_reverse: Bool = False
    activations: Str = "sigmoid tanh tanh"
    clip: Float | None = None
    has_peepholes: Bool = False
    input_forget: Bool = False


def _lstm(attrs: LSTMAttrs) -> Layer:
    return Layer("lstm", 4, ["state", "cell"], {"peephole": 3} if attrs.has_peepholes else {}, 3)


@operator(
    "nn.contrib_lstm",
    "data",
    "weight",
    "state",
    "cell",
    "*optional",
    attrs=LSTMAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
)
class LSTM:
    """One direction of a layer of long short-term memory, on a CPU in float32; its value is (states, state, cell).

    data is (steps, batch, 4 * hidden): inputs times weights plus bias, for the gates input, output, forget, cell.
    weight is (blocks, hidden, 4, lanes): the recurrence's, transposed, in blocks. state and cell are (batch, hidden).
    What may follow is, with has_peepholes, a vector (3 * hidden,) that the cell is multiplied with for the gates input,
    output, forget, and then lengths (batch,) as those of nn.contrib_rnn. With input_forget the forget gate is 1 less
    the input gate.
    """

    @staticmethod
    def relation(attrs: LSTMAttrs, *operands: Type) -> Type:
        return _lstm(attrs).type(attrs, operands)

    @staticmethod
    def lower(context: LowerContext, attrs: LSTMAttrs, *operands: relax.Expr) -> tuple[relax.Expr, ...]:
        from ...kernels.lstm import LSTMShape, lstm

        layer = _lstm(attrs)
        shape = LSTMShape(
            **layer.known(context, attrs, operands),
            has_peepholes=attrs.has_peepholes,
            input_forget=attrs.input_forget,
        )
        return layer.call(context, partial(lstm, shape), operands)
