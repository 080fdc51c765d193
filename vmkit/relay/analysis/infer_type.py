"""Type inference: find the type of every expression of a module, by unification and the operators' relations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import tvm
import tvm_ffi
from tvm.ir import GlobalVar, Op

from ..._tvm.running import array_items
from ...errors import TypeCheckError, suggest
from ...stack import on_deep_stack
from ..ir.adt import Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar, TypeData
from ..ir.definitions import type_definitions
from ..ir.expr import Call, Constant, Function, If, Let, RelayExpr, Tuple, TupleGetItem, Var
from ..ir.reference import RefCreate, RefRead, RefWrite
from ..ir.type_solver import TypeSolver, bind_symbols, substitute_symbols, type_symbols
from ..ir.types import Any as AnyDim
from ..ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TupleType,
    Type,
    TypeCall,
    brief_type_text,
    distinct_parts,
    scalar_type,
)
from ..op.registry import entry
from .coverage import pattern_text, unmatched_cases
from .facts import Facts, fill, with_facts
from .pending import Pending, Projection, Relation, apply_relation, described

__all__ = ["call_type", "infer_changed", "infer_expr", "infer_module", "inferred", "typed"]


def infer_module(mod: tvm.IRModule) -> tvm.IRModule:
    """Find the types of all expressions of a module, write them into the nodes and return the module.

    Missing annotations of variables and results are filled in. It is for programs whose nodes are the caller's own,
    such as those that a pass has just built; :func:`inferred` leaves a program as it is.

    Raises
    ------
    TypeCheckError
        With every type error of the module, each with its function, the expression and the reason.
    """
    for expr, found in on_deep_stack(_Inference(mod).run):
        fill(expr, found)
    return mod


def infer_changed(mod: tvm.IRModule) -> tvm.IRModule:
    """Find the types that expressions of a module lack, as :func:`infer_module` does; what has one keeps it.

    It is for a typed program of which a pass has changed a part: nothing below a typed expression is looked at.
    """
    for expr, found in on_deep_stack(_Inference(mod, keeps_types=True).run):
        fill(expr, found)
    return mod


def inferred(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module with its types inferred, as :func:`infer_module` finds them; the one given does not change.

    Nodes that have their types already are those of the module given, and so are variables that were declared with one.
    """
    return with_facts(mod, dict(on_deep_stack(_Inference(mod).run)))


