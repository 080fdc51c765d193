"""What a program computes and nobody reads goes away, in time linear in its length.

TVM's pass compares each binding that nobody reads with all others, also casts that check sizes, which stay.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import ir, relax
from tvm.relax.analysis import all_global_vars, contains_impure_call, free_vars

from .._tvm import retyped
from .._tvm.running import array_items
from .rewrite import on_functions, with_branches

__all__ = ["eliminate_dead_code"]


def eliminate_dead_code() -> tvm.transform.Pass:
    """Return the pass that takes out values that nobody reads, and functions that nobody outside can reach.

    What has an effect stays, as does every cast that checks a type or gives names to sizes.
    """

    def run(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        # Functions first: what is not called needs no look at its values.
        reached = _reachable(mod)
        return _reachable(on_functions(reached, lambda _, function: _Living().function(function)))

    return tvm.transform.module_pass(run, opt_level=1, name="DeadCodeElimination")


class _Living:
    """The variables that are read behind the place of a function that is looked at, from its end to its begin."""

    def __init__(self) -> None:
        self.read: set[ir.Var] = set()

    def function(self, function: relax.Function) -> relax.SeqExpr | None:
        """Return the body without dead values; None if there is none."""
        body = self.sequence(function.body)
        return None if body.same_as(function.body) else body

    def sequence(self, sequence: relax.SeqExpr) -> relax.SeqExpr:
        """Return a sequence without dead values; the same one if there is none. Empty blocks go."""
        self.reads(sequence.body)
        before = array_items(sequence.blocks)
        blocks = [self.block(block) for block in reversed(before)]
        blocks = [block for block in reversed(blocks) if len(block.bindings) > 0]
        if len(blocks) == len(before) and all(map(relax.BindingBlock.same_as, blocks, before)):
            return sequence
        # A sequence that gets its type later has another hash then, by which TVM does not find its function.
        return retyped(relax.SeqExpr(blocks, sequence.body), sequence.ty)

    def block(self, block: relax.BindingBlock) -> relax.BindingBlock:
        """Return a block of the same kind without dead values; the same one if there is none."""
        is_pure = isinstance(block, relax.DataflowBlock)
        backwards = array_items(block.bindings)[::-1]
        made = [self.binding(binding, is_pure) for binding in backwards]
        if all(new is not None and new.same_as(old) for new, old in zip(made, backwards, strict=True)):
            return block
        return type(block)([new for new in reversed(made) if new is not None])

    def binding(self, binding: relax.Binding, is_pure: bool) -> relax.Binding | None:
        """Return a binding whose branches have no dead values; None if it is one itself."""
        value = binding.value
        if (
            binding.var not in self.read
            and isinstance(binding, relax.VarBinding)
            and (is_pure or not contains_impure_call(value))
        ):
            return None
        if not isinstance(value, relax.If):
            self.reads(value)
            return binding
        changed = with_branches(binding, self.sequence)
        self.reads(value.cond)
        return changed

    def reads(self, value: relax.Expr) -> None:
        """Note what a value reads."""
        self.read.update(array_items(free_vars(value)))


def _reachable(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module with the functions that others outside may call, and those that these call."""
    functions = dict(mod.functions.items())
    waiting = [gvar for gvar, function in functions.items() if _is_external(function)]
    found = set(waiting)
    while waiting:
        called = set(_callees(functions[waiting.pop()])) & functions.keys() - found
        found |= called
        waiting += called
    if functions.keys() <= found:
        return mod
    kept = {v: f for v, f in functions.items() if v in found}
    return tvm.IRModule(kept, attrs=mod.attrs, global_infos=mod.global_infos)


def _callees(function: ir.BaseFunc) -> list[ir.GlobalVar]:
    """Return the functions that one refers to."""
    if isinstance(function, relax.Function):
        return list(all_global_vars(function))
    found: list[ir.GlobalVar] = []
    tvm_ffi.structural_walk(function, (ir.GlobalVar, found.append))
    return found


def _is_external(function: ir.BaseFunc) -> bool:
    return isinstance(function, relax.ExternFunc) or "global_symbol" in (function.attrs or {})
