"""Dequantisation before what only asks for the order of numbers."""

from __future__ import annotations

from ...ir import Call, RelayExpr, is_call
from .matching import rule, scalar_value

__all__: list[str] = []


@rule("argmax", "argmin", "argsort")
def order_of_dequantized(call: Call) -> RelayExpr | None:
    """A positive scale and an offset, the same for all elements, leave their order as it is."""
    data = call.args[0]
    if not is_call(data, "qnn.dequantize"):
        return None
    scale = scalar_value(data.args[1])
    if scale is None or scale <= 0 or scalar_value(data.args[2]) is None:
        return None
    return Call(call.op, [data.args[0], *call.args[1:]], call.attrs, span=call.span)
