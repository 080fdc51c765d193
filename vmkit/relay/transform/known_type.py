"""Types of expressions that a pass has just built, and rewriting that keeps types at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, overload

from ..analysis.infer_type import call_type, infer_expr
from ..ir import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Op,
    RelayExpr,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    Var,
    children,
    post_order,
    rewrite,
)

__all__ = ["rewrite_typed", "rewrite_used", "type_of", "use_counts", "with_type_of"]


class _Typed:
    """The expressions whose types are known: a walk stops there."""

    def __contains__(self, expr: RelayExpr) -> bool:
        return getattr(expr, "checked_type_", None) is not None


def type_of(expr: RelayExpr) -> Type:
    """Return the type of an expression, which is found from the types of its parts where it is not known yet."""
    known = getattr(expr, "checked_type_", None)
    if known is not None:
        return known
    for node in post_order(expr, stop=_Typed()):
        if not isinstance(node, Op | GlobalVar | Constructor):
            node.checked_type_ = _found(node)
    return expr.checked_type_


def _found(node: RelayExpr) -> Type:
    match node:
        case Call(op=Op()):
            return call_type(node)
        case Call() if getattr(node.op, "checked_type_", None) is not None:
            return node.op.checked_type.ret_type
        case Tuple():
            return TupleType([f.checked_type for f in node.fields])
        case TupleGetItem():
            return node.tuple_value.checked_type.fields[node.index]
        case Constant():
            return node.checked_type
        case Let():
            return node.body.checked_type
        case Var() if node.type_annotation is not None:
            return node.type_annotation
    return infer_expr(node)


def with_type_of(node: RelayExpr, original: RelayExpr) -> RelayExpr:
    """Return a node that stands for another, or is the same, with the type of that."""
    if isinstance(node, Expr | Function) and not node.same_as(original):
        node.checked_type_ = original.checked_type_
    return node


@overload
def rewrite_typed(expr: Function, rule: Callable[[RelayExpr], RelayExpr]) -> Function: ...


@overload
def rewrite_typed(expr: RelayExpr, rule: Callable[[RelayExpr], RelayExpr]) -> RelayExpr: ...


def rewrite_typed(expr: RelayExpr, rule: Callable[[RelayExpr], RelayExpr]) -> RelayExpr:
    """Return a typed expression in which a rule has been applied to every node, its parts first.

    Parameters
    ----------
    expr : Expr or Function
        The expression.
    rule : callable
        Takes a node, which has a type as have its parts, and returns what shall stand in its place, of the same type.
    """

    def replace(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if isinstance(node, Op | GlobalVar | Constructor | Constant | Var):
            return node
        result = rule(with_type_of(node, original))
        type_of(result)
        return result

    return rewrite(expr, {}, replace)


def rewrite_used(function: Function, rule: Callable[[RelayExpr, Mapping[RelayExpr, int]], RelayExpr]) -> Function:
    """Return a typed function in which a rule has been applied to every node, its parts first, knowing their uses.

    Parameters
    ----------
    function : Function
    rule : callable
        As that of :func:`rewrite_typed`; it takes as well how often the program uses what stands in the places of the
        nodes so far. Nodes that the rule makes below those have no uses.
    """
    known = use_counts(function)
    uses: dict[RelayExpr, int] = {}

    def replace(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if isinstance(node, Op | GlobalVar | Constructor | Constant | Var):
            return node
        result = rule(with_type_of(node, original), uses)
        type_of(result)
        uses[result] = known.get(original, 0)
        return result

    result: Function = rewrite(function, {}, replace)
    return result


def use_counts(expr: RelayExpr) -> dict[RelayExpr, int]:
    """Return how often each expression at or below one is used as a part of another."""
    uses: dict[Any, int] = {}
    for node in post_order(expr):
        for part in children(node):
            uses[part] = uses.get(part, 0) + 1
    return uses
