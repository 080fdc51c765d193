"""The table of rules, and what they ask of expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

import numpy as np
import tvm_ffi

from ...ir import Call, Constant, RelayExpr, TensorType, Type, is_call
from ...ir.dims import is_any
from ..known_type import type_of

__all__ = [
    "RULES",
    "constant_array",
    "full_value",
    "is_constant",
    "rule",
    "same_type",
    "scalar_value",
    "static_shape",
]

Rule = Callable[[Call], RelayExpr | None]

RULES: dict[str, list[Rule]] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for calls of operators.

    A rule takes a call whose parts have types, and returns an expression of the same type and value, or None.
    """

    def decorate(function: Rule) -> Rule:
        for name in names:
            RULES.setdefault(name, []).append(function)
        return function

    return decorate


def is_constant(expr: RelayExpr) -> TypeGuard[Constant]:
    """Say whether an expression is a constant."""
    return isinstance(expr, Constant)


def constant_array(expr: RelayExpr) -> np.ndarray | None:
    """Return the value of a constant."""
    return expr.data.numpy() if isinstance(expr, Constant) else None


def scalar_value(expr: RelayExpr) -> float | int | None:
    """Return the value of a constant of rank 0."""
    value = constant_array(expr)
    return None if value is None or value.shape else value[()].item()


def full_value(expr: RelayExpr) -> float | int | None:
    """Return the value that all elements of an expression have: of a scalar constant, zeros, ones or full."""
    if is_call(expr, "zeros", "zeros_like"):
        return 0
    if is_call(expr, "ones", "ones_like"):
        return 1
    if is_call(expr, "full"):
        return scalar_value(expr.args[0])
    return scalar_value(expr.args[1]) if is_call(expr, "full_like") else scalar_value(expr)


def same_type(a: RelayExpr, b: RelayExpr) -> bool:
    """Say whether two expressions have one type, all of whose dimensions are known or named."""
    first, second = type_of(a), type_of(b)
    if a.same_as(b):
        return True
    return (
        tvm_ffi.structural_equal(first, second) and isinstance(first, TensorType) and not any(map(is_any, first.shape))
    )


def static_shape(expr: RelayExpr) -> list[int] | None:
    """Return the shape of a tensor, or None where a dimension is not known."""
    ty: Type = type_of(expr)
    if not isinstance(ty, TensorType) or not all(isinstance(d, int) for d in ty.shape):
        return None
    return [int(d) for d in ty.shape]
