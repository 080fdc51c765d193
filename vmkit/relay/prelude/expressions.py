"""Expressions that functions over tensor arrays are made of: counting, and taking values apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any as AnyValue

from ..ir import Clause, Constructor, Expr, PatternConstructor, PatternVar, Var, const, scalar_type
from ..op import build

__all__ = ["INDEX", "element", "first_dim", "following", "is_equal", "preceding", "unwrapped"]

INDEX = scalar_type("int32")


def unwrapped(constructor: Constructor, name: str, result: Callable[[Var], AnyValue]) -> Clause:
    """Return the clause for a constructor of one field, with a result that is made of the field."""
    field = Var(name)
    return Clause(PatternConstructor(constructor, [PatternVar(field)]), result(field))


def first_dim(tensor: Expr) -> Expr:
    """Return the length of the first axis, at run time."""
    return build("take", build("shape_of", tensor), const(0))


def is_equal(left: Expr, right: Expr) -> Expr:
    """Return whether two numbers are equal."""
    return build("equal", left, right)


def following(index: Expr) -> Expr:
    """Return the next index."""
    return build("add", index, const(1))


def preceding(index: Expr) -> Expr:
    """Return the index before."""
    return build("subtract", index, const(1))


def element(vector: Expr, index: Expr) -> Expr:
    """Return an element of a vector."""
    return build("take", vector, index)
