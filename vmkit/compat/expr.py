"""``tvm.relay.expr``, where functions, global variables and operators are expressions, too.

Today's TVM has them beside Relay's expressions; scripts ask ``isinstance(x, relay.Expr)`` of a function.
"""

from __future__ import annotations

from typing import Any

from tvm.ir import BaseFunc

from vmkit.relay import ir
from vmkit.relay.bind import bind
from vmkit.relay.ir import (
    Call,
    Constant,
    Function,
    GlobalVar,
    If,
    Let,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    TupleWrapper,
    Var,
    const,
    var,
)

__all__ = [
    "Call",
    "Constant",
    "Expr",
    "ExprWithOp",
    "Function",
    "GlobalVar",
    "If",
    "Let",
    "Op",
    "RefCreate",
    "RefRead",
    "RefWrite",
    "RelayExpr",
    "Tuple",
    "TupleGetItem",
    "TupleWrapper",
    "Var",
    "bind",
    "const",
    "var",
]


class _KindsOfExpression(type):
    kinds = (ir.Expr, BaseFunc, GlobalVar, Op)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.kinds)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.kinds)


class RelayExpr(metaclass=_KindsOfExpression):
    """What ``isinstance`` finds every expression of Relay's to be: also functions, global variables and operators."""


Expr = RelayExpr
ExprWithOp = ir.Expr
