"""Branches as functions of their own: for good where they lie deep within each other, else while operators are fused.

Nearly each of TVM's passes looks at a branch once for each branch around it, and so takes time by the square of the
depth. After :func:`outline_branches` a function's branches are at most :data:`DEPTH` deep. Calling a function costs
the virtual machine less than a kernel.

TVM fuses the operators of a function's own blocks, and none of a branch, nor so of a loop, whose body is the branch of
a function that calls itself. Between :func:`branches_apart` and :func:`branches_back` there are blocks of functions
alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

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
from .._tvm.running import array_items
from .rewrite import are_same, bindings_of, on_bindings, on_functions, with_branches, with_functions

__all__ = ["DEPTH", "branches_apart", "branches_back", "outline_branches"]

DEPTH = 16

_APART = "vmkit.branch"  # what marks a function that is put back


def outline_branches() -> tvm.transform.Pass:
    """Return the pass that makes functions of branches in which others are :data:`DEPTH` deep within each other.

    A branch that calls the function that it stands in stays: the bytecode makes a loop of a function that ends so.
    """

    def is_apart(gvar: ir.GlobalVar, arm: relax.SeqExpr, depth: int) -> bool:
        return depth >= DEPTH and gvar not in all_global_vars(arm)

    return _outlining("OutlineBranches", is_apart, {})


def branches_apart() -> tvm.transform.Pass:
    """Return the pass that makes a function, until :func:`branches_back`, of each branch with operators to fuse."""
    return _outlining("BranchesApart", lambda _, arm, __: _has_operators_to_fuse(arm), {_APART: True})


def branches_back() -> tvm.transform.Pass:
    """Return the pass that puts the branches in their places of which :func:`branches_apart` made functions."""
    return tvm.transform.module_pass(lambda mod, _: _put_back(mod), opt_level=0, name="BranchesBack")


_IsApart = Callable[[ir.GlobalVar, relax.SeqExpr, int], bool]


def _outlining(name: str, is_apart: _IsApart, attrs: dict[str, bool]) -> tvm.transform.Pass:
    """Return the pass that makes functions of branches for which `is_apart` holds.

    It is told the function, the branch, and how deep the branches in it, which are no functions yet, are.
    """

    def outlined(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        made: dict[ir.GlobalVar, ir.BaseFunc] = {}
        names = {gvar.name_hint for gvar in mod.get_global_vars()}
        for gvar, function in mod.functions.items():
            if isinstance(function, relax.Function):
                outlining = _Outlining(gvar, function, names, is_apart, attrs)
                body, _depth = outlining.sequence(function.body)
                if outlining.made:
                    made |= outlining.made
                    made[gvar] = relax.Function(
                        function.params, body, function.ret_ty, function.is_pure, function.attrs
                    )
        return with_functions(mod, made) if made else mod

    return tvm.transform.module_pass(outlined, opt_level=0, name=name)


def _has_operators_to_fuse(arm: relax.SeqExpr) -> bool:
    calls = (binding.value for binding in bindings_of(arm) if isinstance(binding.value, relax.Call))
    return len(list(itertools.islice((call for call in calls if isinstance(call.op, ir.Op)), 2))) == 2


def _put_back(mod: tvm.IRModule) -> tvm.IRModule:
    functions = {gvar: f for gvar, f in mod.functions.items() if isinstance(f, relax.Function)}
    apart = {gvar: f for gvar, f in functions.items() if _APART in (f.attrs or {})}
    if not apart:
        return mod
    by_name = {gvar.name_hint: function for gvar, function in apart.items()}
    kept = tvm.IRModule({v: f for v, f in mod.functions.items() if v not in apart}, mod.attrs, mod.global_infos)
    return on_functions(kept, lambda _, function: _with_calls_replaced(function.body, by_name))


def _with_calls_replaced(sequence: relax.SeqExpr, functions: Mapping[str, relax.Function]) -> relax.SeqExpr:
    """Return a sequence in which the bodies of functions, by their names, stand where they were called."""
    blocks: list[relax.BindingBlock] = []
    before = array_items(sequence.blocks)
    for block in before:
        made: list[relax.Binding] = []
        for binding in array_items(block.bindings):
            function = _called(binding, functions)
            if function is None:
                made.append(with_branches(binding, lambda arm: _with_calls_replaced(arm, functions)))
                continue
            # Symbols of the function become what the arguments' types say, too.
            bound = function.bind_params(dict(zip(function.params, binding.value.args, strict=True)))
            body = _with_calls_replaced(bound.body, functions)
            blocks += [*([type(block)(made)] if made else []), *array_items(body.blocks)]
            made = [relax.VarBinding(binding.var, body.body)]
        blocks.append(block if are_same(made, array_items(block.bindings)) else type(block)(made))
    return sequence if are_same(blocks, before) else retyped(relax.SeqExpr(blocks, sequence.body), sequence.ty)


def _called(binding: relax.Binding, functions: Mapping[str, relax.Function]) -> relax.Function | None:
    """Return which of some functions, by name, a binding calls; None if it does not."""
    call = binding.value if isinstance(binding, relax.VarBinding) else None
    gvar = call.op if isinstance(call, relax.Call) else None
    return functions.get(gvar.name_hint) if isinstance(gvar, ir.GlobalVar) else None


class _Outlining:
    """One function; `made` are the functions that branches of it have become."""

    def __init__(
        self,
        gvar: ir.GlobalVar,
        function: relax.Function,
        names: set[str],
        is_apart: _IsApart,
        attrs: dict[str, bool],
    ) -> None:
        self.gvar = gvar
        self.is_pure = function.is_pure
        self.names = names
        self.is_apart = is_apart
        self.attrs = attrs
        self.numbers = itertools.count(1)
        self.made: dict[ir.GlobalVar, ir.BaseFunc] = {}

    def sequence(self, sequence: relax.SeqExpr) -> tuple[relax.SeqExpr, int]:
        """Return a sequence of limited depth, and how many branches within each other it has."""
        depths = [0]

        def branch(arm: relax.SeqExpr) -> relax.SeqExpr:
            made, depth = self.sequence(arm)
            if self.is_apart(self.gvar, made, depth):
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
        self.made[gvar] = function.with_attrs(self.attrs) if self.attrs else function
        call = relax.Call(gvar, [*read, *([relax.ShapeExpr(sizes)] if sizes else [])])
        result = relax.Var("branch", ty)
        return relax.SeqExpr([relax.BindingBlock([relax.VarBinding(result, retyped(call, ty))])], result)

    def name(self) -> str:
        """Return a name that no function of the module has yet."""
        names = (f"{self.gvar.name_hint}_branch{k}" for k in self.numbers)
        name = next(name for name in names if name not in self.names)
        self.names.add(name)
        return name
