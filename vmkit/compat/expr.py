"""``tvm.relay.expr``, where functions, global variables and operators are expressions, too.

Today's TVM has them beside Relay's expressions; scripts ask ``isinstance(x, relay.Expr)`` of a function.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
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

# What Relay makes of arrays of numpy's own data types, where a script gives none.
_NARROWER = {"float64": "float32", "int64": "int32"}


def const(value: Any, dtype: str | ir.TensorType | type | None = None, span: tvm.ir.Span | None = None) -> ir.Constant:
    """Return a constant; without a data type, arrays of float64 become float32, and of int64 int32.

    See :func:`vmkit.relay.const`, which keeps the data type of an array.
    """
    if dtype is None and isinstance(value, np.ndarray | np.generic):
        dtype = _NARROWER.get(str(value.dtype))
    return ir.const(value, dtype, span)
