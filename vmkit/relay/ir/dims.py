"""Arithmetic and comparison of dimensions: ints, symbolic integers, and the unknown ``Any``.

Everything that computes a shape goes through here, so that an unknown dimension stays unknown, constants stay ``int``,
and symbolic expressions are simplified to one form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from math import gcd, prod
from typing import Any as AnyValue

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer

from .limits import is_limited, is_never_less, rows
from .types import Any, Dim

__all__ = [
    "absorbs",
    "add",
    "as_expr",
    "at_least",
    "broadcast",
    "canonical",
    "ceildiv",
    "equal",
    "floordiv",
    "is_any",
    "is_static",
    "maximum",
    "minimum",
    "mul",
    "product",
    "quotient",
    "select",
    "simplify",
    "sub",
    "substitute",
    "symbols",
    "uncommon",
]


def is_any(dim: Dim) -> bool:
    """Say whether a dimension is wholly unknown."""
    return isinstance(dim, Any)


def is_static(dim: Dim) -> bool:
    """Say whether a dimension is a known integer."""
    return isinstance(dim, int)


def simplify(value: AnyValue) -> Dim:
    """Return an integer expression in simplest form; an ``int`` when it is constant."""
    if isinstance(value, int | Any):
        return value
    if isinstance(value, tirx.IntImm):
        return int(value.value)
    if isinstance(value, tvm.ir.Var):
        return value
    value = Analyzer().simplify(value)
    return int(value.value) if isinstance(value, tirx.IntImm) else value


def _arithmetic(compute: Callable[[AnyValue, AnyValue], AnyValue]) -> Callable[[Dim, Dim], Dim]:
    def operation(a: Dim, b: Dim) -> Dim:
        if is_any(a) or is_any(b):
            return Any()
        if isinstance(a, int) and isinstance(b, int):
            return int(compute(a, b))
        return simplify(compute(_int64(a), _int64(b)))

    return operation


def as_expr(dim: Dim) -> AnyValue:
    """Return a known or symbolic dimension as an expression of TVM's IR."""
    return tirx.IntImm("int64", dim) if isinstance(dim, int) else dim


def _int64(dim: Dim) -> AnyValue:
    """Return a dimension as an expression of the one type that all arithmetic has, so that equal results look so."""
    value = as_expr(dim)
    return value if str(value.ty.dtype) == "int64" else value.astype("int64")


def _floordiv(a: AnyValue, b: AnyValue) -> AnyValue:
    return a // b if isinstance(a, int) else tirx.floordiv(a, b)


add = _arithmetic(lambda a, b: a + b)
sub = _arithmetic(lambda a, b: a - b)
mul = _arithmetic(lambda a, b: a * b)
floordiv = _arithmetic(_floordiv)
maximum = _arithmetic(lambda a, b: max(a, b) if isinstance(a, int) else tirx.max(a, b))
minimum = _arithmetic(lambda a, b: min(a, b) if isinstance(a, int) else tirx.min(a, b))


_OPERATIONS: dict[type, Callable[[Dim, Dim], Dim]] = {
    tirx.Add: add,
    tirx.Sub: sub,
    tirx.Mul: mul,
    tirx.FloorDiv: floordiv,
    tirx.Div: floordiv,  # Dimensions are not negative, so it rounds as floordiv does.
    tirx.Max: maximum,
    tirx.Min: minimum,
}


def canonical(value: AnyValue) -> Dim:
    """Return a dimension in the form in which the functions of this module give it."""
    if isinstance(value, tirx.Cast) and str(value.ty.dtype).startswith("int"):
        inner = _times_whole_number(value.value)
        return canonical(inner) if str(inner.ty.dtype).startswith("int") else simplify(value)
    operation = _OPERATIONS.get(type(value))
    if operation is None or not str(value.ty.dtype).startswith("int"):
        return simplify(value)
    return operation(canonical(value.a), canonical(value.b))


def _times_whole_number(value: AnyValue) -> AnyValue:
    """Return ``round(float(n) * 2.0)`` as ``n * 2``: so Relay wrote a dimension that is scaled; others as they are."""
    if not isinstance(value, tvm.ir.Call) or value.op.name != "tirx.round" or not isinstance(value.args[0], tirx.Mul):
        return value
    size, scale = value.args[0].a, value.args[0].b
    is_whole = isinstance(scale, tirx.FloatImm) and float(scale.value).is_integer()
    return mul(size.value, int(scale.value)) if is_whole and isinstance(size, tirx.Cast) else value


def ceildiv(a: Dim, b: Dim) -> Dim:
    """Return the quotient rounded up."""
    return floordiv(sub(add(a, b), 1), b)


def select(condition: AnyValue, a: Dim, b: Dim) -> Dim:
    """Return `a` where a condition over symbolic integers holds, else `b`; both are evaluated."""
    return simplify(tirx.Select(condition, as_expr(a), as_expr(b)))


def product(dims: Iterable[Dim]) -> Dim:
    """Return the product of dimensions; 1 for none, 0 as soon as one is 0."""
    dims = list(dims)
    if any(isinstance(d, int) and d == 0 for d in dims):
        return 0
    return reduce(mul, dims, 1)


