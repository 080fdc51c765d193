"""Dimensions as expressions of TVM: their simplest form, and the symbols in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer

from ..dim import Any, Dim
from .parts import parts_of
from .remainders import with_plain_remainders

__all__ = [
    "REMEMBERED",
    "as_expr",
    "choices",
    "has_too_many_choices",
    "int64",
    "is_any",
    "is_long",
    "is_static",
    "parts",
    "renamed",
    "simplify",
    "structural_key",
    "substitute",
    "symbols",
]

REMEMBERED = 1 << 12
"""How many results each function of dimensions remembers: in a network the same few are asked for by every layer."""

_MOST_PARTS = 64
_MOST_CHOICES = 8
_MOST_SYMBOLS = 8
_TOO_MANY_CHOICES = 24
_CHOICES: dict[type, int] = {tirx.Max: 1, tirx.Min: 1, tirx.Select: 3}  # A select has its condition beside two values.


def is_any(dim: Dim) -> bool:
    """Say whether a dimension is wholly unknown."""
    return isinstance(dim, Any)


def is_static(dim: Dim) -> bool:
    """Say whether a dimension is a known integer."""
    return isinstance(dim, int)


def is_long(dim: Dim) -> bool:
    """Say whether a dimension is an expression of so many parts, or choices, that more should not be built of it."""
    if isinstance(dim, int | Any | tirx.IntImm | tvm.ir.Var):
        return False
    return _is_long(dim)


@lru_cache(REMEMBERED)
def _is_long(dim: tvm.ir.Expr) -> bool:
    found = parts_of(dim)
    return len(found) > _MOST_PARTS or _weight(found) > _MOST_CHOICES or len(symbols([dim])) > _MOST_SYMBOLS


def choices(dim: Dim) -> int:
    """Return how many choices (largest, smallest, select, which counts more) a dimension has in it."""
    return 0 if isinstance(dim, int | Any | tirx.IntImm | tvm.ir.Var) else _weight(parts_of(dim))


def has_too_many_choices(dim: Dim) -> bool:
    """Say whether nothing should be computed with a dimension at import, but when the program runs.

    To simplify choices between choices takes TVM ten times as long with each more level.
    """
    return choices(dim) > _TOO_MANY_CHOICES


def parts(dim: tvm.ir.Expr) -> int:
    """Return of how many parts an expression is."""
    return len(parts_of(dim))


def _weight(found: Sequence[tvm.ir.Expr]) -> int:
    return sum(_CHOICES.get(type(part), 0) for part in found)


def simplify(value: Dim) -> Dim:
    """Return an integer expression in simplest form; an ``int`` when it is constant."""
    if isinstance(value, int | Any):
        return value
    if isinstance(value, tirx.IntImm):
        return int(value.value)
    if isinstance(value, tvm.ir.Var):
        return value
    return _simplified(structural_key(value))


@lru_cache(REMEMBERED)
def _simplified(key: tvm_ffi.StructuralKey) -> Dim:
    if has_too_many_choices(key.key) and symbols([key.key]):
        return key.key
    value = Analyzer().simplify(key.key)
    written = with_plain_remainders(value)
    if written is not value:
        value = Analyzer().simplify(written)
    return int(value.value) if isinstance(value, tirx.IntImm) else value


def structural_key(node: tvm.ir.Node) -> tvm_ffi.StructuralKey:
    """Return a key that equal nodes have in common, those with the same symbols."""
    return tvm_ffi.StructuralKey(node)  # type: ignore[call-arg] # its class is annotated with what it computes itself


def as_expr(dim: Dim) -> tvm.ir.Expr:
    """Return a known or symbolic dimension as an expression of TVM's IR."""
    return tirx.IntImm("int64", dim) if isinstance(dim, int) else dim


def int64(dim: Dim) -> tvm.ir.Expr:
    """Return a dimension as an expression of the one type that all arithmetic has, so that equal results look so."""
    value = as_expr(dim)
    return value if str(value.ty.dtype) == "int64" else value.astype("int64")


def symbols(dims: Sequence[Dim]) -> list[tirx.Var]:
    """Return the symbolic variables in dimensions, each once, in order of appearance."""
    found: dict[tirx.Var, None] = {}
    for dim in dims:
        if isinstance(dim, tvm.ir.Var):
            found[dim] = None
        elif not isinstance(dim, int | Any):
            found.update((part, None) for part in parts_of(dim) if isinstance(part, tvm.ir.Var))
    return list(found)


def substitute(dim: Dim, mapping: Mapping[tirx.Var, tvm.ir.Expr]) -> Dim:
    """Return a dimension with symbolic variables replaced."""
    if isinstance(dim, int | Any) or not mapping:
        return dim
    return simplify(renamed(dim, mapping))


def renamed(expr: tvm.ir.Expr, names: Mapping[tirx.Var, tvm.ir.Expr]) -> tvm.ir.Expr:
    """Return an expression with symbolic variables replaced, and not simplified: its form stays."""
    if isinstance(expr, tirx.IntImm):
        return expr
    if isinstance(expr, tvm.ir.Var):  # what most are, for which a walk costs twenty times as much
        return names.get(expr, expr)
    return tvm_ffi.structural_map(expr, (tvm.ir.Var, lambda v: names.get(v, v)))
