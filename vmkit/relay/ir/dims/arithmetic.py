"""Sums, differences, products, quotients, largest and smallest of dimensions.

What is computed with an unknown dimension is unknown, ints stay ints, and symbolic expressions are simplified to one
form.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import lru_cache, reduce

import tvm
import tvm_ffi
from tvm import tirx

from ..dim import Any, Dim
from .expressions import REMEMBERED, as_expr, int64, is_any, parts, simplify

__all__ = [
    "LARGEST_POWER",
    "add",
    "canonical",
    "ceildiv",
    "floordiv",
    "floormod",
    "maximum",
    "minimum",
    "mul",
    "power",
    "product",
    "select",
    "sub",
]

LARGEST_POWER = 8
"""The largest exponent of a dimension; no size has more factors."""


def _arithmetic(
    on_ints: Callable[[int, int], int], on_symbols: Callable[[tvm.ir.Expr, tvm.ir.Expr], tvm.ir.Expr]
) -> Callable[[Dim, Dim], Dim]:
    def operation(a: Dim, b: Dim) -> Dim:
        if is_any(a) or is_any(b):
            return Any()
        if isinstance(a, int) and isinstance(b, int):
            return int(on_ints(a, b))
        return on_expressions(a, b)

    @lru_cache(REMEMBERED)
    def on_expressions(a: Dim, b: Dim) -> Dim:
        return simplify(on_symbols(int64(a), int64(b)))

    return operation


def _quotient(a: tvm.ir.Expr, b: tvm.ir.Expr) -> tvm.ir.Expr:
    """Return a quotient, of remainders written as what they are left by if that makes it shorter.

    With ``n - n % 2`` as ``n // 2 * 2``, ``(n - n % 2 - 2) // 2 + 1`` is ``n // 2``.
    """
    whole = tirx.floordiv(a, b)
    remainders: list[tirx.FloorMod] = []
    tvm_ffi.structural_walk(a, (tirx.FloorMod, remainders.append))
    if not remainders:
        return whole
    other = tvm_ffi.structural_map(a, (tirx.FloorMod, lambda part: part.a - tirx.floordiv(part.a, part.b) * part.b))
    return min((as_expr(simplify(v)) for v in (whole, tirx.floordiv(as_expr(simplify(other)), b))), key=parts)


add = _arithmetic(operator.add, operator.add)
sub = _arithmetic(operator.sub, operator.sub)
mul = _arithmetic(operator.mul, operator.mul)
floordiv = _arithmetic(operator.floordiv, _quotient)
floormod = _arithmetic(operator.mod, tirx.floormod)
maximum = _arithmetic(max, tirx.max)
minimum = _arithmetic(min, tirx.min)


_OPERATIONS: dict[type, Callable[[Dim, Dim], Dim]] = {
    tirx.Add: add,
    tirx.Sub: sub,
    tirx.Mul: mul,
    tirx.FloorDiv: floordiv,
    tirx.Div: floordiv,  # Dimensions are not negative, so it rounds as floordiv does.
    tirx.Max: maximum,
    tirx.Min: minimum,
}


@lru_cache(REMEMBERED)
def canonical(value: tvm.ir.Expr) -> Dim:
    """Return a dimension in the form in which the functions of this module give it."""
    if isinstance(value, tirx.Cast) and str(value.ty.dtype).startswith("int"):
        inner = _times_whole_number(value.value)
        return canonical(inner) if str(inner.ty.dtype).startswith("int") else simplify(value)
    operation = _OPERATIONS.get(type(value))
    if operation is None or not str(value.ty.dtype).startswith("int"):
        return simplify(value)
    return operation(canonical(value.a), canonical(value.b))


def _times_whole_number(value: tvm.ir.Expr) -> tvm.ir.Expr:
    """Return ``round(float(n) * 2.0)`` as ``n * 2``: so Relay wrote a dimension that is scaled; others as they are."""
    if not isinstance(value, tvm.ir.Call) or value.op.name != "tirx.round" or not isinstance(value.args[0], tirx.Mul):
        return value
    size, scale = value.args[0].a, value.args[0].b
    is_whole = isinstance(scale, tirx.FloatImm) and float(scale.value).is_integer()
    return as_expr(mul(size.value, int(scale.value))) if is_whole and isinstance(size, tirx.Cast) else value


def ceildiv(a: Dim, b: Dim) -> Dim:
    """Return the quotient rounded up."""
    return floordiv(sub(add(a, b), 1), b)


def select(condition: tvm.ir.Expr | bool, a: Dim, b: Dim) -> Dim:
    """Return `a` where a condition over symbolic integers holds, else `b`; both are evaluated."""
    return simplify(tirx.Select(condition, as_expr(a), as_expr(b)))


def power(a: Dim, exponent: int) -> Dim:
    """Return a dimension times itself, so many times in all."""
    if not 0 <= exponent <= LARGEST_POWER:
        raise ValueError(f"a power of a dimension is from 0 to {LARGEST_POWER}, not {exponent}")
    one: Dim = 1
    return reduce(mul, [a] * exponent, one)


def product(dims: Iterable[Dim]) -> Dim:
    """Return the product of dimensions; 1 for none, 0 as soon as one is 0."""
    dims = list(dims)
    if any(isinstance(d, int) and d == 0 for d in dims):
        return 0
    one: Dim = 1
    return reduce(mul, dims, one)
