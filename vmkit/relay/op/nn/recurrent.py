"""A whole recurrent layer as one operator: what FuseRecurrence makes of a loop over steps."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, TupleType, Type
from ..attrs import Attrs, Bool, attrs_node
from ..elementwise import require_tensor
from ..registry import OpPattern, operator
from .layout import require_rank

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
        named = {"data": data, "weight": weight, "state": state, "cell": cell}
        ranks = {"data": 3, "weight": 4, "state": 2, "cell": 2}
        tensors = {name: require_tensor(ty, name) for name, ty in named.items()}
        for name, tensor in tensors.items():
            require_rank(tensor, ranks[name], name)
            if tensor.dtype != "float32":
                raise TypeCheckError(f"{name} must be float32, not {tensor.dtype}")
        blocks, hidden, gates, lanes = tensors["weight"].shape
        if not all(isinstance(d, int) for d in (blocks, hidden, lanes)) or gates != 4 or blocks * lanes != hidden:
            raise TypeCheckError(f"weight must be (hidden / lanes, hidden, 4, lanes), not {tensors['weight']}")
        steps, batch, width = tensors["data"].shape
        for name, size, want in (
            ("data", width, 4 * hidden),
            ("state", tensors["state"].shape[1], hidden),
            ("cell", tensors["cell"].shape[1], hidden),
            ("state", tensors["state"].shape[0], batch),
            ("cell", tensors["cell"].shape[0], batch),
        ):
            if dims.equal(size, want) is False:
                raise TypeCheckError(f"a dimension of {name} is {size} where {want} is expected")
        last = TensorType([batch, hidden], "float32")
        return TupleType([TensorType([steps, batch, hidden], "float32"), last, last])

    @staticmethod
    def lower(
        context: Any, attrs: LSTMAttrs, data: relax.Expr, weight: relax.Expr, state: relax.Expr, cell: relax.Expr
    ) -> Any:
        from ....tophub.kernels.lstm import lstm

        steps, batch, width = context.shape(data)
        _, hidden, _, lanes = context.shape(weight)
        checks = [(width, 4 * hidden)]
        for each in (state, cell):
            checks += list(zip(context.shape(each), (batch, hidden), strict=True))
        for have, want in checks:
            context.require_equal(have, want, "nn.contrib_lstm: a dimension is {actual} where {expected} is expected")
        kernel = lstm(hidden, lanes, attrs.is_reverse)
        name = context.builder.add_func(kernel.with_attr("op_pattern", int(OpPattern.OPAQUE)), "lstm")
        shapes = [[steps, batch, hidden], [batch, hidden], [batch, hidden]]
        types = [relax.TensorType([dims.as_expr(d) for d in shape], "float32") for shape in shapes]
        value = context.emit(relax.call_tir(name, [data, weight, state, cell], types))
        return tuple(context.emit(relax.TupleGetItem(value, i)) for i in range(3))
