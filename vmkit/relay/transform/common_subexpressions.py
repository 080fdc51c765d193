"""Common subexpressions: equal calls of operators on equal operands become one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import tvm_ffi

from ...values.equal_tensors import EqualTensors
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
    own, equal = scopes(function), EqualTensors()
    known: dict[Any, list[tuple[Any, Scope]]] = {}

    def merged(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if not _is_mergeable(original) or (skip is not None and skip(original)):
            return node
        alike = known.setdefault(_key(node, equal), [])
        here = own[original]
        for other, scope in alike:
            if (here.is_in(scope) or scope.is_in(here)) and _has_attributes_of(node, other):
                return other
        alike.append((node, here))
        return node

    return rewrite(function, {}, merged)


def _is_mergeable(node: RelayExpr) -> bool:
    if isinstance(node, Call) and isinstance(node.op, Op):
        made = entry(node.op)
        return made.is_pure and not made.allocates
    return isinstance(node, TupleGetItem)


def _key(node: RelayExpr, equal: EqualTensors) -> Hashable:
    """Return what equal expressions have in common: all of them but attributes."""
    if isinstance(node, TupleGetItem):
        return (node.tuple_value, node.index)
    return (node.op, *(_operand_key(operand, equal) for operand in node.args))


def _operand_key(operand: Expr, equal: EqualTensors) -> Hashable:
    if isinstance(operand, Tuple):
        return tuple(_operand_key(field, equal) for field in operand.fields)
    return equal.first_of(operand.data) if isinstance(operand, Constant) else operand


def _has_attributes_of(a: RelayExpr, b: RelayExpr) -> bool:
    return isinstance(a, TupleGetItem) or tvm_ffi.structural_equal(a.attrs, b.attrs)
