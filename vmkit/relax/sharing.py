"""Fewer instructions between kernels: a view of a view is one view."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import relax

from .aliases import is_call
from .rewrite import function_pass, on_bindings, retyped_call, substituted, with_branches

__all__ = ["merge_views"]


def merge_views() -> tvm.transform.Pass:
    """Return the pass that reshapes what a reshaped tensor was made from; to be run while reshapes are operators."""
    return function_pass("MergeViews", lambda function: _Views({}, {}).sequence(function.body))


class _Views:
    """What is known at a place of a program: what views were made from, and tensors that others are the same as."""

    def __init__(self, known: dict[relax.Var, relax.Expr], same: dict[relax.Var, relax.Expr]) -> None:
        self.known = known
        self.same = same

    def inner(self) -> _Views:
        """Return a scope for a branch, whose values are not known after it."""
        return _Views(dict(self.known), dict(self.same))

    def sequence(self, sequence: relax.SeqExpr) -> relax.SeqExpr:
        """Return a sequence without the bindings of values that are at hand already."""
        made = on_bindings(sequence, self.bindings)
        return relax.SeqExpr(made.blocks, substituted(sequence.body, self.same)) if self.same else made

    def bindings(self, binding: relax.Binding) -> list[relax.Binding]:
        """Return what becomes of a binding."""
        value = binding.value
        if isinstance(value, relax.If):
            condition = substituted(value.cond, self.same)
            return [with_branches(binding, lambda arm: self.inner().sequence(arm), condition)]
        value = substituted(value, self.same)
        if isinstance(binding, relax.MatchCast):
            return [binding if value.same_as(binding.value) else relax.MatchCast(binding.var, value, binding.ty)]
        assert isinstance(binding, relax.VarBinding)
        renamed = binding if value.same_as(binding.value) else relax.VarBinding(binding.var, value)
        changed = self.binding(renamed)
        return [] if changed is None else [changed]

    def binding(self, binding: relax.VarBinding) -> relax.VarBinding | None:
        """Return what becomes of a binding; None where its value is at hand already."""
        call = binding.value
        if not is_call(call, "relax.reshape"):
            return binding
        source = self.known.get(call.args[0], call.args[0])
        self.known[binding.var] = source
        if isinstance(binding.var, relax.DataflowVar) and _same_shape(source, binding.var):
            self.same[binding.var] = source
            return None
        if source.same_as(call.args[0]):
            return binding
        return relax.VarBinding(binding.var, retyped_call(call, [source, *list(call.args)[1:]]))


def _same_shape(a: relax.Expr, b: relax.Expr) -> bool:
    return tvm_ffi.structural_equal(a.ty, b.ty)
