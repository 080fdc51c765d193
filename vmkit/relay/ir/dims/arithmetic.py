"""Sums, differences, products, quotients, largest and smallest of dimensions.

What is computed with an unknown dimension is unknown, ints stay ints, and symbolic expressions are simplified to one
form.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import lru_cache, reduce
from typing import TypeGuard

import tvm
import tvm_ffi
from tvm import tirx
from tvm.runtime import ObjectConvertible

from ..dim import Any, Dim
from .expressions import REMEMBERED, as_expr, choices, int64, is_any, parts, simplify, structural_key
from .parts import parts_of

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
        chosen = _of_choices(operation, a, b)
        return simplify(on_symbols(int64(a), int64(b))) if chosen is None else chosen

    return operation


def _of_choices(operation: Callable[[Dim, Dim], Dim], a: Dim, b: Dim) -> Dim | None:
    """Return an operation on what a condition chooses as a choice between two results; None where that is longer."""
    chooser = a if isinstance(a, tirx.Select) else b
    if not isinstance(chooser, tirx.Select):
        return None
    condition = chooser.condition
    (p, q), (r, s) = _alternatives(a, condition), _alternatives(b, condition)
    other = b if chooser is a else a
    if isinstance(other, tirx.Select) and r is s:
        return None  # Another condition chooses it: each of several would double what there is.
    if not isinstance(other, tirx.Select):
        is_flag = isinstance(chooser.true_value, tirx.IntImm) and isinstance(chooser.false_value, tirx.IntImm)
        if not is_flag or choices(other):
            return None
    return select(condition, operation(p, r), operation(q, s))


def _alternatives(value: Dim, condition: tvm.ir.Expr) -> tuple[Dim, Dim]:
    """Return what a value is where a condition holds and where it does not: twice the value if it has another."""
    if isinstance(value, tirx.Select):
        chosen = simplify(value.true_value), simplify(value.false_value)
        if _is_same(value.condition, condition):
            return chosen
        if _is_same(value.condition, _opposite(condition)):
            return chosen[::-1]
    return value, value


def _is_same(a: tvm.ir.Expr, b: tvm.ir.Expr) -> bool:
    if _is_plain_equality(a) and _is_plain_equality(b):
        apart = [sub(simplify(c.a), simplify(c.b)) for c in (a, b)]
        return any(isinstance(d, int) and d == 0 for d in (sub(*apart), add(*apart)))
    return tvm_ffi.structural_equal(a, b)


def _quotient(a: tvm.ir.Expr, b: tvm.ir.Expr) -> tvm.ir.Expr:
    """Return a quotient, of remainders written as what they are left by if that makes it shorter.

    With ``n - n % 2`` as ``n // 2 * 2``, ``(n - n % 2 - 2) // 2 + 1`` is ``n // 2``.
    """
    whole = tirx.floordiv(a, b)
    if not any(isinstance(part, tirx.FloorMod) for part in parts_of(a)):
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
    """Return `a` where a condition over symbolic integers holds, else `b`; both are evaluated.

    Where the two are equal wherever the condition holds (or wherever it does not), one of them is left: a part of a
    remainder that is taken where it is not 0, and 0 elsewhere, is the remainder.
    """
    if is_any(a) or is_any(b):
        return Any()
    if isinstance(condition, ObjectConvertible):
        condition = condition.asobject()  # as ``a == b`` is until it is known whether its truth is asked for
    plain = condition if isinstance(condition, bool) else _without_flag(condition)
    if isinstance(plain, tirx.NE):
        return select(tirx.EQ(plain.a, plain.b), b, a)  # TVM writes the others as comparisons of what is left over
    holds = simplify(plain)
    if isinstance(holds, int):
        return a if holds else b
    return _selected(structural_key(holds), a, b)


@lru_cache(REMEMBERED)
def _selected(key: tvm_ffi.StructuralKey, a: Dim, b: Dim) -> Dim:
    condition = key.key
    a, b = _alternatives(a, condition)[0], _alternatives(b, condition)[1]
    if _is_plain_equality(condition):
        # Where the condition holds, this is 0, and may be added to what is chosen there.
        apart = sub(simplify(condition.a), simplify(condition.b))
        difference = sub(a, b)
        if any(isinstance(d, int) and d == 0 for d in (difference, sub(difference, apart), add(difference, apart))):
            return b
        a = min((a, sub(a, apart), add(a, apart)), key=lambda d: parts(as_expr(d)))
    return simplify(tirx.Select(condition, as_expr(a), as_expr(b)))


def _is_plain_equality(condition: tvm.ir.Expr) -> TypeGuard[tirx.EQ]:
    """Say whether a condition is that two integers are equal in which nothing is chosen."""
    return isinstance(condition, tirx.EQ) and str(condition.a.ty.dtype) == "int64" and not choices(condition)


_OPPOSITES: dict[type, type] = {
    tirx.EQ: tirx.NE,
    tirx.NE: tirx.EQ,
    tirx.LT: tirx.GE,
    tirx.GE: tirx.LT,
    tirx.GT: tirx.LE,
    tirx.LE: tirx.GT,
}


def _opposite(condition: tvm.ir.Expr) -> tvm.ir.Expr:
    kind = _OPPOSITES.get(type(condition))
    return tirx.Not(condition) if kind is None else kind(condition.a, condition.b)


def _without_flag(condition: tvm.ir.Expr) -> tvm.ir.Expr:
    """Return a condition on what another condition chooses of two numbers as that one, or as its opposite."""
    if isinstance(condition, tirx.EQ | tirx.NE) and isinstance(condition.a, tirx.Select):
        flag, number = condition.a, condition.b
        values = flag.true_value, flag.false_value
        if isinstance(number, tirx.IntImm) and all(isinstance(v, tirx.IntImm) for v in values):
            is_equal = [int(v.value) == int(number.value) for v in values]
            if is_equal[0] != is_equal[1]:
                return flag.condition if is_equal[0] == isinstance(condition, tirx.EQ) else _opposite(flag.condition)
    return condition


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
