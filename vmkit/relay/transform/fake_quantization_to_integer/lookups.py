"""Rules of functions of one number, and of softmax: quantised operators stand in their place."""

from __future__ import annotations

from collections.abc import Callable

from ...ir import AffineType, Call, RelayExpr
from ...op.attached import (
    Attached,
    register_fake_quantization_to_integer,
    register_optional_fake_quantization_to_integer,
)
from ...op.registry import build
from .affine import TypeMap

__all__ = ["register_unary_qnn"]


def register_unary_qnn(op_name: str, op: Callable[..., RelayExpr]) -> Attached:
    """Register an operator of one tensor, and the quantised one that stands in its place.

    Parameters
    ----------
    op_name : str
        The operator.
    op : callable
        ``op(x, scale, zero_point, output_scale, output_zero_point)``.
    """

    def unary(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
        source, wanted = types[expr.args[0]], types[expr]
        parameters = source.scale, source.zero_point, wanted.scale, wanted.zero_point
        return [op(expr.args[0], *parameters), wanted]

    return register_fake_quantization_to_integer(op_name, unary)


def _quantized(name: str) -> Callable[..., RelayExpr]:
    return lambda *operands: build(f"qnn.{name}", *operands)


for _name in ("abs", "erf", "exp", "log", "rsqrt", "sigmoid", "sqrt", "tanh"):
    register_unary_qnn(_name, _quantized(_name))


@register_optional_fake_quantization_to_integer("nn.softmax")
def _softmax(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
    source, wanted = types[expr.args[0]], types[expr]
    parameters = source.scale, source.zero_point, wanted.scale, wanted.zero_point
    return [build("qnn.softmax", expr.args[0], *parameters, axis=expr.attrs.axis), wanted]


@register_fake_quantization_to_integer("nn.leaky_relu")
def _leaky_relu(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
    source, wanted = types[expr.args[0]], types[expr]
    parameters = source.scale, source.zero_point, wanted.scale, wanted.zero_point
    return [build("qnn.leaky_relu", expr.args[0], expr.attrs.alpha, *parameters), wanted]
