"""Defunctionalisation: functions as values become values of data types, and calls of them a Match.

For each type of functions that are values there is a data type with a constructor for each such function, whose
fields are the variables that the function has from around it, and a global function that applies a value of it (J. C.
Reynolds, "Definitional interpreters for higher-order programming languages", 1972). Functions with type parameters are
copied for the types that they are used with, so that the types of functions are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import tvm
from tvm.ir import GlobalVar

from ...errors import ModelError
from ...stack import on_deep_stack
from ..ir import (
    Call,
    Clause,
    Constructor,
    Function,
    FuncType,
    If,
    Let,
    Match,
    Op,
    PatternConstructor,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    TypeCall,
    Var,
    find_type,
    free_vars,
    type_parts,
    type_text,
)
from ..pattern_functor import renamed_pattern
from .function_encoding import FunctionEncoding, matched
from .type_substitution import TypeSubstitution

__all__ = ["Defunctionalization"]


def Defunctionalization(func: Function, mod: tvm.IRModule) -> Function:
    """Return a typed function that computes the same without functions as values.

    The data types and functions that it needs are added to the module, in place.

    Parameters
    ----------
    func : Function
        The function, its types inferred, without type parameters; it neither takes nor returns functions.
    mod : tvm.IRModule
        The module of the global functions that it calls, their types inferred.

    Raises
    ------
    ModelError
        When the function has type parameters or functions in its own type, or a function with type parameters is bound
        by a Let.
    """
    if func.type_params:
        raise ModelError("a function with type parameters cannot be defunctionalised: its types are not known")
    ty = func.checked_type
    if any(_has_function(part) for part in (*ty.arg_types, ty.ret_type)):
        raise ModelError(
            f"a function of type {ty} takes or returns functions: there is nobody to apply their encodings"
        )
    encoding = FunctionEncoding(mod, _first_order)
    made = on_deep_stack(_first_order, encoding, func, {})
    encoding.finish()
    return made


def _has_function(ty: Type) -> bool:
    return isinstance(ty, FuncType) or any(map(_has_function, type_parts(ty)))


def _first_order(encoding: FunctionEncoding, function: Function, types: Mapping[Any, Type]) -> Function:
    return _Body(encoding, types).function(function)


class _Body:
    """A function, written without functions as values, for some types of its type variables."""

    def __init__(
        self, encoding: FunctionEncoding, types: Mapping[Any, Type], values: Mapping[Any, RelayExpr] | None = None
    ) -> None:
        self.encoding = encoding
        self.types = dict(types)
        self.instantiated = TypeSubstitution(self.types)
        self.done: dict[Any, RelayExpr] = dict(values or {})

    def type_of(self, expr: RelayExpr) -> Type:
        return self.instantiated.visit(expr.checked_type)

    def variable(self, var: Var) -> Var:
        if var not in self.done:
            self.done[var] = Var(var.name_hint, self.encoding.encoded.visit(self.type_of(var)), var.span)
        return cast("Var", self.done[var])

    def function(self, function: Function) -> Function:
        params = [self.variable(p) for p in function.params]
        result = self.instantiated.visit(function.checked_type.ret_type)
        body = self.value(function.body, result)
        return Function(params, body, self.encoding.encoded.visit(result), [], function.attrs, function.span)

    def value(self, expr: RelayExpr, ty: Type) -> RelayExpr:
        """Return an expression as a value of a type."""
        if isinstance(expr, Function | GlobalVar | Op | Constructor):
            assert isinstance(ty, FuncType)
            return self.encode(expr, ty, None)
        if isinstance(expr, Var):
            return self.variable(expr)
        if expr not in self.done:
            self.done[expr] = self.compute(expr, ty)
        return self.done[expr]

    def plain(self, expr: RelayExpr) -> RelayExpr:
        return self.value(expr, self.type_of(expr))

    def compute(self, expr: RelayExpr, ty: Type) -> RelayExpr:
        match expr:
            case Call():
                return self.call(expr)
            case Let():
                value = self.bound(expr.var, expr.value)
                return Let(self.variable(expr.var), value, self.value(expr.body, ty), expr.span)
            case If():
                cond = self.plain(expr.cond)
                return If(cond, self.value(expr.true_branch, ty), self.value(expr.false_branch, ty), expr.span)
            case Match():
                data = self.plain(expr.data)
                clauses = [Clause(renamed_pattern(c.lhs, self.variable), self.value(c.rhs, ty)) for c in expr.clauses]
                return Match(data, clauses, expr.complete, expr.span)
            case Tuple():
                assert isinstance(ty, TupleType)
                return Tuple([self.value(f, part) for f, part in zip(expr.fields, ty.fields, strict=True)], expr.span)
            case TupleGetItem():
                return TupleGetItem(self.plain(expr.tuple_value), expr.index, expr.span)
            case RefCreate():
                return RefCreate(self.value(expr.value, type_parts(ty)[0]), expr.span)
            case RefRead():
                return RefRead(self.plain(expr.ref), expr.span)
            case RefWrite():
                stored = type_parts(self.type_of(expr.ref))[0]
                return RefWrite(self.plain(expr.ref), self.value(expr.value, stored), expr.span)
        return expr

    def bound(self, var: Var, value: RelayExpr) -> RelayExpr:
        ty = self.type_of(value) if not isinstance(value, Function) else self.type_of(var)
        if isinstance(ty, FuncType) and ty.type_params:
            raise ModelError(
                f"%{var.name_hint} is bound to a function with type parameters; LambdaLift makes it global"
            )
        if isinstance(value, Function):
            assert isinstance(ty, FuncType)
            return self.encode(value, ty, var)
        return self.value(value, ty)

    # -- calls

    def call(self, call: Call) -> RelayExpr:
        match call.op:
            case Op():
                return Call(call.op, [self.plain(arg) for arg in call.args], call.attrs, span=call.span)
            case Constructor():
                return Call(call.op, self.args(call, self.inputs_of(call)), span=call.span)
            case GlobalVar():
                function = self.encoding.mod[call.op]
                type_args = self.type_args(call, function)
                types = TypeSubstitution(dict(zip(function.type_params, type_args, strict=True)))
                args = self.args(call, [types.visit(p.checked_type) for p in function.params])
                return Call(self.encoding.copy(call.op, type_args), args, span=call.span)
            case Function():
                return self.reduced(call, call.op, self.type_args(call, call.op))
        ty = self.type_of(call.op)
        assert isinstance(ty, FuncType)
        args = self.args(call, list(ty.arg_types))
        return Call(self.encoding.applied(ty).apply, [self.value(call.op, ty), *args], span=call.span)

    def type_args(self, call: Call, function: Function) -> list[Type]:
        """Return the types that a function's type parameters stand for in a call."""
        if len(call.type_args) == len(function.type_params):
            return [self.instantiated.visit(arg) for arg in call.type_args]
        types: dict[Any, Type] = {}
        matched(function.checked_type.ret_type, self.type_of(call), types)
        for param, arg in zip(function.params, call.args, strict=True):
            # The types of names and of functions with type parameters follow from the call, not the other way round.
            if not isinstance(arg, GlobalVar | Op | Constructor) and not getattr(arg, "type_params", ()):
                matched(param.checked_type, self.type_of(arg), types)
        missing = [v.name_hint for v in function.type_params if v not in types]
        if missing:
            raise ModelError(f"the type arguments of a call are not known: {', '.join(missing)}; give type_args")
        return [types[v] for v in function.type_params]

    def args(self, call: Call, types: Iterable[Type]) -> list[RelayExpr]:
        return [self.value(arg, ty) for arg, ty in zip(call.args, types, strict=True)]

    def inputs_of(self, call: Call) -> list[Type]:
        """Return the types of what a constructor takes in a call."""
        made = self.type_of(call)
        assert isinstance(made, TypeCall)
        data = find_type(self.encoding.mod, call.op.belong_to)
        types = TypeSubstitution(dict(zip(data.type_vars, made.args, strict=True)))
        return [types.visit(ty) for ty in call.op.inputs]

    def reduced(self, call: Call, function: Function, type_args: Sequence[Type]) -> RelayExpr:
        """Return the call of a function where it stands as Lets of its parameters."""
        self.types.update(zip(function.type_params, type_args, strict=True))
        args = self.args(call, [self.type_of(p) for p in function.params])
        body = self.value(function.body, self.type_of(function.body))
        for param, arg in reversed(list(zip(function.params, args, strict=True))):
            body = Let(self.variable(param), arg, body)
        return body

    # -- functions as values

    def encode(self, function: RelayExpr, ty: FuncType, own_name: Var | None) -> RelayExpr:
        """Return what stands for a function of a type; `own_name` is what it may call itself by."""
        if isinstance(function, Function):
            return self.encode_literal(function, ty, own_name)
        if isinstance(function, Op):
            raise ModelError(f"operator {function.name} is used as a value; write a function that calls it")
        if isinstance(function, Constructor):
            made = self.encoding.constructor(ty, function.name_hint, [])
            self.add_clause(ty, made, [], Call(function, self.encoding.applied(ty).args))
            return Call(made, [])
        return self.encode_global(cast("GlobalVar", function), ty)

    def encode_global(self, function: GlobalVar, ty: FuncType) -> RelayExpr:
        key = (function, type_text(ty))
        if key not in self.encoding.of_global:
            made = self.encoding.of_global[key] = self.encoding.constructor(ty, function.name_hint, [])
            types: dict[Any, Type] = {}
            matched(FuncType(*self.signature(function)), ty, types)
            args = [types[v] for v in self.encoding.mod[function].type_params]
            called = self.encoding.copy(function, args)
            self.add_clause(ty, made, [], Call(called, self.encoding.applied(ty).args))
        return Call(self.encoding.of_global[key], [])

    def signature(self, gvar: GlobalVar) -> tuple[list[Type], Type]:
        function = self.encoding.mod[gvar]
        return [p.checked_type for p in function.params], function.checked_type.ret_type

    def encode_literal(self, function: Function, ty: FuncType, own_name: Var | None) -> RelayExpr:
        captured = [v for v in free_vars(function) if own_name is None or not v.same_as(own_name)]
        types = dict(self.types)
        matched(FuncType([p.checked_type for p in function.params], function.checked_type.ret_type), ty, types)
        inputs = [self.encoding.encoded.visit(self.type_of(v)) for v in captured]
        made = self.encoding.constructor(ty, "lambda", inputs)
        applied = self.encoding.applied(ty)
        # Each clause has its own variables for what was captured; a function calls itself by what it is encoded as.
        fields = [Var(v.name_hint, field) for v, field in zip(captured, inputs, strict=True)]
        values: dict[Any, RelayExpr] = dict(zip(captured, fields, strict=True))
        values.update(zip(function.params, applied.args, strict=True))
        if own_name is not None:
            values[own_name] = applied.value
        body = _Body(self.encoding, types, values).value(function.body, ty.ret_type)
        self.add_clause(ty, made, fields, body)
        return Call(made, [self.variable(v) for v in captured])

    def add_clause(self, ty: FuncType, made: Constructor, fields: Sequence[Var], body: RelayExpr) -> None:
        clause = Clause(PatternConstructor(made, [PatternVar(v) for v in fields]), body)
        self.encoding.applied(ty).clauses.append(clause)
