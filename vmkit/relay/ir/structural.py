"""Structural equality and hashing of programs, however deep and however much they share.

Two expressions are equal where they differ in the names of bound variables, spans and inferred types alone. A program
is a graph: an expression that is used twice differs from two that are alike, and each is looked at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any as AnyValue
from typing import TypeAlias

import tvm
import tvm_ffi

from ...stack import on_deep_stack
from . import hooks
from .expr import Expr, Function, GlobalVar, Op, RelayExpr
from .visit import children, post_order

Comparable: TypeAlias = "tvm_ffi.Object | Sequence[Comparable] | Mapping[str, Comparable] | str | float | None"
"""Modules, expressions, types, attributes, numbers and texts, and containers of these."""

__all__ = ["assert_structural_equal", "structural_equal", "structural_hash"]


def structural_equal(lhs: Comparable, rhs: Comparable, map_free_vars: bool = False) -> bool:
    """Say whether two modules, expressions, types, attributes, or containers of these are equal in structure.

    Parameters
    ----------
    lhs, rhs : object
        What to compare.
    map_free_vars : bool
        Whether variables that nothing binds are equal where they are used alike; otherwise each equals itself alone.

    Examples
    --------
    >>> from vmkit import relay
    >>> x, y = relay.var("x", "float32"), relay.var("y", "float32")
    >>> relay.structural_equal(relay.Function([x], x + x), relay.Function([y], y + y))
    True
    >>> relay.structural_equal(x + x, y + y), relay.structural_equal(x + x, y + y, map_free_vars=True)
    (False, True)
    """
    return bool(on_deep_stack(tvm_ffi.structural_equal, lhs, rhs, map_free_vars))


def structural_hash(node: Comparable, map_free_vars: bool = False) -> int:
    """Return a number that is the same for all that :func:`structural_equal` finds equal.

    Floats among attributes are an exception: those that differ by less than 1e-9 are equal, and hash by their value.

    Parameters
    ----------
    node : object
        A module, expression, type or attributes, or a container of these.
    map_free_vars : bool
        Whether variables that nothing binds are hashed by the order of their uses; otherwise each by itself.
    """
    return int(on_deep_stack(tvm_ffi.structural_hash, node, map_free_vars))


def assert_structural_equal(lhs: Comparable, rhs: Comparable, map_free_vars: bool = False) -> None:
    """Raise ValueError where two things are not equal in structure, with both and with the place where they differ.

    Parameters
    ----------
    lhs, rhs, map_free_vars
        As in :func:`structural_equal`.
    """
    if structural_equal(lhs, rhs, map_free_vars):
        return
    message = f"StructuralEqual check failed: lhs is\n{_text(lhs)}\nand rhs is\n{_text(rhs)}"
    place = _first_difference(lhs, rhs)
    if place is not None:
        message += f"\nThey differ first where lhs has\n{_text(place[0])}\nand rhs has\n{_text(place[1])}"
    raise ValueError(message)


def _first_difference(lhs: Comparable, rhs: Comparable) -> tuple[RelayExpr, RelayExpr] | None:
    """Return the first two nodes, from the leaves up, that differ although their parts do not; None for no programs.

    TVM's own search keeps a path to every node, which takes quadratic time where a program is deep.
    """
    if isinstance(lhs, tvm.IRModule) and isinstance(rhs, tvm.IRModule):
        left, right = ({v.name_hint: f for v, f in mod.functions.items()} for mod in (lhs, rhs))
        found = (_first_difference(left[name], right[name]) for name in left if name in right)
        return next((place for place in found if place is not None), None)
    if not (isinstance(lhs, Expr | Function) and isinstance(rhs, Expr | Function)):
        return None
    matched: dict[RelayExpr, RelayExpr] = {}
    for a, b in zip(post_order(lhs), post_order(rhs), strict=False):
        alike = type(a) is type(b) and [matched.get(c) for c in children(a)] == children(b)
        if not alike or any(not tvm_ffi.structural_equal(x, y, True) for x, y in zip(_own(a), _own(b), strict=True)):
            return a, b
        matched[a] = b
    return None


def _own(node: Comparable) -> list[AnyValue]:
    """Return what a node says besides its parts."""
    if isinstance(node, Op | GlobalVar):
        return [node]
    own = [getattr(node, name, None) for name in ("attrs", "index", "data", "type_annotation", "ret_type")]
    # The names of fields differ by kind, and the scrutinee of a Match is a part of it.
    return [value for value in own if not isinstance(value, Expr | Function)]


def _text(node: Comparable) -> str:
    is_program = isinstance(node, Expr | Function | tvm.IRModule)
    return hooks.print_node(node) if is_program else str(node)
