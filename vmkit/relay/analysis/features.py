"""What a program is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any

import tvm

from ..ir import (
    Call,
    Constant,
    Constructor,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    TensorType,
    Tuple,
    TupleGetItem,
    Var,
    children,
    free_vars,
    post_order,
)
from ..type_functor import TypeVisitor

__all__ = [
    "Feature",
    "all_dtypes",
    "check_constant",
    "count_layers",
    "detect_feature",
    "list_op_freqs",
    "post_order_visit",
]


class Feature(IntEnum):
    """A kind of expression that a program has; numbered as in Relay."""

    fVar = 0
    fGlobalVar = 1
    fConstant = 2
    fTuple = 3
    fTupleGetItem = 4
    fFunction = 5
    fOp = 6
    fCall = 7
    fLet = 8
    fIf = 9
    fRefCreate = 10
    fRefRead = 11
    fRefWrite = 12
    fConstructor = 13
    fMatch = 14
    # An expression, other than a variable, constant or name, is used more than once.
    fGraph = 15
    # A Let whose value refers to its variable.
    fLetRec = 16


_FEATURES = {
    Var: Feature.fVar,
    GlobalVar: Feature.fGlobalVar,
    Constant: Feature.fConstant,
    Tuple: Feature.fTuple,
    TupleGetItem: Feature.fTupleGetItem,
    Function: Feature.fFunction,
    Op: Feature.fOp,
    Call: Feature.fCall,
    Let: Feature.fLet,
    If: Feature.fIf,
    RefCreate: Feature.fRefCreate,
    RefRead: Feature.fRefRead,
    RefWrite: Feature.fRefWrite,
    Constructor: Feature.fConstructor,
    Match: Feature.fMatch,
}


def detect_feature(a: RelayExpr | tvm.IRModule, b: RelayExpr | tvm.IRModule | None = None) -> set[Feature]:
    """Return the features of an expression, a module, or of one within the other, in either order."""
    found: set[Feature] = set()
    for given in (a, b):
        if isinstance(given, tvm.IRModule):
            roots: list[RelayExpr] = [f for f in given.functions.values() if isinstance(f, Function)]
        else:
            roots = [] if given is None else [given]
        for root in roots:
            found |= _features(root)
    return found


def _features(root: RelayExpr) -> set[Feature]:
    found: set[Feature] = set()
    used: set[Any] = set()
    for node in post_order(root):
        found.add(_FEATURES[type(node)])
        if isinstance(node, Let) and isinstance(node.value, Function) and node.var in free_vars(node.value):
            found.add(Feature.fLetRec)
        for part in children(node):
            if part in used and not isinstance(part, Constant | Constructor | GlobalVar | Op | Var):
                found.add(Feature.fGraph)
            used.add(part)
    return found


def post_order_visit(expr: RelayExpr, fvisit: Callable[[RelayExpr], object]) -> None:
    """Call a function with every expression below and including one, each once and after its parts."""
    for node in post_order(expr):
        fvisit(node)


def check_constant(expr: RelayExpr) -> bool:
    """Say whether an expression is a constant, or a tuple of such."""
    return all(isinstance(node, Constant | Tuple) for node in post_order(expr))


def count_layers(expr: RelayExpr | tvm.IRModule, valid_ops: Iterable[str]) -> int:
    """Return how many calls of the named operators lie on the path through an expression that has the most of them.

    Of a module it is the path through ``main``.
    """
    root: RelayExpr = expr["main"] if isinstance(expr, tvm.IRModule) else expr
    names = set(valid_ops)
    layers: dict[Any, int] = {}
    for node in post_order(root):
        own = isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in names
        layers[node] = own + max((layers[part] for part in children(node)), default=0)
    return layers[root]


def list_op_freqs(mod: tvm.IRModule) -> dict[str, int]:
    """Return how often each operator is called in the functions of a module."""
    calls = [n for f in mod.functions.values() if isinstance(f, Function) for n in post_order(f)]
    return dict(Counter(n.op.name for n in calls if isinstance(n, Call) and isinstance(n.op, Op)))


class _Dtypes(TypeVisitor):
    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_tensor_type(self, ty: TensorType) -> None:
        self.found.add(ty.dtype)


def all_dtypes(expr: RelayExpr) -> set[str]:
    """Return the data types of all tensors in a typed expression."""
    dtypes = _Dtypes()
    for node in post_order(expr):
        ty = getattr(node, "checked_type_", None)
        if ty is not None:
            dtypes.visit(ty)
    return dtypes.found
