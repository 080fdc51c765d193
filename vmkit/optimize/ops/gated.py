"""A whole layer of gated recurrent units as one operator: see FuseRecurrence."""

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


@attrs_node("relay.attrs.GRUAttrs")
class GRUAttrs(Attrs):
    """Attributes of nn.contrib_gru: functions of the gates and of what is new."""

    is_reverse: Bool = False
    linear_before_reset: Bool = False
    activations: Str = "sigmoid tanh"
    clip: Float | None = None


_GRU = Layer("gru", 3, ["state"], {"bias": 1}, 2)


@operator(
    "nn.contrib_gru", "data", "weight", "state", "bias", "*lengths", attrs=GRUAttrs, level=10, pattern=OpPattern.OPAQUE
)
class GRU:
    """One direction of a layer of gated recurrent units, on a CPU in float32; its value is (states, state).

    data is (steps, batch, 3 * hidden): inputs times weights plus bias, for the gates update, reset, hidden. weight is
    (blocks, hidden, 3, lanes): the recurrence's, transposed, in blocks. state is (batch, hidden). bias is (hidden,):
    the recurrence's of the hidden gate, which linear_before_reset has the reset gate scale. lengths, if given, is
    (batch,), as that of nn.contrib_rnn.
    """

    @staticmethod
    def relation(attrs: GRUAttrs, *operands: Type) -> Type:
        return _GRU.type(attrs, operands)

    @staticmethod
    def lower(context: LowerContext, attrs: GRUAttrs, *operands: relax.Expr) -> tuple[relax.Expr, ...]:
        from ...kernels.gru import GRUShape, gru

        shape = GRUShape(**_GRU.known(context, attrs, operands), linear_before_reset=attrs.linear_before_reset)
        return _GRU.call(context, partial(gru, shape), operands)
