"""Naming of values: the machinery of the normal forms that bind values by Lets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...stack import on_deep_stack
from ..analysis.scopes import Owner, hoisted
from ..ir import (
    Call,
    Clause,
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
    Tuple,
    TupleGetItem,
    Var,
)

__all__ = ["is_name", "normalized"]


def normalized(expr: RelayExpr, is_bound: Callable[[RelayExpr], bool], *, bind_results: bool) -> RelayExpr:
    """Return an expression (or function) with values bound by Lets, at the start of the scope that they are in.

    A value that several scopes share is bound before all of them; Lets inside operands are moved out.

    Parameters
    ----------
    expr : Expr or Function
        The expression.
    is_bound : callable
        Says which other values are bound. Those whose evaluation has an effect must be, so that they stay in order.
    bind_results : bool
        Whether the results of functions and branches are bound, too.
    """
    return on_deep_stack(_Normalizer(expr, is_bound, bind_results).run)


class _Normalizer:
    def __init__(self, expr: RelayExpr, is_bound: Callable[[RelayExpr], bool], bind_results: bool) -> None:
        self.expr = expr
        self.is_bound = is_bound
        self.bind_results = bind_results
        self.before = hoisted(expr)
        self.shared = {each for exprs in self.before.values() for each in exprs}
        self.atoms: dict[Any, Any] = {}
        self.bindings: list[tuple[Var, Any]] = []
        # Variables that another variable stands for, until the end of the scope.
        self.aliases: list[Var] = []

    def run(self) -> RelayExpr:
        return self.value(self.expr) if isinstance(self.expr, Function) else self.scope(self.expr)

    def scope(self, expr: RelayExpr) -> RelayExpr:
        """Return an expression with bindings of its own."""
        outer, self.bindings = self.bindings, []
        outer_aliases, self.aliases = self.aliases, []
        result = self.result(expr)
        for variable, value in reversed(self.bindings):
            result = Let(variable, value, result)
        for variable in self.aliases:
            self.atoms.pop(variable, None)
        self.bindings, self.aliases = outer, outer_aliases
        return result

    def result(self, expr: RelayExpr) -> RelayExpr:
        expr = self.unnested(expr)
        if self.bind_results or expr in self.atoms or expr in self.shared:
            return self.atom(expr)
        return self.value(expr)

    def unnested(self, expr: RelayExpr) -> RelayExpr:
        """Bind the variables of a chain of Lets, and return its body."""
        while isinstance(expr, Let) and expr not in self.atoms:
            self.bind(expr)
            expr = expr.body
        return expr

    def atom(self, expr: RelayExpr) -> RelayExpr:
        """Return what stands for an expression where it is an operand: a variable that is bound to it, or itself."""
        body = self.unnested(expr)
        if body not in self.atoms:
            self.atoms[body] = self.named(body)
        self.atoms[expr] = self.atoms[body]
        return self.atoms[expr]

    def named(self, expr: RelayExpr) -> RelayExpr:
        value = self.value(expr)
        if is_name(value) or not (expr in self.shared or self.is_bound(expr)):
            return value
        variable = Var("x")
        self.bindings.append((variable, value))
        return variable

    def bind(self, let: Let) -> None:
        """Bind a Let's variable; bindings inside its value come before it."""
        if let.value in self.atoms or isinstance(let.value, Let):
            self.bindings.append((let.var, self.atom(let.value)))
            return
        self.bindings.append((let.var, self.value(let.value)))
        if isinstance(let.value, Var):
            self.aliases.append(let.value)
        if isinstance(let.value, Var) or not is_name(let.value):
            self.atoms[let.value] = let.var

    def value(self, expr: RelayExpr) -> RelayExpr:
        """Return an expression, its operands bound, its branches normalised."""
        match expr:
            case Call():
                return self.call(expr)
            case Tuple():
                return Tuple([self.atom(f) for f in expr.fields], expr.span)
            case TupleGetItem():
                return TupleGetItem(self.atom(expr.tuple_value), expr.index, expr.span)
            case RefCreate():
                return RefCreate(self.atom(expr.value), expr.span)
            case RefRead():
                return RefRead(self.atom(expr.ref), expr.span)
            case RefWrite():
                ref = self.atom(expr.ref)
                return RefWrite(ref, self.atom(expr.value), expr.span)
            case If():
                cond = self.atom(expr.cond)
                self.bind_before(expr)
                return If(cond, self.scope(expr.true_branch), self.scope(expr.false_branch), expr.span)
            case Match():
                data = self.atom(expr.data)
                self.bind_before(expr)
                clauses = [Clause(c.lhs, self.scope(c.rhs)) for c in expr.clauses]
                return Match(data, clauses, expr.complete, expr.span)
            case Function() if not expr.attrs.get("Primitive"):
                self.bind_before(expr)
                return _with_body(expr, self.scope(expr.body))
        return expr

    def call(self, call: Call) -> RelayExpr:
        # A function that stands where it is called is bound right before the call: making it has no effect.
        op = None if isinstance(call.op, Function) else self.atom(call.op)
        args = [self.atom(arg) for arg in call.args]
        return Call(op or self.atom(call.op), args, call.attrs, list(call.type_args), call.span)

    def bind_before(self, owner: Owner) -> None:
        for shared in self.before.get(owner, ()):
            self.atom(shared)


def is_name(expr: RelayExpr) -> bool:
    return isinstance(expr, Var | GlobalVar | Op | Constructor)


def _with_body(function: Function, body: RelayExpr) -> Function:
    params, types = list(function.params), list(function.type_params)
    return Function(params, body, function.ret_type, types, function.attrs, function.span)
