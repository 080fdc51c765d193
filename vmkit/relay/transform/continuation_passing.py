"""Continuation passing style: a function hands its result to a function that it is given, its continuation.

``a -> b`` becomes ``(a, b -> answer) -> answer`` for a type variable ``answer``; what follows a branch becomes a
function that both branches call. After A. W. Appel, "Compiling with Continuations", 1992.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import tvm
from tvm.ir import GlobalVar

from ...errors import ModelError
from ...stack import on_deep_stack
from ..analysis.features import Feature, detect_feature
from ..analysis.infer_type import infer_module
from ..ir import (
    Call,
    Clause,
    Constant,
    Constructor,
    Function,
    FuncType,
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
    TypeVar,
    Var,
    post_order,
)
from ..pattern_functor import renamed_pattern
from ..type_functor import TypeMutator
from .a_normal_form import to_a_normal_form
from .type_substitution import TypeSubstitution

__all__ = ["to_cps", "un_cps"]

# What follows a value, while the program is built. It takes something that may be written down again: a variable, a
# name, or a tuple or field of such; and it is called once, as what it builds would stand there twice.
Rest = Callable[[RelayExpr], RelayExpr]


def to_cps(func: Function, mod: tvm.IRModule | None = None) -> Function:
    """Return a typed function in continuation passing style.

    Parameters
    ----------
    func : Function
        The function, its types inferred.
    mod : tvm.IRModule, optional
        The module of the global functions that it calls. Their counterparts, called ``f_cps`` for ``f``, are added to
        it, in place.

    Returns
    -------
    Function
        It takes the continuation last, and abstracts over the type of the answer last.

    Raises
    ------
    ModelError
        When the function has functions marked ``Primitive``: fusion comes after this.
    """
    conversion = _Conversion(mod if mod is not None else tvm.IRModule())
    return on_deep_stack(conversion.function, func)


def un_cps(func: Function) -> Function:
    """Return a function that calls one in continuation passing style, and returns what that hands on.

    Parameters
    ----------
    func : Function
        What :func:`to_cps` returned, its types inferred.

    Raises
    ------
    ModelError
        When the function takes no continuation last.
    """
    ty = func.checked_type
    last = ty.arg_types[-1] if ty.arg_types else None
    if not isinstance(last, FuncType) or len(last.arg_types) != 1 or not ty.type_params:
        raise ModelError(f"a function of type {ty} takes no continuation; to_cps makes those that do")
    answer = ty.type_params[-1]
    fresh = {old: TypeVar(old.name_hint, old.kind) for old in func.type_params if not old.same_as(answer)}
    renamed = TypeSubstitution(fresh)
    result = renamed.visit(last.arg_types[0])
    params = [Var(p.name_hint, renamed.visit(p.checked_type)) for p in list(func.params)[:-1]]
    x = Var("x", result)
    # The answer is the result itself, as nothing follows.
    call = Call(func, [*params, Function([x], x, result)], type_args=[*fresh.values(), result])
    return Function(params, call, result, list(fresh.values()), func.attrs, func.span)


class _CpsTypes(TypeMutator):
    """Types in which functions take continuations."""

    def __init__(self, answer: TypeVar) -> None:
        self.answer = answer

    def visit_func_type(self, ty: FuncType) -> FuncType:
        args = [self.visit(arg) for arg in ty.arg_types]
        rest = FuncType([self.visit(ty.ret_type)], self.answer)
        return FuncType([*args, rest], self.answer, list(ty.type_params))


class _Conversion:
    """The conversion of a function, and of the global functions that it calls."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod = mod
        self.made: dict[GlobalVar, GlobalVar] = {}

    def function(self, function: Function) -> Function:
        """Return a function of the module, or one by itself, in continuation passing style."""
        if Feature.fGraph in detect_feature(function):
            # A shared expression is computed once; here it would be written down at each use.
            function = cast("Function", to_a_normal_form(function))
            infer_module(tvm.IRModule({**dict(self.mod.functions.items()), GlobalVar("the function"): function}))
        answer = TypeVar("answer")
        made = _Body(self, function, answer).function(function)
        types = [*function.type_params, answer]
        return Function(list(made.params), made.body, made.ret_type, types, made.attrs, made.span)

    def global_function(self, gvar: GlobalVar) -> GlobalVar:
        if gvar not in self.made:
            found = self.mod[gvar]
            if not isinstance(found, Function):
                raise ModelError(f"{gvar.name_hint} is no function of Relay's: it takes no continuation")
            self.made[gvar] = GlobalVar(f"{gvar.name_hint}_cps")
            self.mod[self.made[gvar]] = self.function(found)
        return self.made[gvar]


