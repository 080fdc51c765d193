"""Sums, products and quotients with constants."""

from __future__ import annotations

import numpy as np

from ...ir import Call, Constant, Expr, RelayExpr, const, is_call
from ...op.registry import build
from ..known_type import type_of
from .matching import constant_array, full_value, is_constant, rule, same_type

__all__: list[str] = []

_IDENTITIES = {"add": 0, "subtract": 0, "multiply": 1, "divide": 1}


@rule(*_IDENTITIES)
def identity_arithmetic(call: Call) -> RelayExpr | None:
    """``x + 0``, ``x - 0``, ``x * 1`` and ``x / 1`` are x, where it has the result's shape."""
    pairs = [(call.args[0], call.args[1])]
    if call.op.name in ("add", "multiply"):
        pairs.append((call.args[1], call.args[0]))
    for x, other in pairs:
        if full_value(other) == _IDENTITIES[call.op.name] and same_type(x, call):
            return x
    return None


@rule("divide")
def rsqrt_of_sqrt(call: Call) -> RelayExpr | None:
    """``c / sqrt(x)`` is ``c * rsqrt(x)``."""
    numerator, root = call.args
    if not is_call(root, "sqrt") or "float" not in type_of(call).dtype:
        return None
    return build("multiply", numerator, build("rsqrt", root.args[0]))


@rule("add")
def sum_of_same(call: Call) -> RelayExpr | None:
    """``x + x`` is ``x * 2``."""
    x, y = call.args
    dtype = type_of(call).dtype
    if not x.same_as(y) or is_constant(x) or dtype == "bool":
        return None
    return build("multiply", x, const(2, dtype))


_OF_TWO = """
    add subtract multiply divide maximum minimum power mod floor_divide floor_mod
    equal not_equal less less_equal greater greater_equal
"""


@rule(*_OF_TWO.split())
def full_operand(call: Call) -> RelayExpr | None:
    """A tensor of equal elements as an operand is a scalar, where the other operand has the result's shape."""
    for position, full in enumerate(call.args):
        other = call.args[1 - position]
        value = full_value(full)
        if value is None or isinstance(full, Constant) or list(type_of(other).shape) != list(type_of(call).shape):
            continue
        if not _is_static(call):
            continue
        args = list(call.args)
        args[position] = const(np.asarray(value).astype(type_of(full).dtype))
        return Call(call.op, args, call.attrs, span=call.span)
    return None


def _is_static(call: Call) -> bool:
    return all(isinstance(d, int) for d in type_of(call).shape)


def _with_constant(call: RelayExpr, name: str) -> tuple[Expr, Constant] | None:
    """Return the operands of a sum or product of one constant, the constant last."""
    if not is_call(call, name):
        return None
    x, y = call.args
    if is_constant(x) == is_constant(y):
        return None
    return (y, x) if is_constant(x) else (x, y)


def _combined(name: str, a: Constant, b: Constant) -> Constant | None:
    """Return a sum or product of constants, unless it is larger than both."""
    x, y = constant_array(a), constant_array(b)
    assert x is not None and y is not None
    if x.dtype != y.dtype or x.dtype == bool or not np.issubdtype(x.dtype, np.number):
        return None
    with np.errstate(all="ignore"):
        value = np.add(x, y) if name == "add" else np.multiply(x, y)
    return const(np.asarray(value, x.dtype)) if value.size <= max(x.size, y.size) else None


@rule("add", "multiply")
def adjacent_constants(call: Call) -> RelayExpr | None:
    """``(x + c1) + c2`` is ``x + (c1 + c2)``; so with products."""
    name = call.op.name
    outer = _with_constant(call, name)
    inner = None if outer is None else _with_constant(outer[0], name)
    if outer is None or inner is None:
        return None
    constant = _combined(name, inner[1], outer[1])
    return None if constant is None else build(name, inner[0], constant)


@rule("multiply")
def product_of_sum(call: Call) -> RelayExpr | None:
    """``(x + c1) * c2`` is ``x * c2 + c1 * c2``."""
    outer = _with_constant(call, "multiply")
    inner = None if outer is None else _with_constant(outer[0], "add")
    if outer is None or inner is None:
        return None
    constant = _combined("multiply", inner[1], outer[1])
    return None if constant is None else build("add", build("multiply", inner[0], outer[1]), constant)
