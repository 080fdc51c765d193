"""Rules of operators of two tensors that broadcast against each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....errors import UnsupportedOperatorError
from ...ir import AffineType, Call, Constant, RelayExpr, TensorAffineType, const
from ...op.attached import Attached, register_fake_quantization_to_integer
from ...op.registry import build
from .affine import (
    TypeMap,
    approx_equal,
    is_per_tensor,
    is_zero,
    rank_of,
    requantized,
    require_per_tensor,
    same_axis,
)

__all__ = ["fitting_type", "quantized_constant", "quantized_sum", "register_binary_identity", "register_binary_qnn"]

Operands = tuple[RelayExpr, RelayExpr]
Types = tuple[TensorAffineType, TensorAffineType]


def quantized_constant(call: Call, value: RelayExpr, ty: TensorAffineType) -> RelayExpr:
    """Return a constant of reals as integers of an affine type; UnsupportedOperatorError for anything else."""
    if not isinstance(value, Constant) or not str(value.data.dtype).startswith(("float", "bfloat")):
        raise UnsupportedOperatorError(
            f"{call.op.name} with an operand that is neither quantised nor a constant of reals"
        )
    if str(value.data.dtype) != "float32":
        value = const(value.data.numpy().astype("float32"))
    return build("qnn.quantize", value, ty.scale, ty.zero_point, axis=ty.axis, out_dtype=ty.dtype)


def _operands(expr: Call, types: TypeMap) -> tuple[Operands, Types, TensorAffineType]:
    """Return the operands of a call as integers, their types, and that of the result."""
    left, right = expr.args
    known: list[Any] = [types.get(left), types.get(right)]
    left_t, right_t, out_t = *known, types[expr]
    if left_t is None and right_t is None:
        raise UnsupportedOperatorError(f"{expr.op.name} of two operands that are not quantised")
    if left_t is None:
        left_t = _type_for(expr, left, right, right_t)
        left = quantized_constant(expr, left, left_t)
    if right_t is None:
        right_t = _type_for(expr, right, left, left_t)
        right = quantized_constant(expr, right, right_t)
    return (left, right), (left_t, right_t), out_t if left_t.dtype == out_t.dtype else left_t


def _type_for(expr: Call, value: RelayExpr, other: RelayExpr, ty: TensorAffineType) -> TensorAffineType:
    """Return the affine type for a constant beside a quantised operand: that of the operand where it can hold it."""
    if not isinstance(value, Constant):
        return ty
    rank = rank_of(value)
    if not is_per_tensor(ty):
        axis = ty.axis % rank_of(other) - rank_of(other)
        if rank < -axis:
            raise UnsupportedOperatorError(f"{expr.op.name} of a constant and integers with a scale for each channel")
        return TensorAffineType(ty.scale, ty.zero_point, ty.dtype, axis % rank)
    return fitting_type(value, ty)


def fitting_type(value: Constant, ty: TensorAffineType) -> TensorAffineType:
    """Return an affine type for a constant of reals: the one given, where it can hold them."""
    if ty.dtype == "int32" or not (isinstance(ty.scale, Constant) and isinstance(ty.zero_point, Constant)):
        return ty
    reals, limits = value.data.numpy().astype("float64"), np.iinfo(ty.dtype)
    integers = np.round(reals / ty.scale.data.numpy().item()) + ty.zero_point.data.numpy().item()
    if integers.size == 0 or (integers.min() >= limits.min and integers.max() <= limits.max):
        return ty
    # From the least to the greatest number and 0.
    low, high = min(reals.min(), 0.0), max(reals.max(), 0.0)
    scale = (high - low) / (limits.max - limits.min)
    zero_point = int(limits.min - round(low / scale))
    return TensorAffineType(const(np.float32(scale)), const(zero_point, "int32"), ty.dtype)


def quantized_sum(name: str, sides: Operands, known: Types, out_t: TensorAffineType) -> list[RelayExpr | AffineType]:
    """Return a quantised operator of two operands, whose result has an affine type."""
    if not is_per_tensor(out_t):
        raise UnsupportedOperatorError(f"{name} whose result has scales for each channel")
    (left_t, right_t) = known
    parameters = left_t.scale, left_t.zero_point, right_t.scale, right_t.zero_point, out_t.scale, out_t.zero_point
    return [build(name, *sides, *parameters, lhs_axis=left_t.axis, rhs_axis=right_t.axis), out_t]


def _is_plain(sides: Operands, known: Types) -> bool:
    """Say whether sums of the integers stand for sums of the reals, as with the bias of a product."""
    (left, right), (left_t, right_t) = sides, known
    return (
        left_t.dtype == right_t.dtype == "int32"
        and approx_equal(left_t.scale, right_t.scale)
        and is_zero(left_t.zero_point)
        and is_zero(right_t.zero_point)
        and (is_per_tensor(left_t) or same_axis(left_t, left, right_t.axis, right))
    )


def register_binary_qnn(op_name: str, op: Callable[..., RelayExpr]) -> Attached:
    """Register an operator of two tensors, and the quantised one that stands in its place.

    Parameters
    ----------
    op_name : str
        The operator.
    op : callable
        ``op(lhs, rhs, lhs_scale, lhs_zero_point, rhs_scale, rhs_zero_point, output_scale, output_zero_point, lhs_axis,
        rhs_axis)``.
    """

    def binary(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
        sides, known, out_t = _operands(expr, types)
        if op_name in ("add", "subtract") and _is_plain(sides, known):
            wider = 0 if rank_of(sides[0]) >= rank_of(sides[1]) else 1
            return [build(op_name, *sides), known[wider]]
        if op_name == "multiply" and out_t.dtype == "int32":
            raise UnsupportedOperatorError("multiply of sums in int32: the product of the integers overflows")
        require_per_tensor(expr, out_t)
        (left_t, right_t) = known
        parameters: Sequence[Any] = (
            *(left_t.scale, left_t.zero_point, right_t.scale, right_t.zero_point),
            *(out_t.scale, out_t.zero_point, left_t.axis, right_t.axis),
        )
        return [op(*sides, *parameters), out_t]

    return register_fake_quantization_to_integer(op_name, binary)


register_binary_qnn("add", lambda *given: build("qnn.add", *given))
register_binary_qnn("subtract", lambda *given: build("qnn.subtract", *given))
register_binary_qnn("multiply", lambda *given: build("qnn.mul", *given))


def register_binary_identity(op_name: str, op: Callable[[RelayExpr, RelayExpr], RelayExpr]) -> Attached:
    """Register an operator of two tensors that does to integers of one affine type what it does to the reals."""

    def binary(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
        sides, known, out_t = _operands(expr, types)
        require_per_tensor(expr, out_t)
        left, right = (requantized(s, t, out_t) for s, t in zip(sides, known, strict=True))
        return [op(left, right), out_t]

    return register_fake_quantization_to_integer(op_name, binary)


register_binary_identity("minimum", lambda x, y: build("minimum", x, y))
register_binary_identity("maximum", lambda x, y: build("maximum", x, y))
