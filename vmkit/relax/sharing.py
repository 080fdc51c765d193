"""Fewer instructions between kernels: a view of a view is one view, and a shape is made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax

from .._tvm import retyped

__all__ = ["merge_views", "share_shapes"]

_Bindings = Callable[[Any], list[relax.Binding]]


def merge_views() -> tvm.transform.Pass:
    """Return the pass that reshapes what a reshaped tensor was made from; to be run while reshapes are operators."""

    def merged(mod: tvm.IRModule, _: Any) -> tvm.IRModule:
        return _on_functions(mod, lambda function: _sequence(function.body, _Views({}, {})))

    return tvm.transform.module_pass(merged, opt_level=0, name="MergeViews")


def share_shapes() -> tvm.transform.Pass:
    """Return the pass that makes each shape of a function once; to be run when shapes are made on a heap."""

    def shared(mod: tvm.IRModule, _: Any) -> tvm.IRModule:
        return _on_functions(mod, lambda function: _sequence(function.body, _Shapes({}, {})))

    return tvm.transform.module_pass(shared, opt_level=0, name="ShareShapes")


def _on_functions(mod: tvm.IRModule, change: Callable[[relax.Function], relax.SeqExpr]) -> tvm.IRModule:
    result = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs, global_infos=mod.global_infos)
    for gvar, function in mod.functions.items():
        if isinstance(function, relax.Function) and isinstance(function.body, relax.SeqExpr):
            body = change(function)
            made = relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)
            result.update_func(gvar, made)
    return result


class _Scope:
    """What is known at a place of a program: values that stand for others, and what was computed before."""

    def __init__(self, known: dict[Any, Any], same: dict[Any, Any]) -> None:
        self.known = known
        self.same = same

    def inner(self) -> _Scope:
        """Return a scope for a branch, whose values are not known after it."""
        return type(self)(dict(self.known), dict(self.same))

    def renamed(self, value: Any) -> Any:
        if not self.same:
            return value
        return tvm_ffi.structural_map(value, (ir.Var, lambda v: self.same.get(v, v)))

    def binding(self, binding: relax.VarBinding) -> relax.VarBinding | None:
        """Return what becomes of a binding; None where its value is at hand already."""
        raise NotImplementedError


class _Views(_Scope):
    def binding(self, binding: relax.VarBinding) -> relax.VarBinding | None:
        call = binding.value
        if not _is_call_of(call, "relax.reshape"):
            return binding
        source = self.known.get(call.args[0], call.args[0])
        self.known[binding.var] = source
        if isinstance(binding.var, relax.DataflowVar) and _same_shape(source, binding.var):
            self.same[binding.var] = source
            return None
        if source.same_as(call.args[0]):
            return binding
        return relax.VarBinding(binding.var, _like(call, [source, *list(call.args)[1:]]))


class _Shapes(_Scope):
    def binding(self, binding: relax.VarBinding) -> relax.VarBinding | None:
        call = binding.value
        if not (isinstance(call, relax.Call) and getattr(call.op, "global_symbol", "") == "vm.builtin.make_shape"):
            return binding
        # Every place of the heap is written once, before any shape is made from it.
        key = str(call)
        if key in self.known:
            self.same[binding.var] = self.known[key]
            return None
        self.known[key] = binding.var
        return binding


def _sequence(sequence: relax.SeqExpr, scope: _Scope) -> relax.SeqExpr:
    blocks = []
    for block in sequence.blocks:
        bindings: list[relax.Binding] = []
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, relax.If):
                arms = [_sequence(arm, scope.inner()) for arm in (value.true_branch, value.false_branch)]
                made = relax.If(scope.renamed(value.cond), *arms)
                retyped(made, value.ty)
                bindings.append(relax.VarBinding(binding.var, made))
                continue
            if scope.same:
                value = scope.renamed(value)
            if isinstance(binding, relax.MatchCast):
                bindings.append(relax.MatchCast(binding.var, value, binding.ty))
                continue
            changed = scope.binding(relax.VarBinding(binding.var, value))
            if changed is not None:
                bindings.append(changed)
        blocks.append(type(block)(bindings))
    return relax.SeqExpr(blocks, scope.renamed(sequence.body))


def _is_call_of(value: Any, name: str) -> bool:
    return isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op) and value.op.name == name


def _same_shape(a: Any, b: Any) -> bool:
    return tvm_ffi.structural_equal(a.ty, b.ty)


def _like(call: relax.Call, args: list[Any]) -> relax.Call:
    made = relax.Call(call.op, args, call.attrs, list(call.ty_args))
    retyped(made, call.ty)
    return made
