"""Types of expressions, found from the inputs up while they are built: every node is visited once."""

from __future__ import annotations

from typing import Any

from tvm.ir import GlobalVar, Op

from ...errors import TypeCheckError
from ...relay.analysis.infer_type import call_type
from ...relay.ir import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, TupleType, Type, children
from ...relay.ir.type_solver import TypeSolver

__all__ = ["typed"]


def typed(expr: Expr) -> Expr:
    """Return an expression after its type, and that of all below it, has been written into the nodes.

    A call of a global function has its type from where it was made.
    """
    waiting: list[Expr | Function] = [expr]
    while waiting:
        node = waiting[-1]
        if node.checked_type_ is not None:
            waiting.pop()
            continue
        missing = [c for c in children(node) if not isinstance(c, Op | GlobalVar) and c.checked_type_ is None]
        if missing:
            waiting += missing
            continue
        node.checked_type_ = _type(node)
        waiting.pop()
    return expr


def _type(node: Any) -> Type:
    match node:
        case Call() if isinstance(node.op, Op):
            return call_type(node)
        case Constant():
            return node.checked_type
        case Tuple():
            return TupleType([f.checked_type_ for f in node.fields])
        case TupleGetItem():
            return node.tuple_value.checked_type_.fields[node.index]
        case Let():
            return node.body.checked_type_
        case If():
            return TypeSolver().unify(node.true_branch.checked_type_, node.false_branch.checked_type_, join=True)
    raise TypeCheckError(f"{type(node).__name__} has no type here")
