"""Patterns of dataflow graphs.

A pattern describes expressions; the same pattern object in two places asks for the same expression in both. ``match``,
``rewrite`` and ``partition`` find what it describes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tvm
from tvm.ir import Op

from ..ir import Dim, RelayExpr, Type
from ..ir.hooks import Hook
from ..op.registry import entry

__all__ = [
    "AltPattern",
    "AttrPattern",
    "CallPattern",
    "Check",
    "ConstantPattern",
    "DFPattern",
    "DataTypePattern",
    "DominatorPattern",
    "ExprPattern",
    "FunctionPattern",
    "IfPattern",
    "LetPattern",
    "ShapePattern",
    "TupleGetItemPattern",
    "TuplePattern",
    "TypePattern",
    "VarPattern",
    "WildcardPattern",
    "dominates",
    "has_attr",
    "has_dtype",
    "has_shape",
    "has_type",
    "is_constant",
    "is_expr",
    "is_if",
    "is_let",
    "is_op",
    "is_tuple",
    "is_tuple_get_item",
    "is_var",
    "wildcard",
]

Check: TypeAlias = Callable[[RelayExpr], bool]


class DFPattern:
    """Base of patterns. Called, added, or given an attribute, a pattern makes another one.

    Examples
    --------
    >>> from vmkit import relay
    >>> from vmkit.relay.dataflow_pattern import is_op, wildcard
    >>> x = relay.var("x", shape=(2,))
    >>> is_op("exp")(wildcard() + wildcard()).match(relay.exp(x + x))
    True
    """

    def __call__(self, *args: Any) -> CallPattern:
        return CallPattern(self, None if len(args) == 1 and args[0] is None else list(args))

    def __or__(self, other: DFPattern) -> AltPattern:
        return AltPattern(self, other)

    def __add__(self, other: DFPattern) -> CallPattern:
        return is_op("add")(self, other)

    def __sub__(self, other: DFPattern) -> CallPattern:
        return is_op("subtract")(self, other)

    def __mul__(self, other: DFPattern) -> CallPattern:
        return is_op("multiply")(self, other)

    def __truediv__(self, other: DFPattern) -> CallPattern:
        return is_op("divide")(self, other)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """Return this pattern for operators, calls or functions with these attributes."""
        return AttrPattern(self, attrs)

    def has_type(self, ttype: Type) -> TypePattern:
        """Return this pattern for expressions of a type."""
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """Return this pattern for tensors of a data type."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[Dim]) -> ShapePattern:
        """Return this pattern for tensors of a shape."""
        return ShapePattern(self, shape)

    def match(self, expr: RelayExpr) -> bool:
        """Say whether this pattern describes an expression."""
        return match_hook(self, expr)

    def partition(
        self, expr: RelayExpr, attrs: Mapping[str, Any] | None = None, check: Check = lambda _: True
    ) -> RelayExpr:
        """Return an expression with calls of new functions where this pattern matches; see ``partition``."""
        return partition_hook(self, expr, attrs, check)

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DominatorPattern:
        """Return the pattern of what `parent` and, between the two, only `path` lead to."""
        return DominatorPattern(parent, wildcard() if path is None else path, self)

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> AltPattern:
        """Return the pattern of this, or of what `option_constructor` makes of it."""
        return self | option_constructor(self)


match_hook: Hook[[DFPattern, RelayExpr], bool] = Hook("matching a pattern", f"{__package__}.matcher")
partition_hook: Hook[[DFPattern, RelayExpr, Mapping[str, Any] | None, Check], RelayExpr] = Hook(
    "partitioning by a pattern", f"{__package__}.rewriting"
)


class ExprPattern(DFPattern):
    """An expression of the same structure."""

    def __init__(self, expr: RelayExpr) -> None:
        self.expr = expr


class VarPattern(DFPattern):
    """A variable, of this name unless the name is empty."""

    def __init__(self, name_hint: str = "") -> None:
        self.name = name_hint


class ConstantPattern(DFPattern):
    """A constant."""


class WildcardPattern(DFPattern):
    """Any expression, or, once redirected, what another pattern describes; so patterns can refer to themselves."""

    def __init__(self) -> None:
        self.pattern: DFPattern | None = None

    def redirect_to(self, pattern: DFPattern) -> None:
        """Describe what another pattern describes from now on."""
        self.pattern = pattern


class CallPattern(DFPattern):
    """A call; without `args`, of any arguments. Operands of sums and products match in either order."""

    def __init__(self, op: DFPattern, args: Sequence[DFPattern] | None) -> None:
        self.op = op
        self.args = None if args is None else list(args)


class FunctionPattern(DFPattern):
    """A function; without `params`, of any parameters."""

    def __init__(self, params: Sequence[DFPattern] | None, body: DFPattern) -> None:
        self.params = None if params is None else list(params)
        self.body = body


