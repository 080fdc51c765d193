"""Lower one function: its expressions where they are first needed, once in each scope."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from tvm import relax, tirx
from tvm.ir import GlobalVar, Op
from tvm.relax.analysis import tir_vars_in_type, type_lca

from ..._dataclasses import dataclass
from ..._tvm import begin_block, end_block, retyped
from ...errors import CompileError, VMKitError
from ...values.element_types import stored_type
from ..analysis.scopes import hoisted
from ..ir import DEVICE_PART
from ..ir.adt import Constructor, Match, TypeData
from ..ir.expr import Call, Constant, Function, If, Let, RelayExpr, Tuple, TupleGetItem, Var
from ..ir.reference import RefCreate, RefRead, RefWrite
from ..ir.types import FuncType, GlobalTypeVar, TensorType, type_text
from ..op.registry import OpEntry, entry
from .checks import RuntimeChecks
from .context import LowerContext, Value, relax_type
from .data import construct
from .external import External, call_external
from .match import lower_match
from .repeated_kernels import RepeatedKernels
from .tail import tail_calls

__all__ = ["Closure", "FunctionLowering", "ModuleLowering", "relax_params"]


@dataclass(frozen=True, eq=False)
class Closure:
    """A local function that has become global: its parameters end with the variables that it captured.

    Attributes
    ----------
    gvar : GlobalVar
        The lowered function.
    captured : list of Var
        What it takes from the scope that it stands in.
    """

    gvar: GlobalVar
    captured: list[Var]


class ModuleLowering(ABC):
    """What the functions of a module share while they are lowered."""

    builder: relax.BlockBuilder
    kernels: RepeatedKernels
    checks: RuntimeChecks
    texts: dict[str, None]
    lowered: dict[GlobalVar, GlobalVar]
    externals: Mapping[str, External]
    is_pure: bool
    device: int | None

    @abstractmethod
    def definition(self, header: GlobalTypeVar) -> TypeData:
        """Return the definition of a data type."""

    @abstractmethod
    def lift(self, function: Function, name: str, own: Var | None) -> Closure:
        """Make a local function global; `own` is the variable by which it calls itself."""


def relax_params(function: Function, symbols: dict[Any, tirx.Var]) -> list[relax.Var]:
    """Return the lowered parameters of a function; `symbols` is extended by their symbolic dimensions."""
    return [relax.Var(p.name_hint, relax_type(p.checked_type, symbols)) for p in function.params]


class FunctionLowering:
    """One function.

    Parameters
    ----------
    module : ModuleLowering
        The module it belongs to.
    function : Function
        The function, typed.
    name : str
        Its name.
    own : (Var, Closure), optional
        For a lifted local function, the variable that names it inside itself.
    """

    def __init__(
        self, module: ModuleLowering, function: Function, name: str, own: tuple[Var, Closure] | None = None
    ) -> None:
        self.module = module
        self.function = function
        self.name = name
        self.builder = module.builder
        self.context = LowerContext(module.kernels, module.checks, module.device, module.texts)
        self.scopes: list[dict[Any, Value]] = [{}]
        self.lasting: set[tirx.Var] = set()  # the symbols that parameters define, which all blocks know
        self.closures: dict[Var, Closure] = dict([own] if own is not None else [])
        self.before = hoisted(function.body, enter_functions=False)  # local functions are lifted out
        shared = {expr for exprs in self.before.values() for expr in exprs}
        self.tails = tail_calls(function.body) - shared

    def run(self) -> relax.Function:
        """Return the lowered function."""
        builder = self.builder
        params = relax_params(self.function, self.context.symbols)
        self.lasting = {symbol for param in params for symbol in tir_vars_in_type(param.ty)}
        builder.begin_scope(params)
        begin_block(builder)
        for variable, param in zip(self.function.params, params, strict=True):
            self.bind(variable, param)
            self.context.read_sizes.add_existing(param.ty)
        part = self.function.attrs.get(DEVICE_PART) if self.function.attrs else None
        value: Value = self.visit(self.function.body) if part is None else self.called_part(part, params)
        result = builder.emit(self.context.materialize(value))
        body = relax.SeqExpr([end_block(builder)], result)
        builder.end_scope()
        ret_type = relax_type(self.function.checked_type.ret_type)
        return relax.Function(params, body, ret_type, is_pure=self.module.is_pure)

    def visit_constant(self, constant: Constant) -> Value:
        if 0 in constant.data.shape:
            # TVM's VM does not load a constant without elements.
            return self.without_elements(list(constant.data.shape), str(constant.data.dtype))
        return relax.const(constant.data)

    def without_elements(self, shape: list[int], dtype: str) -> Value:
        """Return a tensor of known sizes of which one is 0."""
        return self.context.emit(relax.op.zeros(relax.ShapeExpr(shape), dtype))

    def called_part(self, name: str, params: list[relax.Var]) -> Value:
        """Return what a part of the program gives that is compiled for another device."""
        ty = relax_type(self.function.checked_type.ret_type)
        return self.context.emit(relax.op.call_pure_packed(name, *params, ty_args=[ty]))

    # -- scopes

    def visit(self, expr: RelayExpr) -> Value:
        """Return the value of an expression, lowered now unless it is at hand."""
        for scope in reversed(self.scopes):
            if expr in scope:
                return scope[expr]
        visitor = _VISITORS.get(type(expr))
        if visitor is None:
            raise CompileError(f"{type(expr).__name__} cannot be compiled here: {expr}")
        value = visitor(self, expr)
        self.scopes[-1][expr] = value
        return value

    def bind(self, variable: Var, value: Value) -> None:
        """Give a variable its value in the current scope."""
        self.scopes[-1][variable] = value

    def block(self, lower: Callable[[], Value]) -> relax.SeqExpr:
        """Return what is lowered in a scope of its own."""
        self.scopes.append({})
        begin_block(self.builder)
        with self.context.read_sizes.branch():
            value = self.builder.emit(self.context.materialize(lower()))
        block = end_block(self.builder)
        self.scopes.pop()
        return relax.SeqExpr([block], value)

    def chosen(self, condition: relax.Expr, true_branch: relax.SeqExpr, false_branch: relax.SeqExpr) -> relax.Var:
        """Bind the result of one of two blocks and return its variable."""
        branches = (true_branch, false_branch)
        types = [branch.body.ty for branch in branches]
        if not all(self.lasting.issuperset(tir_vars_in_type(ty)) for ty in types):
            return self.builder.emit(relax.If(condition, *branches))
        # The builder looks at all that stands in branches to give an If its type, which takes time by the square of the
        # depth of those within each other. Types without symbols of a branch are the ones that it would find.
        either = type_lca(*types)
        typed = [retyped(branch, ty) for branch, ty in zip(branches, types, strict=True)]
        result = relax.Var("chosen", either)
        self.builder.emit_normalized(relax.VarBinding(result, retyped(relax.If(condition, *typed), either)))
        return result

    def joined(self, expr: RelayExpr, value: Value) -> Value:
        """Return the result of a call or branch with its unknown dimensions named.

        A result that the function returns as it is stays as it is, so that a tail call stays one.
        """
        if expr in self.tails:
            return value
        return self.context.pin_as(value, expr.checked_type)

    def definition(self, header: GlobalTypeVar) -> TypeData:
        """Return the definition of a data type."""
        return self.module.definition(header)

    # -- binding and branching

    def visit_let(self, let: Let) -> Value:
        node: Any = let
        while isinstance(node, Let):
            if isinstance(node.value, Function):
                self.closures[node.var] = self.module.lift(node.value, f"{self.name}_{node.var.name_hint}", node.var)
            else:
                self.bind(node.var, self.visit(node.value))
            node = node.body
        return self.visit(node)

    def visit_var(self, variable: Var) -> Value:
        closure = self.closures.get(variable)
        if closure is None:
            raise CompileError(f"variable %{variable.name_hint} has no value here")
        return self.closure_value(closure)

    def visit_if(self, branch: If) -> Value:
        condition = self.context.materialize(self.visit(branch.cond))
        self.compute_shared(branch)
        true_branch = self.block(lambda: self.visit(branch.true_branch))
        false_branch = self.block(lambda: self.visit(branch.false_branch))
        return self.joined(branch, self.chosen(condition, true_branch, false_branch))

    def visit_match(self, match: Match) -> Value:
        self.visit(match.data)
        self.compute_shared(match)
        return self.joined(match, lower_match(self, match))

    def compute_shared(self, owner: If | Match) -> None:
        """Lower what several branches use, before them."""
        for shared in self.before.get(owner, ()):
            self.visit(shared)

    # -- functions as values

    def closure_value(self, closure: Closure) -> Value:
        """Return a closure as a value: the function and what it captured here."""
        captured = relax.Tuple([self.context.materialize(self.visit(v)) for v in closure.captured])
        return self.context.emit(relax.op.make_closure(closure.gvar, captured))

    def visit_global(self, name: GlobalVar) -> Value:
        """Return a global function as a value."""
        if name.name_hint in self.module.externals:
            raise CompileError(f"@{name.name_hint} is for another code generator: call it, it is no value to hand on")
        return self.context.emit(relax.op.make_closure(self.module.lowered[name], relax.Tuple([])))

    def visit_constructor(self, constructor: Constructor) -> Value:
        """Return a constructor as a function value."""
        signature = cast("FuncType", constructor.checked_type)
        params = [Var(f"field{i}", ty) for i, ty in enumerate(signature.arg_types)]
        call = Call(constructor, params)
        for node, ty in zip([*params, call], [*signature.arg_types, signature.ret_type], strict=True):
            node.checked_type_ = ty
        function = Function(params, call, signature.ret_type, list(signature.type_params))
        function.checked_type_ = signature
        return self.closure_value(self.module.lift(function, constructor.name_hint, None))

    # -- references

    def impure(self, name: str, *args: Value) -> relax.Expr:
        """Call a packed function that has an effect, or whose result depends on one."""
        operands = [self.context.materialize(a) for a in args]
        return self.context.emit(relax.Call(relax.ExternFunc(name), operands, ty_args=[relax.AnyType()]))

    def visit_ref_read(self, read: RefRead) -> Value:
        value = self.impure("ffi.ListGetItem", self.visit(read.ref), relax.prim_value(0))
        return self.context.pin_as(value, read.checked_type)

    def visit_ref_write(self, write: RefWrite) -> Value:
        reference = self.visit(write.ref)
        self.impure("ffi.ListSetItem", reference, relax.prim_value(0), self.kept(self.visit(write.value)))
        return ()

    def kept(self, value: Value) -> relax.Expr:
        """Return a value in a form of which the memory planner knows that it lives on."""
        operand = self.builder.emit(self.context.materialize(value))
        return self.context.emit(relax.op.call_pure_packed("vm.builtin.copy", operand, ty_args=[operand.ty]))

    # -- calls

    def visit_call(self, call: Call) -> Value:
        callee = call.op
        if isinstance(callee, Op):
            value = self.context.short(self.call_operator(entry(callee), call, [self.visit(a) for a in call.args]))
            is_untyped = isinstance(value, relax.Expr) and isinstance(value.ty, relax.AnyType)
            return self.context.pin_as(value, call.checked_type) if is_untyped else value
        if isinstance(callee, Constructor):
            return construct(self.context, callee, [self.visit(a) for a in call.args])
        if isinstance(callee, GlobalVar) and callee.name_hint in self.module.externals:
            return call_external(self, self.module.externals[callee.name_hint], call)
        if isinstance(callee, GlobalVar):
            return self.call_lowered(self.module.lowered[callee], call, call.args)
        if isinstance(callee, Var) and callee in self.closures:
            closure = self.closures[callee]
            return self.call_lowered(closure.gvar, call, [*call.args, *closure.captured])
        function = self.visit(callee)
        operands = relax.Tuple([self.context.materialize(self.visit(a)) for a in call.args])
        invoke = relax.op.invoke_pure_closure if self.module.is_pure else relax.op.invoke_closure
        return self.joined(call, self.context.emit(invoke(function, operands, ty_args=[relax.AnyType()])))

    def call_lowered(self, gvar: GlobalVar, call: Call, args: Iterable[RelayExpr]) -> Value:
        """Call a function of the module."""
        operands = [self.context.materialize(self.visit(a)) for a in args]
        return self.joined(call, self.builder.emit(relax.Call(gvar, operands)))

    def call_operator(self, made: OpEntry, call: Call, args: list[Value]) -> Value:
        """Call an operator: its kernel, or what its lowering says."""
        context = self.context
        context.current, context.span = made, call.span
        context.types = [a.checked_type for a in call.args]
        result = call.checked_type
        if isinstance(result, TensorType) and all(isinstance(d, int) for d in result.shape) and 0 in result.shape:
            # There is nothing to compute, and many an operator would divide by the sizes.
            return self.without_elements(list(result.shape), stored_type(str(result.dtype)))
        try:
            if made.lower is not None:
                return made.lower(context, call.attrs, *args)
            compute = made.compute
            if compute is None:
                raise CompileError(
                    f"{made.name} stands for other operators; run relay.qnn.transform.CanonicalizeOps first"
                )
            attrs = call.attrs
            return context.te(lambda *tensors: compute(attrs, *tensors), *args)
        except VMKitError:
            raise
        except Exception as error:
            types = ", ".join(type_text(a.checked_type) for a in call.args)
            raise CompileError(f"{made.name}({types}) cannot be lowered: {error}") from error


# Not of an instance, which would hold itself, and the program, by its methods.
_VISITORS: dict[type, Callable[[FunctionLowering, Any], Value]] = {
    Call: FunctionLowering.visit_call,
    Constant: FunctionLowering.visit_constant,
    Constructor: FunctionLowering.visit_constructor,
    Function: lambda self, e: self.closure_value(self.module.lift(e, f"{self.name}_closure", None)),
    GlobalVar: FunctionLowering.visit_global,
    If: FunctionLowering.visit_if,
    Let: FunctionLowering.visit_let,
    Match: FunctionLowering.visit_match,
    RefCreate: lambda self, e: self.impure("ffi.List", self.kept(self.visit(e.value))),
    RefRead: FunctionLowering.visit_ref_read,
    RefWrite: FunctionLowering.visit_ref_write,
    Tuple: lambda self, e: tuple(self.visit(f) for f in e.fields),
    TupleGetItem: lambda self, e: self.context.fields(self.visit(e.tuple_value))[e.index],
    Var: FunctionLowering.visit_var,
}
