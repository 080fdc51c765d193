"""A whole recurrent layer as one operator: what FuseRecurrence makes of a loop over steps."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ...ir.types import Type
from ..attrs import Attrs, Bool, attrs_node
from ..registry import OpPattern, operator
from .recurrence import call_layer, layer_type

__all__: list[str] = []


@attrs_node("relay.attrs.LSTMAttrs")
class LSTMAttrs(Attrs):
    """Attributes of nn.contrib_lstm."""

    is_reverse: Bool = False


@operator("nn.contrib_lstm", "data", "weight", "state", "cell", attrs=LSTMAttrs, level=10, pattern=OpPattern.OPAQUE)
class LSTM:
    """One direction of a layer of long short-term memory, on a CPU in float32; its value is (states, state, cell).

    data is (steps, batch, 4 * hidden): inputs times weights plus bias, for the gates input, output, forget, cell.
    weight is (hidden / lanes, hidden, 4, lanes): the recurrence's, transposed, in blocks. state and cell are (batch,
    hidden).
    """

    @staticmethod
    def relation(attrs: LSTMAttrs, data: Type, weight: Type, state: Type, cell: Type) -> Type:
        return layer_type(4, {"data": data, "weight": weight, "state": state, "cell": cell}, ["state", "cell"])

    @staticmethod
    def lower(
        context: Any, attrs: LSTMAttrs, data: relax.Expr, weight: relax.Expr, state: relax.Expr, cell: relax.Expr
    ) -> Any:
        from ....tophub.kernels.lstm import lstm

        _, hidden, _, lanes = context.shape(weight)
        kernel = lstm(hidden, lanes, attrs.is_reverse)
        return call_layer(context, kernel, "lstm", [data, weight, state, cell], 4, 2)