def typed(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module with its types inferred: the same, where they have been."""
    functions = [f for f in mod.functions.values() if isinstance(f, Function)]
    return mod if all(f.checked_type_ is not None for f in functions) else inferred(mod)


def infer_expr(expr: RelayExpr, mod: tvm.IRModule | None = None) -> Type:
    """Return the type of an expression (or function), written into its nodes as `infer_module` does."""
    inference = _Inference(mod or tvm.IRModule({}))
    for node, found in on_deep_stack(inference.run_expr, expr):
        fill(node, found)
    return inference.types[expr]


def call_type(call: Call) -> Type:
    """Return the type of an operator's call whose arguments are typed already, and write it into the node.

    This is the one step of inference that a frontend needs, which builds expressions from the inputs up.
    """
    made = entry(call.op)
    types = [a.checked_type for a in call.args]
    try:
        call.checked_type_ = apply_relation(made, call.attrs, types)
    except TypeCheckError as error:
        raise TypeCheckError(described(made.name, types, error)) from None
    return call.checked_type_


class _Inference:
    def __init__(self, mod: tvm.IRModule, *, keeps_types: bool = False) -> None:
        self.mod = mod
        self.keeps_types = keeps_types
        self.definitions = type_definitions(mod)
        self.solver = TypeSolver()
        self.types: dict[Any, Type] = {}
        self.global_types: dict[GlobalVar, Type] = {}
        # What the type parameters of a polymorphic function stand for in each call of it.
        self.type_args: dict[Call, list[Type]] = {}
        self.pending: list[Pending] = []
        self.errors: list[str] = []
        self.poisoned: set[Type] = set()
        self.where = ""
        self.allow_free_vars = False

    def run(self) -> list[tuple[Any, Facts]]:
        """Return what is known of the module's expressions, of each the fields of its node."""
        for gvar, function in self.mod.functions.items():
            if isinstance(function, Function):
                self.global_type(gvar)
                self.where = f"@{gvar.name_hint}"
                declared = self.global_types[gvar]
                self.attempt(partial(self.agree, declared, function), function)
        return self.finish()

    def run_expr(self, expr: RelayExpr) -> list[tuple[Any, Facts]]:
        """Return what is known of an expression and of those in it."""
        self.where = "the expression"
        self.allow_free_vars = True
        self.visit(expr)
        return self.finish()

    def finish(self) -> list[tuple[Any, Facts]]:
        self.solve_pending()
        for step in self.pending:
            if not self.is_poisoned(step.inputs):
                missing = step.missing(self.solver)
                place = f"{step.where}{_location(step.expr)}"
                self.errors.append(f"in {place}: {missing} cannot be inferred; annotate the variable")
        if self.errors:
            raise TypeCheckError.of(self.errors)
        return list(self.facts())

    def facts(self) -> Iterator[tuple[Any, Facts]]:
        """Yield each expression with the fields that are known of it now."""
        for expr, ty in self.types.items():
            found: Any = self.solver.apply(ty)
            self.types[expr] = found
            facts = {"checked_type_": found}
            if isinstance(expr, Var):
                facts["type_annotation"] = self.completed(expr.type_annotation, found)
            elif isinstance(expr, Call) and isinstance(expr.op, Op):
                facts["type_args"] = tvm_ffi.Array([self.solver.apply(self.visit(a)) for a in array_items(expr.args)])
            elif expr in self.type_args:
                facts["type_args"] = tvm_ffi.Array([self.solver.apply(t) for t in self.type_args[expr]])
            elif isinstance(expr, Function):
                facts["ret_type"] = self.completed(expr.ret_type, found.ret_type)
            yield expr, facts

    def completed(self, annotation: Type | None, inferred: Type) -> Type:
        """Return an annotation with nothing left open."""
        return inferred if annotation is None else self.solver.apply(annotation)

    # -- errors

    def attempt(self, step: Callable[[], Type], expr: RelayExpr) -> Type:
        """Run a step of inference; on a type error, note it and go on with a type that starts no further errors."""
        try:
            return step()
        except TypeCheckError as error:
            self.errors.append(f"in {self.where}{_location(expr)}: {error}")
            hole = self.solver.hole()
            self.poisoned.add(hole)
            return hole

    def is_poisoned(self, types: Sequence[Type]) -> bool:
        return any(
            self.solver.resolve(t) in self.poisoned for t in types if isinstance(self.solver.resolve(t), IncompleteType)
        )

    # -- expressions

    def visit(self, expr: RelayExpr) -> Type:
        known = self.types.get(expr)
        if known is not None:
            return known
        if isinstance(expr, GlobalVar):
            return self.attempt(lambda: self.global_type(expr), expr)
        visitor = _VISITORS.get(type(expr))
        if visitor is None:
            raise TypeCheckError(f"in {self.where}: {type(expr).__name__} is not a Relay expression")
        if self.keeps_types and not isinstance(expr, Var | Constructor) and expr.checked_type_ is not None:
            return expr.checked_type_
        ty = self.attempt(lambda: visitor(self, expr), expr)
        self.types[expr] = ty
        return ty

    def global_type(self, gvar: GlobalVar) -> Type:
        known = self.global_types.get(gvar)
        if known is not None:
            return known
        if gvar not in self.mod.functions:
            names = [v.name_hint for v in self.mod.get_global_vars()]
            raise TypeCheckError(f"there is no global function @{gvar.name_hint}; the module has {', '.join(names)}")
        function = self.mod[gvar]
        if not isinstance(function, Function):
            raise TypeCheckError(f"@{gvar.name_hint} is a {type(function).__name__}, not a Relay function")
        params = [self.declare(p) for p in function.params]
        ty = FuncType(params, self.annotated(function.ret_type, function), list(function.type_params))
        self.global_types[gvar] = ty
        if function.ret_type is None and len(function.type_params) > 0:
            self.generalize(gvar, function, ty)
        return self.global_types[gvar]

    def generalize(self, gvar: GlobalVar, function: Function, ty: FuncType) -> None:
        """Find the result of a polymorphic function before it is used: each use has a type of its own."""
        where, self.where = self.where, f"@{gvar.name_hint}"
        self.attempt(partial(self.agree, ty, function), function)
        self.solve_pending()
        self.global_types[gvar] = self.solver.apply(ty)
        self.where = where

    def agree(self, declared: Type, function: Function) -> Type:
        """Let the declared type of a function agree with that of what it is."""
        return self.solver.unify(declared, self.visit(function))

    def declare(self, variable: Var) -> Type:
        """Give a bound variable its type: the annotation, or a hole."""
        if variable not in self.types:
            self.types[variable] = self.annotated(variable.type_annotation, variable)
        return self.types[variable]

    def visit_free_var(self, variable: Var) -> Type:
        # A binder declares its variable before its scope is visited, so this one has none.
        if not self.allow_free_vars:
            raise TypeCheckError(f"variable %{variable.name_hint} is not bound: it is no parameter and no Let binds it")
        return self.declare(variable)

    def visit_function(self, function: Function) -> Type:
        params = [self.declare(p) for p in function.params]
        body = self.visit(function.body)
        result = body
        if function.ret_type is not None:
            result = function.ret_type
            self.attempt(lambda: self.solver.unify(result, body), function)
        return FuncType(params, result, list(function.type_params))

    def visit_let(self, let: Let) -> Type:
        # A chain of Lets is as long as the program: walk it in a loop.
        chain = []
        node: Any = let
        while isinstance(node, Let):
            chain.append(node)
            declared = self.declare(node.var)
            value = self.visit(node.value)
            self.attempt(partial(self.solver.unify, declared, value), node)
            node = node.body
        ty = self.visit(node)
        for visited in chain[1:]:
            self.types[visited] = ty
        return ty

    def visit_if(self, branch: If) -> Type:
        condition = self.visit(branch.cond)
        self.attempt(lambda: self.solver.unify(scalar_type("bool"), condition), branch.cond)
        return self.join(self.visit(branch.true_branch), branch.false_branch)

    def join(self, ty: Type, branch: RelayExpr) -> Type:
        """Return the type of a value that is of a type or is that of a branch; neither becomes more general by that."""
        return self.solver.unify(self.solver.resolve(ty), self.solver.resolve(self.visit(branch)), join=True)

    def visit_tuple_get_item(self, item: TupleGetItem) -> Type:
        return self.await_inputs(Projection(item, [self.visit(item.tuple_value)], self.solver.hole(), self.where))

    def visit_ref_read(self, read: RefRead) -> Type:
        value = self.solver.hole()
        self.solver.unify(self.visit(read.ref), RefType(value))
        return value

    def visit_ref_write(self, write: RefWrite) -> Type:
        self.solver.unify(self.visit(write.ref), RefType(self.visit(write.value)))
        return TupleType([])

    # -- data types

    def annotated(self, ty: Type | None, expr: RelayExpr) -> Type:
        """Return a declared type, or a hole where none is; the data types it names must be there."""
        if ty is None:
            return self.solver.hole()
        return self.attempt(lambda: self.checked_annotation(ty), expr)

    def checked_annotation(self, ty: Type) -> Type:
        for part in distinct_parts(ty):
            if isinstance(part, GlobalTypeVar):
                raise TypeCheckError(f"{part} is the name of a data type, not a type; write {part}[] or its arguments")
            if isinstance(part, TypeCall) and isinstance(part.func, GlobalTypeVar):
                expected = len(self.definition(part.func).type_vars)
                if len(part.args) != expected:
                    raise TypeCheckError(f"{part.func} takes {expected} type arguments, got {brief_type_text(part)}")
        return ty

    def definition(self, header: GlobalTypeVar) -> TypeData:
        found = self.definitions.get(header.name_hint)
        if found is None:
            hint = suggest(header.name_hint, self.definitions)
            raise TypeCheckError(f"the module defines no type {header.name_hint}{hint}")
        return found

    def constructor_type(self, constructor: Constructor) -> FuncType:
        """Return the type of a constructor, as the module defines it."""
        data = self.definition(constructor.belong_to)
        known = {c.name_hint: c for c in data.constructors}
        if constructor.name_hint not in known:
            hint = suggest(constructor.name_hint, known)
            raise TypeCheckError(f"type {data.header} has no constructor {constructor.name_hint}{hint}")
        return data.constructor_type(known[constructor.name_hint])

    def visit_constructor(self, constructor: Constructor) -> Type:
        return self.constructor_type(constructor)

    def visit_match(self, match: Match) -> Type:
        data = self.visit(match.data)
        result: Type = self.solver.hole()
        if len(match.clauses) == 0:
            raise TypeCheckError("a match without clauses has no value")
        for clause in match.clauses:
            self.match_pattern(clause.lhs, data)
            result = self.join(result, clause.rhs)
        if match.complete:
            cases = [pattern_text(p) for p in itertools.islice(unmatched_cases(match, self.definition), 4)]
            if cases:
                dots = ", ..." if len(cases) == 4 else ""
                raise TypeCheckError(
                    f"the match does not cover {', '.join(cases[:3])}{dots}; add clauses, or write match? to leave "
                    "that to run time"
                )
        return result

    def match_pattern(self, pattern: Pattern, ty: Type) -> None:
        """Let a pattern and what it is matched with agree, and declare the variables that it binds."""
        if isinstance(pattern, PatternVar):
            self.solver.unify(self.declare(pattern.var), ty)
        elif isinstance(pattern, PatternTuple):
            fields = [self.solver.hole() for _ in pattern.patterns]
            self.solver.unify(ty, TupleType(fields))
            for field, below in zip(fields, pattern.patterns, strict=True):
                self.match_pattern(below, field)
        elif isinstance(pattern, PatternConstructor):
            made = self.solver.instantiate(self.constructor_type(pattern.constructor))
            self.solver.unify(ty, made.ret_type)
            if len(pattern.patterns) != len(made.arg_types):
                raise TypeCheckError(
                    f"constructor {pattern.constructor.name_hint} has {len(made.arg_types)} fields, "
                    f"but the pattern {pattern_text(pattern)} has {len(pattern.patterns)}"
                )
            for formal, below in zip(made.arg_types, pattern.patterns, strict=True):
                self.match_pattern(below, formal)

    # -- calls

    def visit_call(self, call: Call) -> Type:
        inputs = [self.visit(a) for a in array_items(call.args)]
        if isinstance(call.op, Op):
            return self.await_inputs(Relation(call, inputs, self.solver.hole(), self.where))
        callee = self.solver.resolve(self.visit(call.op))
        if isinstance(callee, IncompleteType):
            result = self.solver.hole()
            self.solver.unify(callee, FuncType(inputs, result))
            return result
        if not isinstance(callee, FuncType):
            raise TypeCheckError(f"{brief_type_text(callee)} is called, which is no function")
        return self.call_function(callee, call, inputs)

    def call_function(self, callee: FuncType, call: Call, inputs: Sequence[Type]) -> Type:
        if len(callee.arg_types) != len(inputs):
            raise TypeCheckError(f"{_callee_name(call)} takes {len(callee.arg_types)} arguments, got {len(inputs)}")
        if len(callee.type_params):
            chosen = list(call.type_args) or [self.solver.hole() for _ in callee.type_params]
            self.type_args[call] = chosen
            callee = self.solver.instantiate(callee, chosen)
        symbols: dict[Any, Any] = {}
        if any(isinstance(self.solver.resolve(actual), IncompleteType) for actual in inputs):
            self.solve_pending()  # or an argument that is about to be known would have the sizes that any call has
        for position, (formal, actual) in enumerate(zip(callee.arg_types, inputs, strict=True)):
            try:
                # What an argument is does not change by what the function takes: it may be used elsewhere.
                self.solver.unify(self.without_symbols(formal), self.solver.resolve(actual))
            except TypeCheckError as error:
                raise TypeCheckError(f"argument {position} of {_callee_name(call)}: {error}") from None
            bind_symbols(self.solver.resolve(formal), self.solver.resolve(actual), symbols)
        return substitute_symbols(self.solver.resolve(callee.ret_type), symbols)

    def without_symbols(self, formal: Type) -> Type:
        """Return the type of a parameter with its symbols unknown: what they stand for is up to each call.

        A function that calls itself may pass on other sizes than it has got.
        """
        known = self.solver.resolve(formal)
        symbols = [] if isinstance(known, IncompleteType) else type_symbols(known)
        return substitute_symbols(known, {s: AnyDim() for s in symbols}) if symbols else formal

    # -- what waits for types

    def await_inputs(self, step: Pending) -> Type:
        """Return the type that a step finds: a hole, where it has to wait."""
        if not self.solve(step):
            self.pending.append(step)
        return step.result

    def solve_pending(self) -> None:
        """Take waiting steps until none of them can be."""
        while True:
            waiting = [s for s in self.pending if not self.solve(s)]
            if len(waiting) == len(self.pending):
                return
            self.pending = waiting

    def solve(self, step: Pending) -> bool:
        """Take a step if its inputs are known; say whether it is done."""
        if self.is_poisoned(step.inputs):
            self.poisoned.add(step.result)
            return True
        try:
            if not step.is_ready(self.solver):
                return False
            step.result = self.solver.unify(step.result, step.conclude(self.solver))
        except TypeCheckError as error:
            self.errors.append(f"in {step.where}{_location(step.expr)}: {error}")
            self.poisoned.add(step.result)
        return True


# Not of an instance, which would hold itself by its methods, and all modules that it has seen until they are collected.
_VISITORS: dict[type, Callable[[_Inference, Any], Type]] = {
    Call: _Inference.visit_call,
    Constant: lambda _, e: e.checked_type,
    Constructor: _Inference.visit_constructor,
    Function: _Inference.visit_function,
    If: _Inference.visit_if,
    Let: _Inference.visit_let,
    Match: _Inference.visit_match,
    RefCreate: lambda self, e: RefType(self.visit(e.value)),
    RefRead: _Inference.visit_ref_read,
    RefWrite: _Inference.visit_ref_write,
    Tuple: lambda self, e: TupleType([self.visit(f) for f in e.fields]),
    TupleGetItem: _Inference.visit_tuple_get_item,
    Var: _Inference.visit_free_var,
}


def _callee_name(call: Call) -> str:
    return f"@{call.op.name_hint}" if isinstance(call.op, GlobalVar) else "the function"


def _location(expr: RelayExpr) -> str:
    span = getattr(expr, "span", None)
    if not isinstance(span, tvm.ir.Span) or span.source_name is None:
        return ""
    return f" at {span.source_name.name}:{span.line}:{span.column}"