def quotient(dividends: Iterable[Dim], divisors: Iterable[Dim]) -> Dim:
    """Return the product of dimensions divided by that of others, of which what both have is left out.

    So ``n * 64`` by ``n * 16`` is 4, even where `n` is 0. Where what is left to divide by is 0, so is the rest.
    """
    above, below = uncommon(dividends, divisors)
    by = product(below)
    return floordiv(product(above), by if at_least(by, 1) else maximum(by, 1))


def uncommon(first: Iterable[Dim], second: Iterable[Dim]) -> tuple[list[Dim], list[Dim]]:
    """Return the factors of two products of dimensions, without what both have."""
    above = [f for d in first for f in _factors(d)]
    below: list[Dim] = []
    for factor in (f for d in second for f in _factors(d)):
        at = next((i for i, f in enumerate(above) if not isinstance(factor, int) and equal(f, factor)), None)
        if at is None:
            below.append(factor)
        else:
            del above[at]
    (number, above), (divisor, below) = _apart(above), _apart(below)
    common = gcd(number, divisor) or 1
    return [number // common, *above], [divisor // common, *below]


def _apart(factors: Sequence[Dim]) -> tuple[int, list[Dim]]:
    """Return the number among factors, and the rest."""
    return prod(f for f in factors if isinstance(f, int)), [f for f in factors if not isinstance(f, int)]


def _factors(dim: Dim) -> list[Dim]:
    """Return what a dimension is the product of."""
    if isinstance(dim, tirx.Mul):
        return [*_factors(simplify(dim.a)), *_factors(simplify(dim.b))]
    return [dim]


def equal(a: Dim, b: Dim) -> bool | None:
    """Say whether two dimensions are equal: True, False, or None when only run time can tell."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if is_any(a) or is_any(b):
        return None
    difference = sub(a, b)
    if isinstance(difference, int):
        return difference == 0
    return None


def broadcast(a: Dim, b: Dim) -> Dim | None:
    """Return the dimension that `a` and `b` broadcast to; None when they cannot.

    An unknown dimension beside an int other than 1 must be that int or 1, so the result is the int. Two unknown
    dimensions, or two different symbols, give ``Any``, unless one of them :func:`absorbs` the other.
    """
    if isinstance(a, int) and a == 1:
        return b
    if isinstance(b, int) and b == 1:
        return a
    same = equal(a, b)
    if same:
        return a
    if isinstance(a, int) and isinstance(b, int):
        return None
    if isinstance(a, int):
        return a
    if isinstance(b, int):
        return b
    if absorbs(a, b):
        return a
    return b if absorbs(b, a) else Any()


def absorbs(a: Dim, b: Dim) -> bool:
    """Say whether `a` is what `a` and `b` broadcast to: `b` is a slice of what is `a` long if the slice is whole.

    A table of 512 rows of which the first `a` are taken has ``min(a, 512)``, and of which `a` are taken from `p` on
    ``max(min(p + a, 512) - min(p, 512), 0)``. Where these are not `a`, they are cut off at the table's end, and there
    is nothing to broadcast.
    """
    if isinstance(a, int) or is_any(a) or not is_limited(b) or is_limited(a):
        return False
    parts = [part for row in rows(b) for part in row]
    is_cut_to_one = any(equal(part, 1) for part in parts)
    return not is_cut_to_one and any(equal(a, part) for part in parts) and bool(at_least(a, b))


def at_least(a: Dim, b: Dim) -> bool | None:
    """Say whether `a` is no less than `b` whatever the sizes are: True, False, or None when only run time can tell.

    A symbol is a size, so it is not negative.
    """
    if is_any(a) or is_any(b):
        return None
    if isinstance(a, int) and isinstance(b, int):
        return a >= b
    analyzer = Analyzer()
    for symbol in symbols([a, b]):
        analyzer.bind(symbol, tvm.ir.Range(tirx.IntImm("int64", 0), tirx.IntImm("int64", 1 << 40)))
    x, y = as_expr(a), as_expr(b)
    if analyzer.can_prove(x >= y):
        return True
    if analyzer.can_prove(x < y):
        return False
    if not is_limited(x) and not is_limited(y):
        return None
    return is_never_less(x, y, lambda p, q: analyzer.can_prove(p >= q)) or None


def symbols(dims: Sequence[Dim]) -> list[AnyValue]:
    """Return the symbolic variables in dimensions, each once, in order of appearance."""
    found: list[AnyValue] = []

    def visit(node: AnyValue) -> None:
        if node not in found:
            found.append(node)

    for dim in dims:
        if isinstance(dim, tvm.ir.Var):
            visit(dim)
        elif not isinstance(dim, int | Any):
            tvm_ffi.structural_walk(dim, (tvm.ir.Var, visit))
    return found


def substitute(dim: Dim, mapping: dict[AnyValue, AnyValue]) -> Dim:
    """Return a dimension with symbolic variables replaced."""
    if isinstance(dim, int | Any) or not mapping:
        return dim
    return simplify(tvm_ffi.structural_map(dim, (tvm.ir.Var, lambda v: mapping.get(v, v))))
