"""Operators of single elements."""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm import ir

from ...relay.formulas import gelu, gelu_by_tanh, whole_power
from ...relay.ir import Constant, Expr
from ...relay.op.registry import build
from .operands import Convert, Operands

__all__ = ["LOGICAL", "NUMERIC"]


def _same(name: str, call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    return build(name, *args)


def _clipped(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    data, low, high = args
    return build("clip", data, a_min=float(low), a_max=float(high))


def _leaking(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    return build("nn.leaky_relu", *args, alpha=float(call.attrs.alpha))


def _leaking_by_channel(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    return build("nn.prelu", *args, axis=int(call.attrs.axis))


def _silu(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    return build("multiply", args[0], build("sigmoid", args[0]))


def _squared(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    return build("multiply", args[0], args[0])


def _gelu(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    return gelu(args[0], "float32")


def _gelu_by_tanh(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    return gelu_by_tanh(args[0], "float32")


def _power(call: ir.Call, args: list[Any], operands: Operands) -> Expr:
    x, exponent = args
    is_scalar = isinstance(exponent, Constant) and exponent.data.shape == ()
    return (whole_power(x, float(exponent.data.numpy())) if is_scalar else None) or build("power", x, exponent)


def _of_truths(name: str, call: ir.Call, args: list[Any], operands: Operands) -> Expr | None:
    """Return an operator of truth values; of numbers Relax has another one of the same name."""
    return build(name, *args) if all(str(arg.ty.dtype) == "bool" for arg in call.args) else None


_NUMERIC = (
    *("add", "multiply", "divide", "maximum", "minimum"),
    *("sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "negative", "abs", "erf", "sin", "cos", "nn.relu"),
)
_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")

NUMERIC: dict[str, Convert] = {
    **{f"relax.{name}": partial(_same, name) for name in _NUMERIC},
    "relax.clip": _clipped,
    "relax.nn.gelu": _gelu,
    "relax.nn.gelu_tanh": _gelu_by_tanh,
    "relax.nn.leakyrelu": _leaking,
    "relax.nn.prelu": _leaking_by_channel,
    "relax.nn.silu": _silu,
    "relax.power": _power,
    "relax.square": _squared,
}
LOGICAL: dict[str, Convert] = {
    **{f"relax.{name}": partial(_same, name) for name in (*_COMPARISONS, "where")},
    **{f"relax.{name}": partial(_of_truths, name) for name in ("logical_and", "logical_or", "logical_not")},
}
