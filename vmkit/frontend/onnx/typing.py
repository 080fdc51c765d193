"""Types of expressions, found from the inputs up while they are built: every node is visited once."""

from __future__ import annotations

from typing import Any

from tvm.ir import GlobalVar, Op

from ...errors import TypeCheckError
from ...relay.ir import Call, Expr, If, Tuple, TupleGetItem, TupleType, Type, children
from ...relay.transform import call_type
from ...relay.transform.type_solver import TypeSolver, bind_symbols, substitute_symbols

__all__ = ["typed"]


def typed(expr: Expr) -> Expr:
    """Return an expression after its type, and that of all below it, has been written into the nodes."""
    waiting = [expr]
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
        case Call():
            return _result_type(node)
        case Tuple():
            return TupleType([f.checked_type_ for f in node.fields])
        case TupleGetItem():
            return node.tuple_value.checked_type_.fields[node.index]
        case If():
            return TypeSolver().unify(node.true_branch.checked_type_, node.false_branch.checked_type_, join=True)
    raise TypeCheckError(f"{type(node).__name__} has no type here")


def _result_type(call: Call) -> Type:
    """Return the type of a call of a global function, whose own type its variable carries."""
    callee = call.op.checked_type_ if isinstance(call.op, Expr) else FUNCTION_TYPES[call.op]
    symbols: dict[Any, Any] = {}
    for formal, argument in zip(callee.arg_types, call.args, strict=True):
        bind_symbols(formal, argument.checked_type_, symbols)
    return substitute_symbols(callee.ret_type, symbols)
