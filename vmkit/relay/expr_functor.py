"""Visitors of expressions for users to derive from, with the names that Relay gave their methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..stack import on_deep_stack
from .ir import (
    Call,
    Clause,
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
    Tuple,
    TupleGetItem,
    Type,
    Var,
    children,
    post_order,
)
from .ir.visit import rebuilt, same_nodes
from .pattern_functor import renamed_pattern

__all__ = ["ExprFunctor", "ExprMutator", "ExprVisitor"]

R = TypeVar("R")

_METHODS: dict[type, str] = {
    Call: "visit_call",
    Constant: "visit_constant",
    Constructor: "visit_constructor",
    Function: "visit_function",
    GlobalVar: "visit_global_var",
    If: "visit_if",
    Let: "visit_let",
    Match: "visit_match",
    Op: "visit_op",
    RefCreate: "visit_ref_create",
    RefRead: "visit_ref_read",
    RefWrite: "visit_ref_write",
    Tuple: "visit_tuple",
    TupleGetItem: "visit_tuple_getitem",
    Var: "visit_var",
}

# A level of nesting takes about three Python frames of the thousand that there are.
_SHALLOW = 150


def _is_deep(expr: RelayExpr) -> bool:
    depth: dict[Any, int] = {}
    for node in post_order(expr):
        depth[node] = 1 + max((depth[part] for part in children(node)), default=0)
        if depth[node] > _SHALLOW:
            return True
    return False


class ExprFunctor(Generic[R]):
    """A function over expressions: one method for each kind of them, and every expression visited once.

    :meth:`visit` calls ``visit_call``, ``visit_var``, ``visit_let`` and so on, and remembers their results in
    ``memo_map``. An expression that is deeper than Python's stack is visited on a thread with a larger one.
    """

    def __init__(self) -> None:
        self.memo_map: dict[Any, R] = {}
        self._is_visiting = False

    def visit(self, expr: RelayExpr) -> R:
        """Return the result of an expression."""
        if expr in self.memo_map:
            return self.memo_map[expr]
        if type(expr) not in _METHODS:
            raise TypeError(f"{type(expr).__name__} is not a Relay expression")
        if getattr(self, "_is_visiting", False):
            result: R = getattr(self, _METHODS[type(expr)])(expr)
        else:
            result = self._visit_outermost(expr)
        self.memo_map[expr] = result
        return result

    def _visit_outermost(self, expr: RelayExpr) -> R:
        method: Callable[[RelayExpr], R] = getattr(self, _METHODS[type(expr)])
        self._is_visiting = True
        try:
            return on_deep_stack(method, expr) if _is_deep(expr) else method(expr)
        finally:
            self._is_visiting = False

    def visit_call(self, call: Call) -> R:
        raise NotImplementedError

    def visit_constant(self, const: Constant) -> R:
        raise NotImplementedError

    def visit_constructor(self, con: Constructor) -> R:
        raise NotImplementedError

    def visit_function(self, fn: Function) -> R:
        raise NotImplementedError

    def visit_global_var(self, gvar: GlobalVar) -> R:
        raise NotImplementedError

    def visit_if(self, ite: If) -> R:
        raise NotImplementedError

    def visit_let(self, let: Let) -> R:
        raise NotImplementedError

    def visit_match(self, match: Match) -> R:
        raise NotImplementedError

    def visit_op(self, op: Op) -> R:
        raise NotImplementedError

    def visit_ref_create(self, ref: RefCreate) -> R:
        raise NotImplementedError

    def visit_ref_read(self, ref: RefRead) -> R:
        raise NotImplementedError

    def visit_ref_write(self, ref: RefWrite) -> R:
        raise NotImplementedError

    def visit_tuple(self, tup: Tuple) -> R:
        raise NotImplementedError

    def visit_tuple_getitem(self, item: TupleGetItem) -> R:
        raise NotImplementedError

    def visit_type(self, ty: Type) -> Type:
        """Return a type; nothing here calls it, as in Relay."""
        return ty

    def visit_var(self, var: Var) -> R:
        raise NotImplementedError


class ExprVisitor(ExprFunctor[None]):
    """Visits every expression below one, each once, in the order of evaluation.

    Examples
    --------
    >>> from vmkit import relay
    >>> class Operators(relay.ExprVisitor):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.names = []
    ...     def visit_op(self, op):
    ...         self.names.append(op.name)
    >>> operators, x = Operators(), relay.var("x", "float32")
    >>> operators.visit(relay.exp(x + x))
    >>> operators.names
    ['exp', 'add']
    """

    def visit_call(self, call: Call) -> None:
        self.visit(call.op)
        for arg in call.args:
            self.visit(arg)

    def visit_constant(self, const: Constant) -> None:
        pass

    def visit_constructor(self, con: Constructor) -> None:
        pass

    def visit_function(self, fn: Function) -> None:
        for param in fn.params:
            self.visit(param)
        self.visit(fn.body)

    def visit_global_var(self, gvar: GlobalVar) -> None:
        pass

    def visit_if(self, ite: If) -> None:
        self.visit(ite.cond)
        self.visit(ite.true_branch)
        self.visit(ite.false_branch)

    def visit_let(self, let: Let) -> None:
        self.visit(let.var)
        self.visit(let.value)
        self.visit(let.body)

    def visit_match(self, match: Match) -> None:
        self.visit(match.data)
        for clause in match.clauses:
            self.visit(clause.rhs)

    def visit_op(self, op: Op) -> None:
        pass

    def visit_ref_create(self, ref: RefCreate) -> None:
        self.visit(ref.value)

    def visit_ref_read(self, ref: RefRead) -> None:
        self.visit(ref.ref)

    def visit_ref_write(self, ref: RefWrite) -> None:
        self.visit(ref.ref)
        self.visit(ref.value)

    def visit_tuple(self, tup: Tuple) -> None:
        for part in tup.fields:
            self.visit(part)

    def visit_tuple_getitem(self, item: TupleGetItem) -> None:
        self.visit(item.tuple_value)

    def visit_var(self, var: Var) -> None:
        pass


class ExprMutator(ExprFunctor[RelayExpr]):
    """Builds an expression anew where it changes; override the methods of what shall become something else.

    An expression whose parts are what they were is itself the result. New ones have no types:
    ``relay.transform.InferType`` finds them again.
    """

    def visit_call(self, call: Call) -> RelayExpr:
        return self._with_parts(call, [self.visit(call.op), *(self.visit(arg) for arg in call.args)])

    def visit_constant(self, const: Constant) -> RelayExpr:
        return const

    def visit_constructor(self, con: Constructor) -> RelayExpr:
        return con

    def visit_function(self, fn: Function) -> RelayExpr:
        return self._with_parts(fn, [*(self.visit(param) for param in fn.params), self.visit(fn.body)])

    def visit_global_var(self, gvar: GlobalVar) -> RelayExpr:
        return gvar

    def visit_if(self, ite: If) -> RelayExpr:
        return self._with_parts(ite, [self.visit(ite.cond), self.visit(ite.true_branch), self.visit(ite.false_branch)])

    def visit_let(self, let: Let) -> RelayExpr:
        return self._with_parts(let, [self.visit(let.var), self.visit(let.value), self.visit(let.body)])

    def visit_match(self, match: Match) -> RelayExpr:
        data = self.visit(match.data)
        clauses = [Clause(renamed_pattern(c.lhs, self.visit), self.visit(c.rhs)) for c in match.clauses]
        made = Match(data, clauses, match.complete, match.span)
        return match if same_nodes(children(made), children(match)) else made

    def visit_op(self, op: Op) -> RelayExpr:
        return op

    def visit_ref_create(self, ref: RefCreate) -> RelayExpr:
        return self._with_parts(ref, [self.visit(ref.value)])

    def visit_ref_read(self, ref: RefRead) -> RelayExpr:
        return self._with_parts(ref, [self.visit(ref.ref)])

    def visit_ref_write(self, ref: RefWrite) -> RelayExpr:
        return self._with_parts(ref, [self.visit(ref.ref), self.visit(ref.value)])

    def visit_tuple(self, tup: Tuple) -> RelayExpr:
        return self._with_parts(tup, [self.visit(part) for part in tup.fields])

    def visit_tuple_getitem(self, item: TupleGetItem) -> RelayExpr:
        return self._with_parts(item, [self.visit(item.tuple_value)])

    def visit_var(self, var: Var) -> RelayExpr:
        return var

    def _with_parts(self, expr: RelayExpr, parts: list[RelayExpr]) -> RelayExpr:
        return expr if same_nodes(parts, children(expr)) else rebuilt(expr, parts)
