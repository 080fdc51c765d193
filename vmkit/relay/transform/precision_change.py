"""Rewriting in which values get another floating data type, with casts where the program asks for the one they had."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from ..expr_functor import ExprMutator
from ..ir import (
    Call,
    Clause,
    Expr,
    Function,
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
    TupleType,
    Type,
    Var,
)
from ..op.registry import build
from .known_type import type_of, with_type_of

__all__ = ["PrecisionChange", "is_float"]


def is_float(dtype: str) -> bool:
    """Say whether a data type is a floating one, of any width."""
    return "float" in dtype


class PrecisionChange(ExprMutator):
    """The rewriting of typed functions, in which :meth:`changed_call` says what becomes of operators.

    Values of tensors, and of tuples of them, go on in the data type that they got, through variables of ``Let`` and
    branches too. Parameters and results of functions, references and algebraic data types keep their types.

    Parameters
    ----------
    dtype : str
        The data type that values get.
    """

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.dtype = dtype
        self.casts: dict[tuple[Any, str], Any] = {}

    @abstractmethod
    def changed_call(self, call: Call, args: Sequence[RelayExpr]) -> RelayExpr:
        """Return what stands for a call of an operator whose arguments have become `args`."""

    def changes(self, dtype: str) -> bool:
        """Say whether values of a data type may get the other one."""
        return is_float(dtype)

    def keeps_result(self, _: Function) -> bool:
        """Say whether the result of a function has to have the type that it had."""
        return True

    # -- casts

    def cast(self, expr: RelayExpr, dtype: str) -> RelayExpr:
        """Return a tensor cast, once; a cast back is what was cast."""
        known = type_of(expr).dtype
        if known == dtype or not is_float(known):
            return expr
        if (expr, dtype) not in self.casts:
            made = build("cast", expr, dtype=dtype)
            type_of(made)
            self.casts[expr, dtype] = made
            self.casts[made, known] = expr
        return self.casts[expr, dtype]

    def converted(self, expr: RelayExpr) -> RelayExpr:
        """Return a value with all its tensors that may change in the data type that values get."""
        return self.mapped(
            expr, type_of(expr), lambda tensor, ty: self.cast(tensor, self.dtype) if self.changes(ty.dtype) else tensor
        )

    def restored(self, expr: RelayExpr, ty: Type) -> RelayExpr:
        """Return a value in the precision that it had."""
        return self.mapped(expr, ty, lambda tensor, wanted: self.cast(tensor, wanted.dtype))

    def restored_args(self, call: Call, args: Sequence[RelayExpr]) -> list[RelayExpr]:
        """Return the arguments of a call in the precision that they had."""
        return [self.restored(a, old.checked_type) for a, old in zip(args, call.args, strict=True)]

    def mapped(self, expr: RelayExpr, ty: Type, change: Callable[[RelayExpr, TensorType], RelayExpr]) -> RelayExpr:
        """Return a value with each of its tensors changed, of which there are none but in tuples."""
        if isinstance(ty, TensorType):
            return change(expr, ty)
        if not isinstance(ty, TupleType):
            return expr
        fields = expr.fields if isinstance(expr, Tuple) else [TupleGetItem(expr, i) for i in range(len(ty.fields))]
        changed = [self.mapped(f, t, change) for f, t in zip(fields, ty.fields, strict=True)]
        if all(a.same_as(b) for a, b in zip(changed, fields, strict=True)):
            return expr
        return Tuple(changed)

    def is_converted(self, ty: Type) -> bool:
        """Say whether no tensor of a type has a floating data type but the one that values get."""
        if isinstance(ty, TupleType):
            return all(self.is_converted(f) for f in ty.fields)
        return isinstance(ty, TensorType) and (ty.dtype == self.dtype or not is_float(ty.dtype))

    def agreeing(self, exprs: Sequence[RelayExpr], ty: Type) -> list[RelayExpr]:
        """Return alternatives as they are, where their precision is the same, or else in what it was."""
        return (
            list(exprs) if all(self.is_converted(type_of(e)) for e in exprs) else [self.restored(e, ty) for e in exprs]
        )

    # -- expressions

    def visit_call(self, call: Call) -> RelayExpr:
        args = [self.visit(a) for a in call.args]
        if isinstance(call.op, Op):
            return self.changed_call(call, args)
        args = self.restored_args(call, args)
        return with_type_of(Call(self.visit(call.op), args, call.attrs, list(call.type_args), call.span), call)

    def visit_let(self, let: Let) -> RelayExpr:
        chain = []
        body: Any = let
        while isinstance(body, Let):
            value = self.visit(body.value)
            variable = body.var
            if not isinstance(body.value, Function):  # whose type stays, and which may refer to its variable
                variable = Var(variable.name_hint, type_of(value), variable.span)
                self.memo_map[body.var] = variable
            chain.append((variable, value, body.span))
            body = body.body
        result = self.visit(body)
        ty = type_of(result)
        for variable, value, span in reversed(chain):
            result = Let(variable, value, result, span)
            result.checked_type_ = ty
        return result

    def visit_function(self, fn: Function) -> RelayExpr:
        body = self.visit(fn.body)
        keeps = self.keeps_result(fn)
        if keeps:
            body = self.restored(body, fn.checked_type.ret_type)
        ret_type = fn.ret_type if keeps else None
        made = Function(list(fn.params), body, ret_type, list(fn.type_params), fn.attrs, fn.span)
        return with_type_of(made, fn) if keeps else made

    def visit_if(self, ite: If) -> RelayExpr:
        cond = self.visit(ite.cond)
        then, other = self.agreeing([self.visit(ite.true_branch), self.visit(ite.false_branch)], ite.checked_type)
        return _like(If(cond, then, other, ite.span), then)

    def visit_match(self, match: Match) -> RelayExpr:
        data = self.restored(self.visit(match.data), match.data.checked_type)
        sides = self.agreeing([self.visit(c.rhs) for c in match.clauses], match.checked_type)
        clauses = [Clause(c.lhs, side) for c, side in zip(match.clauses, sides, strict=True)]
        made = Match(data, clauses, match.complete, match.span)
        return _like(made, sides[0]) if sides else with_type_of(made, match)

    def visit_ref_create(self, ref: RefCreate) -> RelayExpr:
        return with_type_of(RefCreate(self.restored(self.visit(ref.value), ref.value.checked_type), ref.span), ref)

    def visit_ref_write(self, ref: RefWrite) -> RelayExpr:
        value = self.restored(self.visit(ref.value), ref.value.checked_type)
        return with_type_of(RefWrite(self.visit(ref.ref), value, ref.span), ref)

    def visit_ref_read(self, ref: RefRead) -> RelayExpr:
        return with_type_of(super().visit_ref_read(ref), ref)

    def visit_tuple_getitem(self, item: TupleGetItem) -> RelayExpr:
        return TupleGetItem(self.visit(item.tuple_value), item.index, item.span)


def _like(made: Expr, part: RelayExpr) -> Expr:
    """Note that an expression has the type of a part of it."""
    made.checked_type_ = type_of(part)
    return made
