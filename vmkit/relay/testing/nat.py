"""Natural numbers as a data type, zero or one more than another: the least that recursion and matches need."""

from __future__ import annotations

from typing import Any

from ...values.conversion import ADT
from ..ir import Expr
from ..library import import_from_std
from ..prelude import Prelude

__all__ = ["add_nat_definitions", "count", "get_type", "make_nat_expr", "make_nat_value"]


def add_nat_definitions(prelude: Prelude) -> None:
    """Add the type ``nat`` and its functions to the prelude's module, in place."""
    import_from_std(prelude.mod, "nat.rly")


def get_type(prelude: Prelude, name: str) -> tuple[Any, ...]:
    """Return a type of the prelude's module and its constructors."""
    return prelude.get_type(name)


def count(prelude: Prelude, n: ADT) -> int:
    """Return the number that a value of the type ``nat`` is."""
    _, zero, succ = get_type(prelude, "nat")
    number = 0
    while isinstance(n, ADT) and n.tag == succ.tag and len(n) == 1:
        n, number = n[0], number + 1
    if not isinstance(n, ADT) or n.tag != zero.tag:
        raise TypeError(f"a value of the type nat ends with zero, not {n!r}")
    return number


def make_nat_value(prelude: Prelude, n: int) -> ADT:
    """Return a number as a value of the type ``nat``, for a program to be run with."""
    _, zero, succ = get_type(prelude, "nat")
    value = ADT(zero.tag)
    for _ in range(_checked(n)):
        value = ADT(succ.tag, [value])
    return value


def make_nat_expr(prelude: Prelude, n: int) -> Expr:
    """Return a number as an expression of the type ``nat``."""
    _, zero, succ = get_type(prelude, "nat")
    expr = zero()
    for _ in range(_checked(n)):
        expr = succ(expr)
    return expr


def _checked(n: int) -> int:
    if n < 0:
        raise ValueError(f"a natural number is 0 or more, not {n}")
    return n