class IfPattern(DFPattern):
    """An If."""

    def __init__(self, cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> None:
        self.cond, self.true_branch, self.false_branch = cond, true_branch, false_branch


class LetPattern(DFPattern):
    """A Let."""

    def __init__(self, var: DFPattern, value: DFPattern, body: DFPattern) -> None:
        self.var, self.value, self.body = var, value, body


class TuplePattern(DFPattern):
    """A tuple; without `fields`, of any fields."""

    def __init__(self, fields: Sequence[DFPattern] | None) -> None:
        self.fields = None if fields is None else list(fields)


class TupleGetItemPattern(DFPattern):
    """A field of a tuple; without `index`, any field."""

    def __init__(self, tuple_value: DFPattern, index: int | None = None) -> None:
        self.tuple, self.index = tuple_value, index


class AltPattern(DFPattern):
    """What one of two patterns describes; the left one is tried first."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left, self.right = left, right


class TypePattern(DFPattern):
    """What a pattern describes, of a type."""

    def __init__(self, pattern: DFPattern, ttype: Type) -> None:
        self.pattern, self.type = pattern, ttype


class DataTypePattern(DFPattern):
    """What a pattern describes, a tensor of a data type."""

    def __init__(self, pattern: DFPattern, dtype: str) -> None:
        self.pattern, self.dtype = pattern, dtype


class ShapePattern(DFPattern):
    """What a pattern describes, a tensor of a shape."""

    def __init__(self, pattern: DFPattern, shape: Sequence[Dim]) -> None:
        self.pattern, self.shape = pattern, list(shape)


class AttrPattern(DFPattern):
    """What a pattern describes, with attributes: of an operator, of a call, or of a function."""

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, Any]) -> None:
        self.pattern, self.attrs = pattern, dict(attrs)


class DominatorPattern(DFPattern):
    """What `child` describes, where all that `parent` gives leads to it, through what `path` describes alone."""

    def __init__(self, parent: DFPattern, path: DFPattern, child: DFPattern) -> None:
        self.parent, self.path, self.child = parent, path, child


def is_var(name: str = "") -> VarPattern:
    """Return the pattern of a variable, of this name unless it is empty."""
    return VarPattern(name)


def is_constant() -> ConstantPattern:
    """Return the pattern of a constant."""
    return ConstantPattern()


def is_expr(expr: RelayExpr) -> ExprPattern:
    """Return the pattern of expressions of the same structure as one."""
    return ExprPattern(expr)


def is_op(op_name: str) -> ExprPattern:
    """Return the pattern of an operator; TypeCheckError with close names when there is none of that name."""
    return ExprPattern(entry(op_name).op)


def is_tuple(fields: Sequence[DFPattern] | None) -> TuplePattern:
    """Return the pattern of a tuple."""
    return TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """Return the pattern of a field of a tuple."""
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> IfPattern:
    """Return the pattern of an If."""
    return IfPattern(cond, true_branch, false_branch)


def is_let(var: DFPattern, value: DFPattern, body: DFPattern) -> LetPattern:
    """Return the pattern of a Let."""
    return LetPattern(var, value, body)


def wildcard() -> WildcardPattern:
    """Return the pattern of everything."""
    return WildcardPattern()


def has_type(ttype: Type, pattern: DFPattern | None = None) -> TypePattern:
    """Return the pattern of expressions of a type."""
    return TypePattern(wildcard() if pattern is None else pattern, ttype)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """Return the pattern of tensors of a data type."""
    return DataTypePattern(wildcard() if pattern is None else pattern, dtype)


def has_shape(shape: Sequence[Dim], pattern: DFPattern | None = None) -> ShapePattern:
    """Return the pattern of tensors of a shape."""
    return ShapePattern(wildcard() if pattern is None else pattern, shape)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """Return the pattern of operators, calls or functions with attributes."""
    return AttrPattern(wildcard() if pattern is None else pattern, attrs)


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DominatorPattern:
    """Return the pattern of what all of a parent leads to; see :class:`DominatorPattern`."""
    return DominatorPattern(parent, path, child)


def names_operator(pattern: DFPattern, *names: str) -> bool:
    """Say whether a pattern is that of a call of one of the named operators."""
    if not isinstance(pattern, CallPattern):
        return False
    op = pattern.op.pattern if isinstance(pattern.op, AttrPattern) else pattern.op
    return isinstance(op, ExprPattern) and isinstance(op.expr, Op) and op.expr.name in names


def operator_attribute(op: Op, name: str) -> Any:
    """Return an attribute that is registered for an operator, or None."""
    try:
        value = op.get_attr(name)
    except tvm.error.InternalError:  # no operator has an attribute of this name
        return None
    return int(value) if isinstance(value, tvm.tirx.IntImm) else value
