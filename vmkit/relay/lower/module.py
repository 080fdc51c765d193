"""Lower a typed Relay module to Relax: every global function to a Relax function, every operator to a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.ir import GlobalVar, Op

from ...errors import CompileError, VMKitError
from ..ir.expr import Call, Constant, Function, If, Let, Tuple, TupleGetItem, Var
from ..ir.types import type_text
from ..op.registry import OpEntry, entry
from .checks import RuntimeChecks
from .context import LowerContext, Value, relax_type
from .scopes import computed_before
from .tail import tail_calls

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
    names : dict
        The name of each function in the executable, by its Relay name; they differ where that holds a dot.
    """

    module: tvm.IRModule
    messages: dict[str, str]
    names: dict[str, str]


def lower_module(mod: tvm.IRModule) -> Lowered:
    """Return the Relax form of a module whose types have been inferred."""
    lowering = _ModuleLowering(mod)
    module = lowering.run()
    names = {relay.name_hint: lowered.name_hint for relay, lowered in lowering.lowered.items()}
    return Lowered(module, lowering.checks.messages, names)


class _ModuleLowering:
    """The functions of a module, declared first so that they can call each other."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod = mod
        self.builder = relax.BlockBuilder()
        self.checks = RuntimeChecks()
        self.functions = {v: f for v, f in mod.functions.items() if isinstance(f, Function)}
        self.lowered: dict[GlobalVar, GlobalVar] = {}
        self.defined: dict[GlobalVar, relax.Function] = {}

    def run(self) -> tvm.IRModule:
        for gvar, function in self.functions.items():
            self.lowered[gvar] = self.declare(gvar, function)
        for gvar, function in self.functions.items():
            try:
                _FunctionLowering(self, gvar, function).run()
            except VMKitError as error:
                raise type(error)(f"in @{gvar.name_hint}: {error}") from error
        # The builder only holds the place: it keeps functions by their structure, and loses some when they change.
        module = self.builder.get()
        return tvm.IRModule({**dict(module.functions.items()), **self.defined}, attrs=module.attrs)

    def declare(self, gvar: GlobalVar, function: Function) -> GlobalVar:
        """Add a function of the right type with no body, for calls to refer to."""
        params = _params(function, {})
        empty = relax.Function.create_empty(params, relax_type(function.checked_type.ret_type), is_pure=True)
        # The builder makes one of equal functions, and without the name two of the same type would be equal.
        return self.builder.add_func(empty.with_attr("global_symbol", gvar.name_hint), gvar.name_hint)

    def define(self, gvar: GlobalVar, function: relax.Function) -> None:
        lowered = self.lowered[gvar]
        self.defined[lowered] = function.with_attr("global_symbol", lowered.name_hint)


def _params(function: Function, symbols: dict[Any, tirx.Var]) -> list[relax.Var]:
    return [relax.Var(p.name_hint, relax_type(p.checked_type, symbols)) for p in function.params]


class _FunctionLowering:
    """One function: expressions are lowered where they are first needed, once in each scope."""

    def __init__(self, module: _ModuleLowering, gvar: GlobalVar, function: Function) -> None:
        self.module = module
        self.gvar = gvar
        self.function = function
        self.builder = module.builder
        self.context = LowerContext(self.builder, module.checks)
        self.scopes: list[dict[Any, Value]] = [{}]
        self.before = computed_before(function.body)
        shared = {expr for exprs in self.before.values() for expr in exprs}
        self.tails = tail_calls(function.body) - shared
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
        builder = self.builder
        params = _params(self.function, self.context.symbols)
        for variable, value in zip(self.function.params, params, strict=True):
            self.scopes[0][variable] = value
        builder.begin_scope(params)
        builder._begin_binding_block()
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
        for shared in self.before.get(branch, ()):
            self.visit(shared)
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
        raise CompileError("a function is used as a value: functions as values are not compiled, only calls")

    def visit_call(self, call: Call) -> Value:
        args = [self.visit(a) for a in call.args]
        if isinstance(call.op, Op):
            return self.call_operator(entry(call.op), call, args)
        if isinstance(call.op, GlobalVar):
            return self.call_global(call.op, call, args)
        name = f"%{call.op.name_hint}" if isinstance(call.op, Var) else type(call.op).__name__
        raise CompileError(f"{name} is called, a function that is no global one: functions as values are not compiled")

    def call_global(self, gvar: GlobalVar, call: Call, args: list[Value]) -> Value:
        operands = [self.context.materialize(a) for a in args]
        value = self.builder.emit(relax.Call(self.module.lowered[gvar], operands))
        return self.joined(call, value)

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
        compute = made.compute
        if compute is None:
            raise CompileError(f"{made.name} stands for other operators; run relay.qnn.transform.CanonicalizeOps first")
        return self.context.te(lambda *tensors: compute(call.attrs, *tensors), *args)
