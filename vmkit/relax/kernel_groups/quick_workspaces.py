"""Workspaces of sizes that a run finds are allocated as shape heaps are: by one instruction in the place of five.

A workspace is integers that nobody reads as such, and of any number that is enough: what allocates a shape heap gives
them at once, where storage has a shape, a tensor in it another, and is forgotten again.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import ir, relax, tirx

from ..._tvm import retyped
from ..aliases import is_call
from ..rewrite import function_pass, nested_bindings, on_bindings, with_branches
from .functions import WORD
from .workspaces import WORKSPACE_STORAGE

__all__ = ["quick_workspaces"]

_STORAGE, _TENSOR, _KILL = "relax.vm.alloc_storage", "relax.vm.alloc_tensor", "relax.vm.kill_object"


def quick_workspaces() -> tvm.transform.Pass:
    """Return the pass, to be run on lowered calls of the VM of a CPU, that allocates workspaces at once."""
    return function_pass("QuickWorkspaces", lambda function: _quick(function.body))


def _quick(body: relax.SeqExpr) -> relax.SeqExpr | None:
    sizes = {b.var: b.value.args[0].values[0] for b in nested_bindings(body) if _is_storage(b)}
    computed = {var: size for var, size in sizes.items() if not isinstance(size, tirx.IntImm)}
    return _sequence(body, computed) if computed else None


def _sequence(sequence: relax.SeqExpr, sizes: Mapping[ir.Var, tirx.Expr]) -> relax.SeqExpr:
    def change(binding: relax.Binding) -> list[relax.Binding]:
        value = binding.value
        if binding.var in sizes or (is_call(value, _KILL) and value.args[0] in sizes):
            return []
        if is_call(value, _TENSOR) and value.args[0] in sizes:
            return [relax.VarBinding(binding.var, _integers(sizes[value.args[0]], binding.var.ty))]
        return [with_branches(binding, lambda arm: _sequence(arm, sizes))]

    return on_bindings(sequence, change)


def _is_storage(binding: relax.Binding) -> bool:
    return is_call(binding.value, _STORAGE) and binding.var.name.startswith(WORKSPACE_STORAGE)


def _integers(size: tirx.Expr, ty: relax.Type) -> relax.Call:
    """Return the call that allocates `size` bytes, as rounded as storage is, for a tensor of at most as many."""
    args = [relax.ExternFunc("vm.builtin.alloc_shape_heap"), relax.Tuple([tirx.floordiv(size, WORD)])]
    return retyped(relax.Call(ir.Op.get("relax.call_builtin_with_ctx"), args, None, [ty]), ty)
