"""Say whether a pattern describes an expression, and which part of it describes which part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tvm_ffi
from tvm.ir import DictAttrs, Op

from ...stack import on_deep_stack
from ..ir import (
    Call,
    Constant,
    Dim,
    Function,
    If,
    Let,
    RelayExpr,
    TensorType,
    Tuple,
    TupleGetItem,
    Type,
    Var,
    children,
)
from ..transform.known_type import type_of
from .dominance import DataflowGraph
from .patterns import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
    match_hook,
    names_operator,
    operator_attribute,
)

__all__ = ["Matcher", "match"]


def match(pattern: DFPattern, expr: RelayExpr) -> bool:
    """Say whether a pattern describes an expression."""
    return Matcher(expr).match(pattern, expr) is not None


match_hook.fill(match)


class Matcher:
    """Matches patterns against expressions of one graph.

    Parameters
    ----------
    root : Expr or Function
        The graph, in which dominator patterns look for all uses of an expression.
    """

    def __init__(self, root: RelayExpr) -> None:
        self.graph = DataflowGraph(root)
        self.found: dict[DFPattern, list[Any]] = {}
        # The patterns of `found` in the order in which they matched, to go back when a way fails.
        self.trail: list[DFPattern] = []
        # Whether what a pattern has described holds it to that: on a path one describes many expressions.
        self.is_bound = True

    def match(self, pattern: DFPattern, expr: RelayExpr) -> dict[DFPattern, list[RelayExpr]] | None:
        """Return the expressions that each part of a pattern describes, or None where it does not describe `expr`."""
        self.found, self.trail, self.is_bound = {}, [], True
        return self.found if on_deep_stack(self.visit, pattern, expr) else None

    def visit(self, pattern: DFPattern, expr: RelayExpr) -> bool:
        if self.is_bound and pattern in self.found:
            return self.found[pattern][0].same_as(expr)
        mark = len(self.trail)
        if not self.fits(pattern, expr):
            self.forget(mark)
            return False
        self.found.setdefault(pattern, []).append(expr)
        self.trail.append(pattern)
        return True

    def forget(self, mark: int) -> None:
        for pattern in reversed(self.trail[mark:]):
            self.found[pattern].pop()
            if not self.found[pattern]:
                del self.found[pattern]
        del self.trail[mark:]

    def fits(self, pattern: DFPattern, expr: RelayExpr) -> bool:
        match pattern:
            case AltPattern():
                return self.visit(pattern.left, expr) or self.visit(pattern.right, expr)
            case AttrPattern():
                return self.visit(pattern.pattern, expr) and _has_attrs(expr, pattern.attrs)
            case CallPattern():
                return isinstance(expr, Call) and self.call(pattern, expr)
            case ConstantPattern():
                return isinstance(expr, Constant)
            case DataTypePattern():
                ty = _type(expr)
                return isinstance(ty, TensorType) and ty.dtype == pattern.dtype and self.visit(pattern.pattern, expr)
            case DominatorPattern():
                return self.visit(pattern.child, expr) and self.is_dominated(pattern, expr)
            case ExprPattern():
                return _is_same(pattern.expr, expr)
            case FunctionPattern():
                if not isinstance(expr, Function) or not self.all(pattern.params, expr.params):
                    return False
                return self.visit(pattern.body, expr.body)
            case IfPattern():
                parts = [pattern.cond, pattern.true_branch, pattern.false_branch]
                return isinstance(expr, If) and self.all(parts, [expr.cond, expr.true_branch, expr.false_branch])
            case LetPattern():
                parts = [pattern.var, pattern.value, pattern.body]
                return isinstance(expr, Let) and self.all(parts, [expr.var, expr.value, expr.body])
            case ShapePattern():
                return _has_shape(_type(expr), pattern.shape) and self.visit(pattern.pattern, expr)
            case TupleGetItemPattern():
                is_field = isinstance(expr, TupleGetItem) and pattern.index in (None, -1, expr.index)
                return is_field and self.visit(pattern.tuple, expr.tuple_value)
            case TuplePattern():
                return isinstance(expr, Tuple) and self.all(pattern.fields, expr.fields)
            case TypePattern():
                ty = _type(expr)
                is_type = ty is not None and tvm_ffi.structural_equal(ty, pattern.type)
                return is_type and self.visit(pattern.pattern, expr)
            case VarPattern():
                return isinstance(expr, Var) and pattern.name in ("", expr.name_hint)
            case WildcardPattern():
                return pattern.pattern is None or self.visit(pattern.pattern, expr)
        raise TypeError(f"{type(pattern).__name__} is not a dataflow pattern")

    def all(self, patterns: Sequence[DFPattern] | None, exprs: Iterable[RelayExpr]) -> bool:
        """Say whether patterns describe expressions one by one; no patterns describe any expressions."""
        if patterns is None:
            return True
        given = list(exprs)
        mark = len(self.trail)
        if len(given) == len(patterns) and all(self.visit(p, e) for p, e in zip(patterns, given, strict=True)):
            return True
        self.forget(mark)
        return False

    def call(self, pattern: CallPattern, call: Call) -> bool:
        mark = len(self.trail)
        if self.visit(pattern.op, call.op):
            if self.all(pattern.args, call.args):
                return True
            is_commutative = names_operator(pattern, "add", "multiply") and pattern.args is not None
            return is_commutative and self.all(list(reversed(pattern.args or ())), call.args)
        self.forget(mark)
        return any(self.all([regrouped], [call]) for regrouped in _regrouped(pattern, call))

    def is_dominated(self, pattern: DominatorPattern, child: RelayExpr) -> bool:
        """Say whether all operands of a child lead back to one parent along the path, and all its uses to the child."""
        try:
            leads_back = self.leads_back(pattern, child, set())
        finally:
            self.is_bound = True
        return leads_back and any(self.visit(pattern.parent, each) for each in self.graph.dominated(child))

    def leads_back(self, pattern: DominatorPattern, expr: RelayExpr, done: set[RelayExpr]) -> bool:
        """Say whether each operand of an expression is the parent, or on the path and leads back to it itself."""
        op = expr.op if isinstance(expr, Call) else None
        operands = [each for each in children(expr) if not each.same_as(op)]
        for operand in operands:
            if operand in done:
                continue
            self.is_bound = True
            if not self.visit(pattern.parent, operand):
                self.is_bound = False
                if not self.visit(pattern.path, operand) or not self.leads_back(pattern, operand, done):
                    return False
            done.add(operand)
        return bool(operands)


def _regrouped(pattern: CallPattern, call: Call) -> list[CallPattern]:
    """Return patterns equal to ``a * b / c`` or ``a / c * b`` for a call of the other of the two operators."""
    if pattern.args is None or len(pattern.args) != 2 or not isinstance(call.op, Op):
        return []
    inner, other = pattern.args
    if names_operator(pattern, "divide") and names_operator(inner, "multiply") and call.op.name == "multiply":
        assert isinstance(inner, CallPattern)
        parts = inner.args or []
        return [CallPattern(inner.op, [parts[1 - i], CallPattern(pattern.op, [parts[i], other])]) for i in (0, 1)]
    if names_operator(pattern, "multiply") and call.op.name == "divide":
        found = []
        for quotient, factor in ((inner, other), (other, inner)):
            if names_operator(quotient, "divide") and isinstance(quotient, CallPattern) and quotient.args:
                product = CallPattern(pattern.op, [quotient.args[0], factor])
                found.append(CallPattern(quotient.op, [product, quotient.args[1]]))
        return found
    return []


def _type(expr: RelayExpr) -> Type | None:
    return None if isinstance(expr, Op) else type_of(expr)


def _is_same(expected: RelayExpr, expr: RelayExpr) -> bool:
    return expected.same_as(expr) or tvm_ffi.structural_equal(expected, expr)


def _has_shape(ty: Type | None, shape: Sequence[Dim]) -> bool:
    if not isinstance(ty, TensorType) or len(ty.shape) != len(shape):
        return False
    return all(tvm_ffi.structural_equal(a, b) for a, b in zip(ty.shape, shape, strict=True))


def _has_attrs(expr: RelayExpr, attrs: dict[str, Any]) -> bool:
    return all(_agrees(value, _attribute(expr, name)) for name, value in attrs.items())


def _attribute(expr: RelayExpr, name: str) -> Any:
    if isinstance(expr, Op):
        return operator_attribute(expr, name)
    if isinstance(expr, Function):
        return expr.attrs.get(name)
    if not isinstance(expr, Call):
        return None
    if isinstance(expr.attrs, DictAttrs):
        return expr.attrs.get(name)
    if expr.attrs is not None and any(f.name == name for f in expr.attrs.declared):
        return getattr(expr.attrs, name)
    return None


def _agrees(wanted: Any, got: Any) -> bool:
    if got is None or wanted is None:
        return got is wanted
    if hasattr(wanted, "__iter__") and not isinstance(wanted, str):
        return hasattr(got, "__iter__") and len(list(got)) == len(list(wanted)) and all(map(_agrees, wanted, got))
    return bool(str(wanted) == str(got) if isinstance(wanted, str) or isinstance(got, str) else wanted == got)
