"""Branches that lie deep within each other become functions of their own.

Nearly each of TVM's passes looks at a branch once for each branch around it, and so takes time by the square of the
depth. A function's branches are at most :data:`DEPTH` deep after this pass. Calling a function costs
the virtual machine less than a kernel.
"""

from __future__ import annotations

import itertools

import tvm
from tvm import ir, relax
from tvm.relax.analysis import (
    all_global_vars,
    definable_tir_vars_in_type,
    erase_to_well_defined,
    free_symbolic_vars,
    free_vars,
)
from tvm.relax.utils import copy_with_new_vars

from .._tvm import retyped
from .rewrite import on_bindings, with_branches, with_functions

__all__ = ["DEPTH", "outline_branches"]

DEPTH = 16


def outline_branches() -> tvm.transform.Pass:
    """Return the pass that makes functions of branches in which others are :data:`DEPTH` deep within each other.

    A branch that calls the function that it stands in stays: the bytecode makes a loop of a function that ends so.
    """
    return tvm.transform.module_pass(lambda mod, _: _outlined(mod), opt_level=0, name="OutlineBranches")


def _outlined(mod: tvm.IRModule) -> tvm.IRModule:
    made: dict[ir.GlobalVar, ir.BaseFunc] = {}
    names = {gvar.name_hint for gvar in mod.get_global_vars()}
    for gvar, function in mod.functions.items():
        if isinstance(function, relax.Function):
            outlining = _Outlining(gvar, function, names)
            body, _ = outlining.sequence(function.body)
            if outlining.made:
                made |= outlining.made
                made[gvar] = relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)
    return with_functions(mod, made) if made else mod


class _Outlining:
    """One function; `made` are the functions that branches of it have become."""

    def __init__(self, gvar: ir.GlobalVar, function: relax.Function, names: set[str]) -> None:
        self.gvar = gvar
        self.is_pure = function.is_pure
        self.names = names
        self.numbers = itertools.count(1)
        self.made: dict[ir.GlobalVar, ir.BaseFunc] = {}

    def sequence(self, sequence: relax.SeqExpr) -> tuple[relax.SeqExpr, int]:
        """Return a sequence of limited depth, and how many branches within each other it has."""
        depths = [0]

        def branch(arm: relax.SeqExpr) -> relax.SeqExpr:
            made, depth = self.sequence(arm)
            if depth >= DEPTH and self.gvar not in all_global_vars(made):
                made, depth = self.call(made), 0
            depths.append(1 + depth)
            return made

        made = on_bindings(sequence, lambda binding: [with_branches(binding, branch)])
        return made, max(depths)

    def call(self, arm: relax.SeqExpr) -> relax.SeqExpr:
        """Return a call of a new function in the place of a branch."""
        read = list(free_vars(arm))
        sizes = list(free_symbolic_vars(relax.Function(read, arm, arm.body.ty, self.is_pure)))
        known = {symbol for variable in read for symbol in definable_tir_vars_in_type(variable.ty)}.union(sizes)
        ty = erase_to_well_defined(arm.body.ty, {symbol: symbol for symbol in known}, {v: v for v in read})
        # Sizes that no dimension of a tensor gives travel as a shape.
        shape = [relax.Var("sizes", relax.ShapeType(sizes))] if sizes else []
        function = copy_with_new_vars(relax.Function([*read, *shape], arm, ty, self.is_pure))
        gvar = retyped(ir.GlobalVar(self.name()), function.ty)
        self.made[gvar] = function
        call = relax.Call(gvar, [*read, *([relax.ShapeExpr(sizes)] if sizes else [])])
        result = relax.Var("branch", ty)
        return relax.SeqExpr([relax.BindingBlock([relax.VarBinding(result, retyped(call, ty))])], result)

    def name(self) -> str:
        """Return a name that no function of the module has yet."""
        names = (f"{self.gvar.name_hint}_branch{k}" for k in self.numbers)
        name = next(name for name in names if name not in self.names)
        self.names.add(name)
        return name
