"""Type inference: find the type of every expression of a module, by unification and the operators' relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.ir import GlobalVar, Op

from ...errors import TypeCheckError
from ...stack import on_deep_stack
from ..ir.expr import Call, Constant, Function, If, Let, Tuple, TupleGetItem, Var
from ..ir.types import FuncType, IncompleteType, TupleType, Type, scalar_type, type_text
from ..op.registry import OpEntry, entry
from .type_solver import TypeSolver, bind_symbols, substitute_symbols

__all__ = ["call_type", "infer_expr", "infer_module", "typed"]


def infer_module(mod: tvm.IRModule) -> tvm.IRModule:
    """Find the types of all expressions of a module, write them into the nodes and return the module.

    Missing annotations of variables and results are filled in.

    Raises
    ------
    TypeCheckError
        With every type error of the module, each with its function, the expression and the reason.
    """
    on_deep_stack(_Inference(mod).run)
    return mod


def typed(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module with its types inferred: the same, where they have been."""
    functions = [f for f in mod.functions.values() if isinstance(f, Function)]
    return mod if all(f.checked_type_ is not None for f in functions) else infer_module(mod)


def infer_expr(expr: Any, mod: tvm.IRModule | None = None) -> Type:
    """Return the type of an expression (or function), written into its nodes as `infer_module` does."""
    return on_deep_stack(_Inference(mod or tvm.IRModule({})).run_expr, expr)


def call_type(call: Call) -> Type:
    """Return the type of an operator's call whose arguments are typed already, and write it into the node.

    This is the one step of inference that a frontend needs, which builds expressions from the inputs up.
    """
    made = entry(call.op)
    types = [a.checked_type for a in call.args]
    try:
        call.checked_type_ = _apply_relation(made, call.attrs, types)
    except TypeCheckError as error:
        raise TypeCheckError(_described(made.name, types, error)) from None
    return call.checked_type_


def _apply_relation(made: OpEntry, attrs: Any, types: Sequence[Type]) -> Type:
    if not made.is_variadic and len(types) != len(made.inputs):
        expected = f"{len(made.inputs)} arguments ({', '.join(made.inputs)})"
        raise TypeCheckError(f"it takes {expected}, got {len(types)}")
    return made.relation(attrs, *types)


def _described(name: str, types: Sequence[Type], error: TypeCheckError) -> str:
    return f"{name}({', '.join(type_text(t) for t in types)}): {error}"


@dataclass(eq=False)
class _Pending:
    """An operator's relation that waits for the types of its inputs."""

    call: Call
    made: OpEntry
    inputs: list[Type]
    result: Type
    where: str