class _Body:
    """The conversion of what stands in one function."""

    def __init__(self, conversion: _Conversion, function: Function, answer: TypeVar) -> None:
        self.conversion = conversion
        self.answer = answer
        self.types = _CpsTypes(answer)
        variables = [node for node in post_order(function) if isinstance(node, Var)]
        self.vars: dict[Any, Var] = {v: Var(v.name_hint, self.types.visit(v.checked_type)) for v in variables}

    def function(self, function: Function) -> Function:
        if function.attrs.get("Primitive"):
            raise ModelError("a function marked Primitive takes no continuation: fuse after the conversion")
        result = self.types.visit(function.checked_type.ret_type)
        rest = Var("k", FuncType([result], self.answer))
        params = [*(self.vars[p] for p in function.params), rest]
        body = self.visit(function.body, lambda value: Call(rest, [value]))
        return Function(params, body, self.answer, list(function.type_params), function.attrs, function.span)

    def visit(self, expr: RelayExpr, rest: Rest) -> RelayExpr:
        """Return an expression followed by the rest."""
        match expr:
            case Var():
                return rest(self.vars.get(expr, expr))
            case Constant() | Op() | Constructor():
                return rest(expr)
            case GlobalVar():
                return rest(self.conversion.global_function(expr))
            case Function():
                return rest(self.function(expr))
            case Let():
                return self.visit(
                    expr.value, lambda value: Let(self.vars[expr.var], value, self.visit(expr.body, rest), expr.span)
                )
            case If() | Match():
                return self.branching(expr, rest)
            case Call():
                return self.call(expr, rest)
        return self.composed(expr, rest)

    def composed(self, expr: RelayExpr, rest: Rest) -> RelayExpr:
        match expr:
            case Tuple():
                return self.all(list(expr.fields), lambda fields: rest(Tuple(fields, expr.span)))
            case TupleGetItem():
                return self.visit(expr.tuple_value, lambda value: rest(TupleGetItem(value, expr.index, expr.span)))
            case RefCreate():
                return self.visit(expr.value, lambda value: _bound(RefCreate(value, expr.span), rest))
            case RefRead():
                return self.visit(expr.ref, lambda ref: _bound(RefRead(ref, expr.span), rest))
            case RefWrite():
                parts = [expr.ref, expr.value]
                return self.all(parts, lambda new: _bound(RefWrite(new[0], new[1], expr.span), rest))
        raise TypeError(f"{type(expr).__name__} is not a Relay expression")

    def all(self, exprs: Sequence[RelayExpr], rest: Callable[[list[RelayExpr]], RelayExpr]) -> RelayExpr:
        """Return expressions, one after the other, followed by the rest."""

        def following(done: list[RelayExpr]) -> RelayExpr:
            if len(done) == len(exprs):
                return rest(done)
            return self.visit(exprs[len(done)], lambda value: following([*done, value]))

        return following([])

    def call(self, call: Call, rest: Rest) -> RelayExpr:
        if isinstance(call.op, Op | Constructor):
            return self.all(
                list(call.args),
                lambda args: _bound(Call(call.op, args, call.attrs, list(call.type_args), call.span), rest),
            )
        # The type of the answer is one more type argument, which type inference finds.
        return self.all(
            [call.op, *call.args], lambda new: Call(new[0], [*new[1:], _as_function(rest)], call.attrs, span=call.span)
        )

    def branching(self, expr: If | Match, rest: Rest) -> RelayExpr:
        """Return an If or Match, each of whose branches is followed by a call of the rest."""
        join = Var("k")

        def joined(value: RelayExpr) -> RelayExpr:
            return Call(join, [value])

        def branches(value: RelayExpr) -> RelayExpr:
            if isinstance(expr, If):
                on_true, on_false = self.visit(expr.true_branch, joined), self.visit(expr.false_branch, joined)
                return If(value, on_true, on_false, expr.span)
            clauses = [
                Clause(renamed_pattern(c.lhs, self.vars.__getitem__), self.visit(c.rhs, joined)) for c in expr.clauses
            ]
            return Match(value, clauses, expr.complete, expr.span)

        decided_by = expr.cond if isinstance(expr, If) else expr.data
        return Let(join, _as_function(rest), self.visit(decided_by, branches))


def _as_function(rest: Rest) -> Function:
    arg = Var("arg")
    return Function([arg], rest(arg))


def _bound(value: RelayExpr, rest: Rest) -> Let:
    """Return a value with a name, followed by the rest: it is computed once, and here."""
    name = Var("x")
    return Let(name, value, rest(name))
