"""Lower a typed Relay module to Relax: every global function to a Relax function, every operator to a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.ir import GlobalVar, Op

from ...errors import CompileError, VMKitError
from ..ir.expr import Call, Constant, Function, If, Let, Tuple, TupleGetItem
from ..ir.types import type_text
from ..op.registry import OpEntry, entry
from .checks import RuntimeChecks
from .context import LowerContext, Value, relax_type
from .recursion import RECURSION_LIMIT, recursive_functions, tail_calls

__all__ = ["Lowered", "lower_module"]


@dataclass(frozen=True)
class Lowered:
    """The Relax form of a module.

    Attributes
    ----------
    module : tvm.IRModule
        Relax functions and TIR kernels.
    messages : dict
        The text of every run-time check, by its number.
    is_recursive : bool
        Whether a function may call itself, so that running it takes a deep stack.
    """

    module: tvm.IRModule
    messages: dict[str, str]
    is_recursive: bool


def lower_module(mod: tvm.IRModule) -> Lowered:
    """Return the Relax form of a module whose types have been inferred."""
    lowering = _ModuleLowering(mod)
    return Lowered(lowering.run(), lowering.checks.messages, bool(lowering.recursive))


class _ModuleLowering:
    """The functions of a module, declared first so that they can call each other."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod = mod
        self.builder = relax.BlockBuilder()
        self.checks = RuntimeChecks()
        self.functions = {v: f for v, f in mod.functions.items() if isinstance(f, Function)}
        self.recursive = recursive_functions(self.functions)
        self.lowered: dict[GlobalVar, GlobalVar] = {}

    def run(self) -> tvm.IRModule:
        for gvar, function in self.functions.items():
            self.lowered[gvar] = self.declare(gvar, function)
        for gvar, function in self.functions.items():
            try:
                _FunctionLowering(self, gvar, function).run()
            except VMKitError as error:
                raise type(error)(f"in @{gvar.name_hint}: {error}") from error
        return self.builder.get()

    def declare(self, gvar: GlobalVar, function: Function) -> GlobalVar:
        """Add a function of the right type with no body, for calls to refer to."""
        name = gvar.name_hint
        if gvar not in self.recursive:
            return self.builder.add_func(_placeholder(function, depth=None), name)
        return self.builder.add_func(_placeholder(function, depth=tirx.Var("depth", "int64")), f"{name}.recursive")

    def define(self, gvar: GlobalVar, function: relax.Function) -> None:
        lowered = self.lowered[gvar]
        if gvar not in self.recursive:
            self.builder.update_func(lowered, function.with_attr("global_symbol", gvar.name_hint))
            return
        self.builder.update_func(lowered, function)
        self.builder.add_func(self.entry_of(gvar), gvar.name_hint)

    def entry_of(self, gvar: GlobalVar) -> relax.Function:
        """Return the function that callers from outside see: it starts the recursion at depth 0."""
        function = self.functions[gvar]
        params = [relax.Var(p.name_hint, relax_type(p.checked_type, {})) for p in function.params]
        builder = self.builder
        builder.begin_scope(params)
        builder._begin_binding_block()
        zero = relax.ShapeExpr([tirx.IntImm("int64", 0)])
        result = builder.emit(relax.Call(self.lowered[gvar], [*params, zero]))
        body = relax.SeqExpr([builder._end_block()], result)
        builder.end_scope()
        made = relax.Function(params, body, relax_type(function.checked_type.ret_type), is_pure=True)
        return made.with_attr("global_symbol", gvar.name_hint)


def _placeholder(function: Function, depth: tirx.Var | None) -> relax.Function:
    symbols: dict[Any, tirx.Var] = {}
    params = [relax.Var(p.name_hint, relax_type(p.checked_type, symbols)) for p in function.params]
    if depth is not None:
        params.append(relax.Var("depth", relax.ShapeType([depth])))
    return relax.Function.create_empty(params, relax_type(function.checked_type.ret_type), is_pure=True)


