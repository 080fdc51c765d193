"""What is true of numbers, but not of floats: TVM simplifies by it, so kernels are written as it leaves them alone.

- ``x - x`` is not 0 where x is infinite or NaN, and ``(x + y) - y`` is not x: what rounds by a large y relies on it.
- ``x * 0`` and ``0 / x`` are not always 0; a division by the number 0 is one, where TVM ends.
- Of ``x < y`` and ``x >= y`` one need not hold: of NaN neither does. TVM takes one for the other's contrary, in
  ``not``, in ``or`` and in what is computed where a condition does not hold.

LLVM, which knows floats, undoes all of it.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import tvm_ffi
from tvm import ir, tirx

from .._tvm.nodes import TensorLoad

__all__ = ["with_float_algebra"]

_Comparison: TypeAlias = tirx.LT | tirx.LE | tirx.GT | tirx.GE | tirx.EQ | tirx.NE
_Product: TypeAlias = tirx.Mul | tirx.Div

_ABSOLUTE = tirx.abs(tirx.Var("x", "float32")).op  # TVM does not work this call out for a number
_FLOATS = frozenset({"bfloat16", "float16", "float32", "float64"})
_COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)


def with_float_algebra(function: tirx.PrimFunc, *, zeros: bool = True) -> tirx.PrimFunc:
    """Return a kernel in which TVM's simplifications find of floats only what holds of them.

    `zeros` says whether that goes for products and quotients with the number 0, too, which takes a call that TVM's
    generator of C does not know.
    """
    changes = [(_COMPARISONS, _opaque), (tirx.Sub, _difference), *([((tirx.Mul, tirx.Div), _product)] if zeros else [])]
    body = tvm_ffi.structural_map(function.body, changes)
    return function if body.same_as(function.body) else function.with_body(body)


def _opaque(comparison: _Comparison) -> tirx.Expr:
    """Return a comparison of floats as a value of which no contrary is known."""
    if not _is_float(comparison.a):
        return comparison
    return tirx.Select(comparison, tirx.const(True, "bool"), tirx.const(False, "bool"))


def _difference(value: tirx.Sub) -> tirx.Expr:
    """Return a difference of floats as a sum, in which TVM cancels nothing, where one is the other or in its sum."""
    if not _is_float(value):
        return value
    first, *in_first = map(_leaves, _terms(value.a))
    second, *in_second = map(_leaves, _terms(value.b))
    if first != second and second not in in_first and first not in in_second:
        return value
    return tirx.Add(value.a, tirx.Mul(value.b, tirx.const(-1, str(value.ty.dtype))))


def _product(value: _Product) -> tirx.Expr:
    """Return a product or quotient with a zero that TVM does not know to be one."""
    a, b = (_zero_unknown(x) for x in (value.a, value.b))
    return value if a.same_as(value.a) and b.same_as(value.b) else type(value)(a, b)


def _zero_unknown(value: tirx.Expr) -> tirx.Expr:
    if not isinstance(value, tirx.FloatImm) or value.value != 0 or not _is_float(value):
        return value
    dtype = str(value.ty.dtype)
    zero = tirx.call_intrin(dtype, _ABSOLUTE, tirx.const(0.0, dtype))
    return zero if math.copysign(1, value.value) > 0 else tirx.Mul(zero, tirx.const(-1, dtype))


def _is_float(value: tirx.Expr) -> bool:
    return str(value.ty.dtype) in _FLOATS


def _terms(value: tirx.Expr) -> list[tirx.Expr]:
    """Return an expression and, where it is a sum, its two terms."""
    return [value, value.a, value.b] if isinstance(value, tirx.Add) else [value]


def _leaves(value: tirx.Expr) -> set[object]:
    """Return what an expression is made of: elements of tensors, variables and numbers."""
    found: set[object] = set()

    def add(leaf: TensorLoad | ir.Var | tirx.FloatImm) -> None:
        if isinstance(leaf, tirx.FloatImm):
            found.add("nan" if math.isnan(leaf.value) else leaf.value)  # which is equal to nothing, not even itself
        elif isinstance(leaf, TensorLoad):
            found.add((leaf.source, *map(tvm_ffi.structural_hash, leaf.indices)))
        elif isinstance(leaf.ty, ir.PrimType):
            found.add(leaf)

    tvm_ffi.structural_walk(value, ((TensorLoad, ir.Var, tirx.FloatImm), add))
    return found
