"""Activations of PyTorch over Relax's operators, of which PyTorch would make several simpler ones each."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tvm import relax

from .arguments import Converter, Importing, arguments_of, cast_to, dtype_of

if TYPE_CHECKING:
    from torch import fx

__all__ = ["ACTIVATIONS", "safe_softmax"]

_Emit = Callable[[relax.Expr], relax.Expr]
_Number = Callable[[float], relax.Expr]


def _activated(importer: Importing, node: fx.Node, *, function: Callable[..., relax.Expr]) -> relax.Expr:
    """Return a function of a tensor's elements, and of the numbers beside it; of 16 bits computed in float32."""
    data, *numbers = arguments_of(node)
    dtype = dtype_of(node)
    computed = "float64" if dtype == "float64" else "float32"
    x = cast_to(importer, importer.env[data], computed)
    made = function(importer.block_builder.emit, lambda value: relax.const(value, computed), x, *numbers)
    return cast_to(importer, importer.block_builder.emit(made), dtype)


def _gate(emit: _Emit, number: _Number, x: relax.Expr) -> relax.Expr:
    """Return a line from 0 at -3 to 1 at 3, and these bounds beside it."""
    return relax.op.divide(emit(relax.op.clip(emit(relax.op.add(x, number(3))), 0, 6)), number(6))


def _gated(emit: _Emit, number: _Number, x: relax.Expr) -> relax.Expr:
    product = emit(relax.op.multiply(x, emit(relax.op.clip(emit(relax.op.add(x, number(3))), 0, 6))))
    return relax.op.divide(product, number(6))


def _weighed(emit: _Emit, _: _Number, x: relax.Expr) -> relax.Expr:
    return relax.op.multiply(x, emit(relax.op.sigmoid(x)))


def _leaking(_: _Emit, __: _Number, x: relax.Expr, slope: float = 0.01) -> relax.Expr:
    return relax.op.nn.leakyrelu(x, slope)


def safe_softmax(emit: _Emit, x: relax.Expr, axis: int) -> relax.Expr:
    """Return a softmax along an axis whose rows are 0 where all that they are made of is minus infinity."""
    infinite = relax.const(-math.inf, x.ty.dtype)
    is_nothing = emit(relax.op.equal(emit(relax.op.max(x, axis, keepdims=True)), infinite))
    return emit(relax.op.where(is_nothing, relax.const(0, x.ty.dtype), emit(relax.op.nn.softmax(x, axis))))


def _safe_softmax(importer: Importing, node: fx.Node) -> relax.Expr:
    data, axis, *_ = arguments_of(node)
    dtype = dtype_of(node)
    x = cast_to(importer, importer.env[data], "float64" if dtype == "float64" else "float32")
    return cast_to(importer, safe_softmax(importer.block_builder.emit, x, axis), dtype)


def _activation(function: Callable[..., relax.Expr]) -> Converter:
    return partial(_activated, function=function)


ACTIVATIONS: dict[str, Converter] = {
    "_safe_softmax.default": _safe_softmax,
    "hardsigmoid.default": _activation(_gate),
    "hardswish.default": _activation(_gated),
    "leaky_relu.default": _activation(_leaking),
    "silu.default": _activation(_weighed),
}
"""The converters, by the names of PyTorch's operators."""
