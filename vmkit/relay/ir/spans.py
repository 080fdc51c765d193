"""Nodes at a place of their source: a node's place is given when it is made, so another place is another node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tvm.ir import Span

from .expr import Call, Constant, Expr, Function, If, Let, RelayExpr, Tuple, TupleGetItem
from .reference import RefCreate, RefRead, RefWrite
from .visit import Nodes, post_order

__all__ = ["NODE_FIELDS", "placed", "with_span"]

E = TypeVar("E", bound=RelayExpr)

# By class, the fields that its constructor takes, in order. Variables are not here: a copy would be another variable.
NODE_FIELDS: dict[type, tuple[str, ...]] = {
    Call: ("op", "args", "attrs", "type_args"),
    Constant: ("data",),
    Function: ("params", "body", "ret_type", "type_params", "attrs"),
    If: ("cond", "true_branch", "false_branch"),
    Let: ("var", "value", "body"),
    RefCreate: ("value",),
    RefRead: ("ref",),
    RefWrite: ("ref", "value"),
    Tuple: ("fields",),
    TupleGetItem: ("tuple_value", "index"),
}


def with_span(node: E, span: Span | None) -> E:
    """Return a copy of a node at a place; the node itself where there is none, and a variable always."""
    if span is None or type(node) not in NODE_FIELDS:
        return node
    make: Callable[..., E] = type(node)
    made: Any = make(*[getattr(node, name) for name in NODE_FIELDS[type(node)]], span=span)
    made.checked_type_ = getattr(node, "checked_type_", None)
    result: E = made
    return result


class _Below:
    """What has a place, what takes none, and what is said to have been there before."""

    def __init__(self, before: Nodes) -> None:
        self.before = before

    def __contains__(self, node: RelayExpr) -> bool:
        is_plain = isinstance(node, Call | Constant | Tuple | TupleGetItem)
        return not is_plain or node.span is not None or node in self.before


def placed(roots: Sequence[RelayExpr | None], span: Span, before: Nodes = ()) -> list[RelayExpr | None]:
    """Return expressions with a place for each call, tuple, field and constant that has none.

    Parameters
    ----------
    roots : sequence of Expr or None
        The expressions; None stays None.
    span : Span
        The place.
    before : collection of Expr, optional
        What stays as it is, and with it all that is below.
    """
    done: dict[RelayExpr, RelayExpr] = {}
    below = _Below(before)
    for root in roots:
        for node in post_order(root, below) if root is not None else ():
            if node not in done:
                done[node] = with_span(_over(node, done), span)
    return [None if root is None else done.get(root, root) for root in roots]


def _over(node: RelayExpr, done: dict[RelayExpr, RelayExpr]) -> RelayExpr:
    match node:
        case Call():
            made: Expr = Call(node.op, [done.get(a, a) for a in node.args], node.attrs, list(node.type_args))
        case Tuple():
            made = Tuple([done.get(f, f) for f in node.fields])
        case TupleGetItem():
            made = TupleGetItem(done.get(node.tuple_value, node.tuple_value), node.index)
        case _:
            return node
    made.checked_type_ = node.checked_type_
    return made
