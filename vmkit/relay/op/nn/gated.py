"""A whole layer of gated recurrent units as one operator: what FuseRecurrence makes of a loop over steps."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ...ir.types import Type
from ..attrs import Attrs, Bool, attrs_node
from ..registry import OpPattern, operator
from .recurrence import call_layer, layer_type

__all__: list[str] = []


@attrs_node("relay.attrs.GRUAttrs")
class GRUAttrs(Attrs):
    """Attributes of nn.contrib_gru."""

    is_reverse: Bool = False
    linear_before_reset: Bool = False


@operator("nn.contrib_gru", "data", "weight", "bias", "state", attrs=GRUAttrs, level=10, pattern=OpPattern.OPAQUE)
class GRU:
    """One direction of a layer of gated recurrent units, on a CPU in float32; its value is (states, state).

    data is (steps, batch, 3 * hidden): inputs times weights plus bias, for the gates update, reset, hidden. weight is
    (hidden / lanes, hidden, 3, lanes): the recurrence's, transposed, in blocks. bias is (hidden,): the recurrence's of
    the hidden gate, which linear_before_reset has the reset gate scale. state is (batch, hidden).
    """

    @staticmethod
    def relation(attrs: GRUAttrs, data: Type, weight: Type, bias: Type, state: Type) -> Type:
        return layer_type(3, {"data": data, "weight": weight, "bias": bias, "state": state}, ["state"])

    @staticmethod
    def lower(
        context: Any, attrs: GRUAttrs, data: relax.Expr, weight: relax.Expr, bias: relax.Expr, state: relax.Expr
    ) -> Any:
        from ....tophub.kernels.gru import gru

        _, hidden, _, lanes = context.shape(weight)
        kernel = gru(hidden, lanes, attrs.is_reverse, attrs.linear_before_reset)
        return call_layer(context, kernel, "gru", [data, weight, bias, state], 3, 1)
