"""A whole layer of long short-term memory with a quantised recurrence as one operator: see FuseRecurrence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tvm import relax

from ..._dataclasses import dataclass
from ...errors import TypeCheckError
from ...relay.ir.types import TensorType, Type
from ...relay.op.attrs import Attrs, Bool, Float, Int, Str, attrs_node
from ...relay.op.registry import OpPattern, operator
from .recurrence import Layer

if TYPE_CHECKING:
    from ...relay.lower.context import LowerContext

__all__: list[str] = []

_GATES = 4
_LANES = (8, 16)
_GROUPS = (2, 4)


@attrs_node("relay.attrs.QuantizedLSTMAttrs")
class QuantizedLSTMAttrs(Attrs):
    """Attributes of nn.contrib_quantized_lstm: those of nn.contrib_lstm, and how many hidden units there are."""

    hidden: Int = 1
    is_reverse: Bool = False
    activations: Str = "sigmoid tanh tanh"
    clip: Float | None = None
    has_peepholes: Bool = False
    input_forget: Bool = False


@dataclass(frozen=True)
class _QuantizedLayer(Layer):
    hidden: int = 1

    @property
    def weights(self) -> Mapping[str, tuple[int, str]]:
        return {"weight": (5, "int8"), "factors": (3, "float32"), "totals": (3, "int32")}

    def hidden_of(self, weights: Sequence[TensorType]) -> int:
        lanes = next((n for n in _LANES if n == weights[0].shape[3]), 0)
        if not 0 < lanes <= self.hidden:
            raise TypeCheckError(f"weight must have 8 or 16 lanes, as many as {self.hidden} hidden units at most")
        group = next((n for n in _GROUPS if n == weights[0].shape[4]), _GROUPS[-1])
        blocks = -(-self.hidden // lanes)
        wanted = [blocks, -(-self.hidden // group), _GATES, lanes, group], *[[blocks, _GATES, lanes]] * 2
        for name, tensor, shape in zip(self.weights, weights, wanted, strict=True):
            if list(tensor.shape) != shape:
                raise TypeCheckError(f"{name} must have the shape {tuple(shape)}, not {tuple(tensor.shape)}")
        return self.hidden


def _layer(attrs: QuantizedLSTMAttrs) -> _QuantizedLayer:
    vectors = {"peephole": 3} if attrs.has_peepholes else {}
    return _QuantizedLayer("quantized_lstm", _GATES, ["state", "cell"], vectors, 3, False, hidden=int(attrs.hidden))


@operator(
    "nn.contrib_quantized_lstm",
    "data",
    "weight",
    "factors",
    "totals",
    "state",
    "cell",
    "*peephole",
    attrs=QuantizedLSTMAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
)
class QuantizedLSTM:
    """One direction of a layer of long short-term memory with quantised states; its value is (states, state, cell).

    At each step the states of all rows of the batch are mapped to uint8 by the range of their values, 0 included. data,
    state, cell and the peephole, which is there with has_peepholes, are those of nn.contrib_lstm; there are no lengths.
    weight is (blocks, groups, 4, lanes, 4 or 2): the recurrence's integers, in blocks of hidden units and groups of as
    many states as an instruction multiplies for a sum, which are filled up with zeros. factors and totals are (blocks,
    4, lanes): what the weight's integers are multiplied with, and their sums.
    """

    @staticmethod
    def relation(attrs: QuantizedLSTMAttrs, *operands: Type) -> Type:
        return _layer(attrs).type(attrs, operands)

    @staticmethod
    def lower(context: LowerContext, attrs: QuantizedLSTMAttrs, *operands: relax.Expr) -> tuple[relax.Expr, ...]:
        from ...kernels.lstm import LSTMShape
        from ...kernels.quantized_lstm import quantized_lstm

        layer = _layer(attrs)
        shape = LSTMShape(
            **layer.known(context, attrs, operands),
            has_peepholes=attrs.has_peepholes,
            input_forget=attrs.input_forget,
        )
        group = int(operands[1].ty.shape[4])
        return layer.call(context, partial(quantized_lstm, shape, group), operands)
