"""A whole layer of gated recurrent units as one operator: what FuseRecurrence makes of a loop over steps."""

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
        named = {"data": (data, 3), "weight": (weight, 4), "bias": (bias, 1), "state": (state, 2)}
        tensors = {name: require_tensor(ty, name) for name, (ty, _) in named.items()}
        for name, tensor in tensors.items():
            require_rank(tensor, named[name][1], name)
            if tensor.dtype != "float32":
                raise TypeCheckError(f"{name} must be float32, not {tensor.dtype}")
        blocks, hidden, gates, lanes = tensors["weight"].shape
        if not all(isinstance(d, int) for d in (blocks, hidden, lanes)) or gates != 3 or blocks * lanes != hidden:
            raise TypeCheckError(f"weight must be (hidden / lanes, hidden, 3, lanes), not {tensors['weight']}")
        steps, batch, width = tensors["data"].shape
        for name, size, want in (
            ("data", width, 3 * hidden),
            ("bias", tensors["bias"].shape[0], hidden),
            ("state", tensors["state"].shape[1], hidden),
            ("state", tensors["state"].shape[0], batch),
        ):
            if dims.equal(size, want) is False:
                raise TypeCheckError(f"a dimension of {name} is {size} where {want} is expected")
        return TupleType([TensorType([steps, batch, hidden], "float32"), TensorType([batch, hidden], "float32")])

    @staticmethod
    def lower(
        context: Any, attrs: GRUAttrs, data: relax.Expr, weight: relax.Expr, bias: relax.Expr, state: relax.Expr
    ) -> Any:
        from ....tophub.kernels.gru import gru

        steps, batch, width = context.shape(data)
        _, hidden, _, lanes = context.shape(weight)
        checks = [(width, 3 * hidden), (context.shape(bias)[0], hidden)]
        checks += list(zip(context.shape(state), (batch, hidden), strict=True))
        for have, want in checks:
            context.require_equal(have, want, "nn.contrib_gru: a dimension is {actual} where {expected} is expected")
        kernel = gru(hidden, lanes, attrs.is_reverse, attrs.linear_before_reset)
        name = context.builder.add_func(kernel.with_attr("op_pattern", int(OpPattern.OPAQUE)), "gru")
        types = [
            relax.TensorType([dims.as_expr(d) for d in shape], "float32")
            for shape in ([steps, batch, hidden], [batch, hidden])
        ]
        value = context.emit(relax.call_tir(name, [data, weight, bias, state], types))
        return tuple(context.emit(relax.TupleGetItem(value, i)) for i in range(2))
