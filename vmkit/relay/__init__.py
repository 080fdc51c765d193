"""Relay: a functional language for tensor programs, as a dialect of TVM's own IR.

The builders of operators are reached by their Relay names: ``relay.add``, ``relay.nn.conv2d`` and so on.
"""

import importlib
from typing import TYPE_CHECKING
from typing import Any as _AnyValue

from . import image, nn, op, qnn, transform
from .ir import (
    Any,
    Call,
    Constant,
    Expr,
    Function,
    FuncType,
    GlobalVar,
    If,
    IncompleteType,
    Kind,
    Let,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    TupleWrapper,
    Type,
    TypeVar,
    Var,
    const,
    free_vars,
    scalar_type,
    var,
)
from .op.reduce import logsumexp, mean_std, mean_variance, std
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
    "TupleWrapper",
    "Type",
    "TypeVar",
    "Var",
    "astext",
    "const",
    "create_executor",
    "free_vars",
    "fromtext",
    "frontend",
    "image",
    "logsumexp",
    "mean_std",
    "mean_variance",
    "nn",
    "op",
    "parse",
    "parse_expr",
    "qnn",
    "scalar_type",
    "std",
    "transform",
    "var",
]

if TYPE_CHECKING:
    from ..executor import create_executor
    from . import frontend

_operator, _operator_names = namespace("")
# What stands above Relay, or costs an import of its own, is found when first used.
_LATER = {"create_executor": "vmkit.executor"}
_LATER_MODULES = ("frontend",)


def __getattr__(name: str) -> _AnyValue:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    if name in _LATER_MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    return _operator(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_operator_names()])
