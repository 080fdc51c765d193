"""Partial evaluation: what does not depend on the inputs is computed when compiling, control flow and calls included.

Each value is known in part (see :mod:`.partial_values`); what is left to do becomes a row of Lets. Functions are
unfolded where they are called, which ends because each entry has to make progress on the arguments; see N. D. Jones,
C. K. Gomard and P. Sestoft, "Partial Evaluation and Automatic Program Generation", 1993.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, cast

import tvm
from tvm.ir import GlobalVar

from ...stack import on_deep_stack
from ..analysis.features import Feature, detect_feature
from ..analysis.infer_type import infer_module
from ..ir import (
    Call,
    Clause,
    Constant,
    Constructor,
    Function,
    If,
    Let,
    Match,
    Op,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    Var,
    free_vars,
    pattern_vars,
    post_order,
    with_functions,
)
from ..op.attrs import Attrs
from ..op.registry import entry
from ..op.storage import stored_constant
from .a_normal_form import to_a_normal_form
from .evaluation import Evaluate, evaluate_now
from .partial_copy import PartialCopy
from .partial_values import (
    Fuel,
    KnownCell,
    KnownData,
    KnownFunction,
    KnownTensor,
    KnownTuple,
    Lets,
    Partial,
    Store,
    constant_of,
    fuel_of,
    making,
    tensors_of,
)
from .registry import ModuleTransform, relay_pass

__all__ = ["PartialEvaluate"]


@relay_pass(opt_level=1, name="PartialEval")
def PartialEvaluate(*, evaluate: Evaluate = evaluate_now) -> ModuleTransform:
    """Return the pass that computes what does not depend on the inputs of the functions of a module.

    It unfolds calls, takes the branches and clauses that are known to be taken, reads references whose contents are
    known, and computes operators on constants. Much of what is left is not needed any more:
    :func:`DeadCodeElimination` takes it away.

    Parameters
    ----------
    evaluate : callable
        Runs a module without parameters; by default it is compiled for this machine.
    """

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        evaluator = _Evaluator(mod, evaluate)
        functions = {**dict(mod.functions.items()), **on_deep_stack(evaluator.run)}
        return infer_module(with_functions(mod, functions))

    return on_module


class _Matched(Enum):
    YES = 1
    NO = 2
    UNKNOWN = 3


class _Evaluator:
    def __init__(self, mod: tvm.IRModule, evaluate: Evaluate) -> None:
        self.mod = mod
        self.evaluate = evaluate
        # Every function is copied before it is unfolded, so that each variable has one value.
        self.values: dict[Any, Partial] = {}
        self.globals: dict[GlobalVar, Partial] = {}
        self.made: dict[GlobalVar, Function] = {}
        self.store = Store()
        self.ids: dict[Any, int] = {}
        self.fuel: dict[int, Fuel] = {}

    def run(self) -> dict[GlobalVar, Function]:
        for gvar in self.mod.functions:
            self.global_value(gvar)
        return self.made

    # -- functions

    def global_value(self, gvar: GlobalVar) -> Partial:
        if gvar not in self.globals:
            function = self.mod[gvar]
            if not isinstance(function, Function):
                self.globals[gvar] = Partial(gvar)
                return self.globals[gvar]
            if Feature.fGraph in detect_feature(function):
                # What is shared is computed once; a Let says so.
                function = cast("Function", to_a_normal_form(function))
            for node in post_order(function):
                if isinstance(node, Function):
                    self.ids.setdefault(node, len(self.ids))
            known = self.known_function(function, gvar)
            self.globals[gvar] = Partial(gvar, known)
            self.made[gvar] = self.specialized(function, known, gvar)
        return self.globals[gvar]

    def function_value(self, function: Function, lets: Lets, name: Var) -> Partial:
        known = self.known_function(function, name)
        copy = self.copied(function, function.type_params)
        return Partial(lets.push(self.specialized(copy, known, name), name), known)

    def copied(self, function: Function, type_args: Sequence[Type]) -> Function:
        types = dict(zip(function.type_params, type_args, strict=False))
        lost = set(list(function.type_params)[len(types) :])
        made = PartialCopy(function, self.ids, types, lost).visit(function)
        return cast("Function", made)

    def known_function(self, function: Function, name: RelayExpr) -> KnownFunction:
        """Return a function that can be unfolded; `name` is the operand by which a call reaches it."""
        if function.attrs.get("Primitive"):
            return self.computed(function)
        number = self.ids[function]
        captured = {v: self.values[v] for v in free_vars(function) if not v.same_as(name)}

        def call(own: Partial, args: list[Partial], attrs: Attrs | None, type_args: list[Any], lets: Lets) -> Partial:
            before = self.fuel.get(number, Fuel())
            after, has_progress = before.met(fuel_of(args))
            if not has_progress:
                return Partial(lets.push(Call(name, [arg.dynamic for arg in args], attrs, type_args)))
            copy = self.copied(function, type_args)
            self.values.update(captured)
            if isinstance(name, Var):
                self.values[name] = own
            self.values.update(zip(copy.params, args, strict=True))
            self.fuel[number] = after
            try:
                return self.visit(copy.body, lets)
            finally:
                self.fuel[number] = before

        return KnownFunction(call)

    def specialized(self, function: Function, known: KnownFunction, name: RelayExpr) -> Function:
        """Return a function for arguments of which nothing is known."""
        if function.attrs.get("Primitive"):
            return function
        with self.store.branch():
            self.store.forget()
            lets = Lets()
            args = [Partial(p) for p in function.params]
            result = known.call(Partial(name, known), args, None, list(function.type_params), lets)
        body, types = lets.around(result.dynamic), list(function.type_params)
        return Function(list(function.params), body, function.ret_type, types, function.attrs, function.span)

    def computed(self, function: RelayExpr) -> KnownFunction:
        """Return an operator or kernel, which is computed where all its arguments are known."""
        is_pure = all(entry(node).is_pure for node in post_order(function) if isinstance(node, Op))

        def call(own: Partial, args: list[Partial], attrs: Attrs | None, type_args: list[Any], lets: Lets) -> Partial:
            constants = [constant_of(arg) for arg in args] if is_pure else [None]
            if any(each is None for each in constants):
                return Partial(lets.push(Call(function, [arg.dynamic for arg in args], attrs, type_args)))
            return self.value_of(Call(function, cast("list[RelayExpr]", constants), attrs, type_args), lets)

        return KnownFunction(call)

    def value_of(self, call: Call, lets: Lets) -> Partial:
        """Return the value of a call on constants."""
        ty = infer_module(tvm.IRModule({"main": Function([], call)}))["main"].body.checked_type
        wanted = tensors_of(call, ty)
        run = infer_module(tvm.IRModule({"main": Function([], Tuple([expr for expr, _ in wanted]))}))
        results = iter(zip(self.evaluate(run), wanted, strict=True))
        return self.reified(ty, (stored_constant(value, part.dtype) for value, (_, part) in results), lets)

    def reified(self, ty: Type, constants: Iterator[RelayExpr], lets: Lets) -> Partial:
        if isinstance(ty, TupleType):
            fields = [self.reified(part, constants, lets) for part in ty.fields]
            return Partial(lets.push(Tuple([f.dynamic for f in fields])), KnownTuple(fields))
        constant = next(constants)
        known = KnownTensor(constant.data) if isinstance(constant, Constant) else None
        return Partial(lets.push(constant), known)

    # -- expressions

    def visit(self, expr: RelayExpr, lets: Lets) -> Partial:
        """Return the value of an expression; what is left to do becomes Lets."""
        while isinstance(expr, Let):
            value, name = expr.value, expr.var
            is_function = isinstance(value, Function)
            self.values[name] = self.function_value(value, lets, name) if is_function else self.visit(value, lets)
            expr = expr.body
        match expr:
            case Constant():
                return Partial(lets.push(expr), KnownTensor(expr.data))
            case Var():
                return self.values[expr]
            case GlobalVar():
                return self.global_value(expr)
            case Function():
                return self.function_value(expr, lets, Var("f"))
            case Op():
                return Partial(expr, self.computed(expr))
            case Constructor():
                return Partial(expr, making(expr))
            case Call():
                return self.call(expr, lets)
            case If():
                return self.branch(expr, lets)
            case Match():
                return self.match(expr, lets)
            case Tuple():
                fields = [self.visit(f, lets) for f in expr.fields]
                return Partial(lets.push(Tuple([f.dynamic for f in fields])), KnownTuple(fields))
            case TupleGetItem():
                value = self.visit(expr.tuple_value, lets)
                if isinstance(value.known, KnownTuple):
                    return value.known.fields[expr.index]
                return Partial(lets.push(TupleGetItem(value.dynamic, expr.index)))
        return self.reference(expr, lets)

    def call(self, call: Call, lets: Lets) -> Partial:
        function = self.visit(call.op, lets)
        args = [self.visit(arg, lets) for arg in call.args]
        if isinstance(function.known, KnownFunction):
            return function.known.call(function, args, call.attrs, list(call.type_args), lets)
        self.store.forget()
        return Partial(lets.push(Call(function.dynamic, [a.dynamic for a in args], call.attrs, list(call.type_args))))

    def reference(self, expr: RelayExpr, lets: Lets) -> Partial:
        match expr:
            case RefCreate():
                value, cell = self.visit(expr.value, lets), KnownCell()
                self.store.write(cell, value)
                return Partial(lets.push(RefCreate(value.dynamic)), cell)
            case RefWrite():
                ref, value = self.visit(expr.ref, lets), self.visit(expr.value, lets)
                if isinstance(ref.known, KnownCell):
                    self.store.write(ref.known, value)
                else:
                    self.store.forget()
                return Partial(lets.push(RefWrite(ref.dynamic, value.dynamic)), KnownTuple([]))
            case RefRead():
                ref = self.visit(expr.ref, lets)
                inside = self.store.read(ref.known) if isinstance(ref.known, KnownCell) else None
                return inside or Partial(lets.push(RefRead(ref.dynamic)))
        raise TypeError(f"{type(expr).__name__} is not a Relay expression")

    def branch(self, expr: If, lets: Lets) -> Partial:
        cond = self.visit(expr.cond, lets)
        if isinstance(cond.known, KnownTensor):
            return self.visit(expr.true_branch if bool(cond.known.data.numpy()) else expr.false_branch, lets)
        on_true, on_false = self.scope(expr.true_branch), self.scope(expr.false_branch)
        self.store.forget()
        return Partial(lets.push(If(cond.dynamic, on_true, on_false)))

    def scope(self, expr: RelayExpr) -> RelayExpr:
        with self.store.branch():
            lets = Lets()
            return lets.around(self.visit(expr, lets).dynamic)

    def match(self, expr: Match, lets: Lets) -> Partial:
        data = self.visit(expr.data, lets)
        for clause in expr.clauses:
            matched = self.matches(clause.lhs, data)
            if matched is _Matched.YES:
                return self.visit(clause.rhs, lets)
            if matched is _Matched.UNKNOWN:
                break
        clauses = []
        for clause in expr.clauses:
            self.values.update({v: Partial(v) for v in pattern_vars(clause.lhs)})
            clauses.append(Clause(clause.lhs, self.scope(clause.rhs)))
        self.store.forget()
        return Partial(lets.push(Match(data.dynamic, clauses, expr.complete)))

    def matches(self, pattern: Pattern, value: Partial) -> _Matched:
        """Say whether a value matches, and note what the pattern's variables are then."""
        if isinstance(pattern, PatternVar):
            self.values[pattern.var] = value
            return _Matched.YES
        if not isinstance(pattern, PatternConstructor | PatternTuple):
            return _Matched.YES
        if not isinstance(value.known, KnownData | KnownTuple):
            return _Matched.UNKNOWN
        if isinstance(pattern, PatternConstructor):
            assert isinstance(value.known, KnownData)
            if pattern.constructor.name_hint != value.known.constructor.name_hint:
                return _Matched.NO
        found = [self.matches(part, field) for part, field in zip(pattern.patterns, value.known.fields, strict=True)]
        if _Matched.NO in found:
            return _Matched.NO
        return _Matched.UNKNOWN if _Matched.UNKNOWN in found else _Matched.YES
