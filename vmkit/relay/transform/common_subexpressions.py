"""Common subexpressions: equal calls of operators on equal operands become one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import tvm_ffi

from ..analysis.scopes import Scope, scopes
from ..ir import Call, Constant, Expr, Function, Op, RelayExpr, Tuple, TupleGetItem, rewrite
from ..op.registry import entry
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["EliminateCommonSubexpr", "without_common_subexpressions"]

Skip = Callable[[Any], bool]


@relay_pass(opt_level=3)
def EliminateCommonSubexpr(fskip: Skip | None = None) -> ModuleTransform:
    """Return the pass that computes equal expressions once; see :func:`without_common_subexpressions`.

    Parameters
    ----------
    fskip : callable, optional
        Says of an expression that it shall be left alone.
    """
    return per_function(lambda function: without_common_subexpressions(function, fskip))


def without_common_subexpressions(function: Function, skip: Skip | None = None) -> Function:
    """Return a function in which equal calls of pure operators, and equal fields of tuples, are one expression.

    Expressions are merged where one of them stands in the scope of the other or around it: two branches that compute
    the same keep doing so, as moving it before them could compute what neither run needs.
    """
    own = scopes(function)
    known: dict[Any, list[tuple[Any, Scope]]] = {}

    def merged(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if not _is_mergeable(original) or (skip is not None and skip(original)):
            return node
        alike = known.setdefault(_key(node), [])
        here = own[original]
        for other, scope in alike:
            if (here.is_in(scope) or scope.is_in(here)) and _agrees(node, other):
                return other
        alike.append((node, here))
        return node

    return rewrite(function, {}, merged)


def _is_mergeable(node: RelayExpr) -> bool:
    if isinstance(node, Call) and isinstance(node.op, Op):
        return entry(node.op).is_pure
    return isinstance(node, TupleGetItem)


def _key(node: RelayExpr) -> Hashable:
    """Return what equal expressions have in common."""
    if isinstance(node, TupleGetItem):
        return (node.tuple_value, node.index)
    return (node.op, *map(_operand_key, node.args))


def _operand_key(operand: Expr) -> Hashable:
    if isinstance(operand, Tuple):
        return tuple(map(_operand_key, operand.fields))
    return tuple(operand.data.shape) if isinstance(operand, Constant) else operand


def _agrees(a: RelayExpr, b: RelayExpr) -> bool:
    if isinstance(a, TupleGetItem):
        return True
    return tvm_ffi.structural_equal(a.attrs, b.attrs) and all(map(_is_same_operand, a.args, b.args))


def _is_same_operand(x: Expr, y: Expr) -> bool:
    if isinstance(x, Tuple) and isinstance(y, Tuple):
        return all(map(_is_same_operand, x.fields, y.fields))
    if isinstance(x, Constant) and isinstance(y, Constant) and not x.same_as(y):
        return x.data.dtype == y.data.dtype and np.array_equal(_bytes(x), _bytes(y))
    return x.same_as(y)


def _bytes(constant: Constant) -> np.ndarray:
    return constant.data.numpy().reshape(-1).view("uint8")