class _FunctionLowering:
    """One function: expressions are lowered where they are first needed, once in each scope."""

    def __init__(self, module: _ModuleLowering, gvar: GlobalVar, function: Function) -> None:
        self.module = module
        self.gvar = gvar
        self.function = function
        self.builder = module.builder
        self.context = LowerContext(self.builder, module.checks)
        self.scopes: list[dict[Any, Value]] = [{}]
        self.depth: tirx.Var | None = None
        self.tails = tail_calls(function.body) if gvar in module.recursive else set()
        self.visitors = {
            Call: self.visit_call,
            Constant: lambda e: relax.const(e.data),
            Function: self.visit_function_value,
            If: self.visit_if,
            Let: self.visit_let,
            Tuple: lambda e: tuple(self.visit(f) for f in e.fields),
            TupleGetItem: lambda e: self.context.fields(self.visit(e.tuple_value))[e.index],
        }

    def run(self) -> None:
        builder, symbols = self.builder, self.context.symbols
        params = [relax.Var(p.name_hint, relax_type(p.checked_type, symbols)) for p in self.function.params]
        for variable, value in zip(self.function.params, params, strict=True):
            self.scopes[0][variable] = value
        if self.gvar in self.module.recursive:
            self.depth = tirx.Var("depth", "int64")
            params.append(relax.Var("depth", relax.ShapeType([self.depth])))
        builder.begin_scope(params)
        builder._begin_binding_block()
        if self.depth is not None:
            self.context.require(
                self.depth < RECURSION_LIMIT,
                f"@{self.gvar.name_hint} calls itself more than {RECURSION_LIMIT:,} levels deep",
            )
        result = builder.emit(self.context.materialize(self.visit(self.function.body)))
        body = relax.SeqExpr([builder._end_block()], result)
        builder.end_scope()
        ret_type = relax_type(self.function.checked_type.ret_type)
        self.module.define(self.gvar, relax.Function(params, body, ret_type, is_pure=True))

    def visit(self, expr: Any) -> Value:
        for scope in reversed(self.scopes):
            if expr in scope:
                return scope[expr]
        visitor = self.visitors.get(type(expr))
        if visitor is None:
            raise CompileError(f"{type(expr).__name__} cannot be compiled here: {expr}")
        value = visitor(expr)
        self.scopes[-1][expr] = value
        return value

    def visit_let(self, let: Let) -> Value:
        node: Any = let
        while isinstance(node, Let):
            self.scopes[-1][node.var] = self.visit(node.value)
            node = node.body
        return self.visit(node)

    def visit_if(self, branch: If) -> Value:
        condition = self.visit(branch.cond)
        joined = self.builder.emit(relax.If(condition, self.block(branch.true_branch), self.block(branch.false_branch)))
        return self.joined(branch, joined)

    def joined(self, expr: Any, value: Value) -> Value:
        """Return the result of a call or branch with its unknown dimensions named.

        A result that the function returns as it is stays as it is, so that a tail call stays one.
        """
        if expr in self.tails:
            return value
        return self.context.pin_as(value, expr.checked_type)

    def block(self, expr: Any) -> relax.SeqExpr:
        """Return a branch lowered in a scope of its own."""
        self.scopes.append({})
        self.builder._begin_binding_block()
        value = self.builder.emit(self.context.materialize(self.visit(expr)))
        block = self.builder._end_block()
        self.scopes.pop()
        return relax.SeqExpr([block], value)

    def visit_function_value(self, function: Function) -> Value:
        raise CompileError("a function is used as a value here; only calls of global functions can be compiled")

    def visit_call(self, call: Call) -> Value:
        args = [self.visit(a) for a in call.args]
        if isinstance(call.op, Op):
            return self.call_operator(entry(call.op), call, args)
        if isinstance(call.op, GlobalVar):
            return self.call_global(call.op, call, args)
        raise CompileError(f"the callee {call.op} is no operator and no global function")

    def call_global(self, gvar: GlobalVar, call: Call, args: list[Value]) -> Value:
        operands = [self.context.materialize(a) for a in args]
        if gvar in self.module.recursive:
            operands.append(self.next_depth(gvar, call))
        value = self.builder.emit(relax.Call(self.module.lowered[gvar], operands))
        return self.joined(call, value)

    def next_depth(self, gvar: GlobalVar, call: Call) -> relax.ShapeExpr:
        """Return the depth that a call into a recursion passes on: a tail call of itself is a loop and adds none."""
        if self.depth is None:
            return relax.ShapeExpr([tirx.IntImm("int64", 0)])
        loops = call in self.tails and gvar.same_as(self.gvar)
        return relax.ShapeExpr([self.depth if loops else self.depth + 1])

    def call_operator(self, made: OpEntry, call: Call, args: list[Value]) -> Value:
        context = self.context
        context.current = made
        try:
            value = self.lower_operator(made, call, args)
        except VMKitError:
            raise
        except Exception as error:
            types = ", ".join(type_text(a.checked_type) for a in call.args)
            raise CompileError(f"{made.name}({types}) cannot be lowered: {error}") from error
        return value

    def lower_operator(self, made: OpEntry, call: Call, args: list[Value]) -> Value:
        if made.lower is not None:
            return made.lower(self.context, call.attrs, *args)
        assert made.compute is not None
        return self.context.te(lambda *tensors: made.compute(call.attrs, *tensors), *args)
