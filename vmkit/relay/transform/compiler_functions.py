"""Functions for another compiler: taken out of the program, put back into it, or marked as made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import tvm
from tvm.ir import GlobalVar

from ...errors import ModelError
from ..ir import Call, Function, Let, RelayExpr, free_vars, post_order, rewrite, with_functions
from .fresh_copy import applied_copy
from .registry import ModuleTransform, relay_pass

__all__ = [
    "InlineCompilerFunctionsBoundTo",
    "MarkCompilerFunctionsAsExtern",
    "OutlineCompilerFunctionsWithExistingGlobalSymbols",
]


@relay_pass(opt_level=0, name="OutlineCompilerFunctions")
def OutlineCompilerFunctionsWithExistingGlobalSymbols(compiler_filter: str = "") -> ModuleTransform:
    """Return the pass that makes functions for another compiler global, under the names that they have been given.

    Functions that a Let binds are among them; the Let goes. Two of one name must be equal.

    Parameters
    ----------
    compiler_filter : str
        The compiler whose functions are meant, as their attribute ``Compiler`` says; by default all.

    Raises
    ------
    ModelError
        When one has no ``global_symbol`` or uses variables from around it.
    """

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        functions = dict(mod.functions.items())
        names = {gvar.name_hint: gvar for gvar in functions}
        for gvar, function in mod.functions.items():
            if _is_own(function):
                lifting = _Lifting(compiler_filter, names, functions)
                functions[gvar] = rewrite(function, lifting.let_bound(function), lifting.replace)
        return with_functions(mod, functions)

    return on_module


@relay_pass(opt_level=0)
def MarkCompilerFunctionsAsExtern(compiler_filter: str = "") -> ModuleTransform:
    """Return the pass that leaves global functions for another compiler no attribute but ``Extern``.

    Parameters
    ----------
    compiler_filter : str
        The compiler whose functions are meant; by default all.
    """

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        functions = dict(mod.functions.items())
        marked = {v: _extern(f) for v, f in functions.items() if _is_for(f, compiler_filter)}
        return with_functions(mod, {**functions, **marked})

    return on_module


@relay_pass(opt_level=0)
def InlineCompilerFunctionsBoundTo(global_vars: Sequence[GlobalVar]) -> ModuleTransform:
    """Return the pass that puts functions for another compiler back into the program, for the usual one to compile.

    Parameters
    ----------
    global_vars : sequence of GlobalVar
        The names of the functions. Functions marked ``Composite`` that they call are taken apart, too.

    Raises
    ------
    ModelError
        When one of them is not a function for another compiler.
    """
    names = {gvar.name_hint for gvar in global_vars}

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        functions = dict(mod.functions.items())
        chosen = {gvar: f for gvar, f in functions.items() if gvar.name_hint in names}
        wrong = [gvar.name_hint for gvar, f in chosen.items() if not _is_for(f, "")]
        missing = sorted(names - {gvar.name_hint for gvar in chosen})
        if wrong or missing:
            raise ModelError(f"no function for another compiler: {', '.join([*wrong, *missing])}")
        bodies = {gvar: rewrite(f, {}, without_composites) for gvar, f in chosen.items()}

        def replaced(node: RelayExpr, original: RelayExpr) -> RelayExpr:
            if isinstance(node, Call) and isinstance(node.op, GlobalVar) and node.op in bodies:
                return applied_copy(bodies[node.op], list(node.args))
            return node

        rest = {gvar: f for gvar, f in functions.items() if gvar not in bodies}
        changed = {gvar: rewrite(f, {}, replaced) for gvar, f in rest.items() if _is_own(f)}
        return with_functions(mod, {**rest, **changed})

    return on_module


def _is_for(function: RelayExpr | tvm.ir.BaseFunc, compiler: str) -> TypeGuard[Function]:
    """Say whether something is a function for another compiler: for one of that name, or for any."""
    if not isinstance(function, Function) or not function.attrs.get("Compiler"):
        return False
    return not compiler or str(function.attrs["Compiler"]) == compiler


def _is_own(function: tvm.ir.BaseFunc) -> TypeGuard[Function]:
    """Say whether something is a function of Relay's for the usual compiler."""
    if not isinstance(function, Function):
        return False
    return not any(function.attrs.get(key) for key in ("Compiler", "Extern", "Primitive", "SkipOptimization"))


def _extern(function: Function) -> Function:
    params, types = list(function.params), list(function.type_params)
    return Function(params, function.body, function.ret_type, types, {"Extern": 1}, function.span)


def without_composites(node: RelayExpr, original: RelayExpr) -> RelayExpr:
    if isinstance(node, Call) and isinstance(node.op, Function) and node.op.attrs.get("Composite"):
        return applied_copy(node.op, list(node.args))
    return node


class _Lifting:
    """The functions for another compiler that become global, by their names."""

    def __init__(self, compiler: str, names: dict[str, GlobalVar], functions: dict[GlobalVar, tvm.ir.BaseFunc]) -> None:
        self.compiler = compiler
        self.names = names
        self.functions = functions
        self.bound: set[Any] = set()

    def let_bound(self, function: Function) -> Mapping[Any, RelayExpr]:
        """Return what stands in the place of variables that are bound to such functions: the functions."""
        lets = [node for node in post_order(function) if isinstance(node, Let) and _is_for(node.value, self.compiler)]
        self.bound = {let.var for let in lets}
        return {let.var: let.value for let in lets}

    def replace(self, node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if isinstance(original, Let) and original.var in self.bound:
            return node.body
        if isinstance(node, Call) and _is_for(node.op, self.compiler):
            return Call(self.global_of(node.op), list(node.args), node.attrs, list(node.type_args), node.span)
        return node

    def global_of(self, function: Function) -> GlobalVar:
        name = function.attrs.get("global_symbol")
        if not name:
            raise ModelError(f"a function for {function.attrs['Compiler']} has no global_symbol to be known by")
        free = free_vars(function)
        if free:
            raise ModelError(f"function {name} uses variables from around it: {', '.join(v.name_hint for v in free)}")
        gvar = self.names.setdefault(str(name), GlobalVar(str(name)))
        self.functions.setdefault(gvar, function)
        return gvar