class _Inference:
    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod = mod
        self.solver = TypeSolver()
        self.types: dict[Any, Type] = {}
        self.global_types: dict[GlobalVar, Type] = {}
        self.pending: list[_Pending] = []
        self.errors: list[str] = []
        self.poisoned: set[Type] = set()
        self.where = ""
        self.allow_free_vars = False
        self.visitors = {
            Call: self.visit_call,
            Constant: lambda e: e.checked_type_,
            Function: self.visit_function,
            If: self.visit_if,
            Let: self.visit_let,
            Tuple: lambda e: TupleType([self.visit(f) for f in e.fields]),
            TupleGetItem: self.visit_tuple_get_item,
            Var: self.visit_free_var,
        }

    def run(self) -> None:
        for gvar, function in self.mod.functions.items():
            if isinstance(function, Function):
                self.global_type(gvar)
                self.where = f"@{gvar.name_hint}"
                declared = self.global_types[gvar]
                self.attempt(lambda d=declared, f=function: self.solver.unify(d, self.visit(f)), function)
        self.finish()

    def run_expr(self, expr: Any) -> Type:
        self.where = "the expression"
        self.allow_free_vars = True
        self.visit(expr)
        self.finish()
        return self.types[expr]

    def finish(self) -> None:
        self.solve_pending()
        for relation in self.pending:
            if not self.is_poisoned(relation.inputs):
                missing = [
                    f"{n}"
                    for n, t in zip(relation.made.inputs, relation.inputs, strict=False)
                    if not self.solver.is_known(t)
                ]
                self.errors.append(
                    f"in {relation.where}: the type of {', '.join(missing) or 'an input'} of {relation.made.name} "
                    "cannot be inferred; annotate the variable"
                )
        if self.errors:
            raise TypeCheckError("\n".join(self.errors))
        self.write_back()

    def write_back(self) -> None:
        for expr, ty in self.types.items():
            expr.checked_type_ = self.types[expr] = self.solver.apply(ty)
            if isinstance(expr, Var) and expr.type_annotation is None:
                expr.type_annotation = expr.checked_type_
            elif isinstance(expr, Function) and expr.ret_type is None:
                expr.ret_type = expr.checked_type_.ret_type

    # -- errors

    def attempt(self, step: Any, expr: Any) -> Type:
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

    def visit(self, expr: Any) -> Type:
        known = self.types.get(expr)
        if known is not None:
            return known
        if isinstance(expr, GlobalVar):
            return self.attempt(lambda: self.global_type(expr), expr)
        visitor = self.visitors.get(type(expr))
        if visitor is None:
            raise TypeCheckError(f"in {self.where}: {type(expr).__name__} is not a Relay expression")
        ty = self.attempt(lambda: visitor(expr), expr)
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
        ty = FuncType(params, function.ret_type or self.solver.hole(), list(function.type_params))
        self.global_types[gvar] = ty
        return ty

    def declare(self, variable: Var) -> Type:
        """Give a bound variable its type: the annotation, or a hole."""
        if variable not in self.types:
            self.types[variable] = variable.type_annotation or self.solver.hole()
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
            self.attempt(lambda d=declared, v=value: self.solver.unify(d, v), node)
            node = node.body
        ty = self.visit(node)
        for visited in chain[1:]:
            self.types[visited] = ty
        return ty

    def visit_if(self, branch: If) -> Type:
        condition = self.visit(branch.cond)
        self.attempt(lambda: self.solver.unify(scalar_type("bool"), condition), branch.cond)
        return self.solver.unify(self.visit(branch.true_branch), self.visit(branch.false_branch), join=True)

    def visit_tuple_get_item(self, item: TupleGetItem) -> Type:
        ty = self.solver.resolve(self.visit(item.tuple_value))
        if isinstance(ty, IncompleteType):
            self.solve_pending()
            ty = self.solver.resolve(ty)
        if isinstance(ty, IncompleteType):
            if ty in self.poisoned:
                return ty
            raise TypeCheckError("the type of the tuple is not known where a field of it is taken; annotate it")
        if not isinstance(ty, TupleType):
            raise TypeCheckError(f"a field is taken of {type_text(ty)}, which is no tuple")
        if not 0 <= item.index < len(ty.fields):
            raise TypeCheckError(f"field {item.index} is taken of {type_text(ty)}, which has {len(ty.fields)}")
        return ty.fields[item.index]

    def visit_call(self, call: Call) -> Type:
        inputs = [self.visit(a) for a in call.args]
        if isinstance(call.op, Op):
            relation = _Pending(call, entry(call.op), inputs, self.solver.hole(), self.where)
            if not self.solve(relation):
                self.pending.append(relation)
            return relation.result
        callee = self.solver.resolve(self.visit(call.op))
        if isinstance(callee, IncompleteType):
            result = self.solver.hole()
            self.solver.unify(callee, FuncType(inputs, result))
            return result
        if not isinstance(callee, FuncType):
            raise TypeCheckError(f"{type_text(callee)} is called, which is no function")
        return self.call_function(callee, call, inputs)

    def call_function(self, callee: FuncType, call: Call, inputs: Sequence[Type]) -> Type:
        if len(callee.arg_types) != len(inputs):
            raise TypeCheckError(f"{_callee_name(call)} takes {len(callee.arg_types)} arguments, got {len(inputs)}")
        callee = self.solver.instantiate(callee, list(call.type_args))
        symbols: dict[Any, Any] = {}
        for position, (formal, actual) in enumerate(zip(callee.arg_types, inputs, strict=True)):
            try:
                self.solver.unify(formal, actual)
            except TypeCheckError as error:
                raise TypeCheckError(f"argument {position} of {_callee_name(call)}: {error}") from None
            bind_symbols(self.solver.resolve(formal), self.solver.resolve(actual), symbols)
        return substitute_symbols(self.solver.resolve(callee.ret_type), symbols)

    # -- relations

    def solve_pending(self) -> None:
        """Solve waiting relations until none of them can be."""
        while True:
            waiting = [r for r in self.pending if not self.solve(r)]
            if len(waiting) == len(self.pending):
                return
            self.pending = waiting

    def solve(self, relation: _Pending) -> bool:
        """Apply a relation if its inputs are known; say whether it is done."""
        inputs = relation.inputs
        if self.is_poisoned(inputs):
            self.poisoned.add(relation.result)
            return True
        made = relation.made
        if made.infer_inputs is not None and not all(self.solver.is_known(t) for t in inputs):
            resolved = [self.solver.apply(t) for t in inputs]
            for position, ty in made.infer_inputs(relation.call.attrs, *resolved).items():
                self.solver.unify(inputs[position], ty)
        if not all(self.solver.is_known(t) for t in inputs):
            return False
        types = [self.solver.apply(t) for t in inputs]
        try:
            ty = _apply_relation(made, relation.call.attrs, types)
        except TypeCheckError as error:
            self.errors.append(f"in {relation.where}{_location(relation.call)}: {_described(made.name, types, error)}")
            self.poisoned.add(relation.result)
            return True
        relation.result = self.solver.unify(relation.result, ty)
        return True


def _callee_name(call: Call) -> str:
    return f"@{call.op.name_hint}" if isinstance(call.op, GlobalVar) else "the function"


def _location(expr: Any) -> str:
    span = getattr(expr, "span", None)
    if not isinstance(span, tvm.ir.Span):
        return ""
    return f" at {span.source_name.name}:{span.line}:{span.column}"
