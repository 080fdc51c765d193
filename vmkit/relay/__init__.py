"""Relay: a functional language for tensor programs, as a dialect of TVM's own IR.

The builders of operators are reached by their Relay names: ``relay.add``, ``relay.nn.conv2d``, ``relay.image.resize2d``.
"""

from . import image, nn, op, transform
from .ir import (
    Any,
    Call,
    Constant,
    Expr,
    FuncType,
    Function,
    GlobalVar,
    If,
    IncompleteType,
    Kind,
    Let,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    TypeVar,
    Var,
    const,
    scalar_type,
    var,
)
from .op.registry import namespace
from .text import astext, fromtext, parse, parse_expr

__all__ = [
    "Any",
    "Call",
    "Constant",
    "Expr",
    "FuncType",
    "Function",
    "GlobalVar",
    "If",
    "IncompleteType",
    "Kind",
    "Let",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "Type",
    "TypeVar",
    "Var",
    "astext",
    "const",
    "fromtext",
    "image",
    "nn",
    "op",
    "parse",
    "parse_expr",
    "scalar_type",
    "transform",
    "var",
]

__getattr__, _operator_names = namespace("")


def __dir__() -> list[str]:
    return sorted([*__all__, *_operator_names()])
