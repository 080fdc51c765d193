"""Operators that take a shape or data type from another tensor, where it is known."""

from __future__ import annotations

from ...ir import Call, RelayExpr
from ...op.registry import build
from ..known_type import type_of
from .matching import rule, static_shape

__all__: list[str] = []


@rule("zeros_like", "ones_like")
def concrete_fill(call: Call) -> RelayExpr | None:
    """``zeros_like(x)`` is ``zeros`` of its shape."""
    shape = static_shape(call)
    name = call.op.name.removesuffix("_like")
    return None if shape is None else build(name, shape=shape, dtype=type_of(call).dtype)


@rule("full_like")
def concrete_full(call: Call) -> RelayExpr | None:
    """``full_like(x, value)`` is ``full`` of its shape."""
    shape = static_shape(call)
    return None if shape is None else build("full", call.args[1], shape=shape, dtype=type_of(call).dtype)


@rule("reshape_like")
def concrete_reshape(call: Call) -> RelayExpr | None:
    """``reshape_like(x, y)`` is ``reshape`` to the result's shape."""
    shape = static_shape(call)
    return None if shape is None else build("reshape", call.args[0], newshape=shape)


@rule("collapse_sum_like")
def concrete_collapse_sum(call: Call) -> RelayExpr | None:
    """``collapse_sum_like(x, y)`` is ``collapse_sum_to`` the shape of y."""
    shape = static_shape(call)
    return None if shape is None else build("collapse_sum_to", call.args[0], shape)


@rule("broadcast_to_like")
def concrete_broadcast(call: Call) -> RelayExpr | None:
    """``broadcast_to_like(x, y)`` is ``broadcast_to`` the shape of y."""
    shape = static_shape(call)
    return None if shape is None else build("broadcast_to", call.args[0], shape)


@rule("cast_like")
def concrete_cast(call: Call) -> RelayExpr | None:
    """``cast_like(x, y)`` is ``cast`` to the data type of y."""
    return build("cast", call.args[0], dtype=type_of(call).dtype)
