"""Walk expressions without recursion: a program may be deeper than any stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .expr import Call, Constant, Function, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var

__all__ = ["children", "post_order"]

_CHILDREN: dict[type, Callable[[Any], list[Any]]] = {
    Call: lambda e: [e.op, *e.args],
    Constant: lambda e: [],
    Function: lambda e: [*e.params, e.body],
    GlobalVar: lambda e: [],
    If: lambda e: [e.cond, e.true_branch, e.false_branch],
    Let: lambda e: [e.var, e.value, e.body],
    Op: lambda e: [],
    Tuple: lambda e: list(e.fields),
    TupleGetItem: lambda e: [e.tuple_value],
    Var: lambda e: [],
}


def children(expr: Any) -> list[Any]:
    """Return the expressions directly below an expression, in order of evaluation; binders come first."""
    return _CHILDREN[type(expr)](expr)


def post_order(expr: Any) -> Iterator[Any]:
    """Yield every expression below and including `expr` once, each after its children."""
    seen: set[Any] = set()
    stack: list[tuple[Any, bool]] = [(expr, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(child, False) for child in reversed(children(node))]
