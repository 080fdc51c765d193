"""Storage that the branches of an If share is allocated by each of them.

TVM's memory planner sees a function as one sequence. It gives storage that one branch has released to the other branch,
or to what follows the If, although only the first branch allocates it; running the other one then ends the process.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from .._tvm import retyped

__all__ = ["own_storage_of_branches"]


def own_storage_of_branches() -> tvm.transform.Pass:
    """Return the pass, to be run after memory planning, that allocates storage wherever it may be used first."""
    return tvm.transform.module_pass(lambda mod, _: _repaired(mod), opt_level=0, name="OwnStorageOfBranches")


def _repaired(mod: tvm.IRModule) -> tvm.IRModule:
    result = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs, global_infos=mod.global_infos)
    for gvar, function in mod.functions.items():
        if isinstance(function, relax.Function) and _has_branches(function.body):
            body = _sequence(function.body, _allocations(function.body), set(), {})
            made = relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)
            result.update_func(gvar, made)
    return result


def _has_branches(sequence: relax.SeqExpr) -> bool:
    return any(isinstance(b.value, relax.If) for block in sequence.blocks for b in block.bindings)


def _is_call_of(value: Any, name: str) -> bool:
    return isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op) and value.op.name == name


def _allocations(sequence: relax.SeqExpr) -> dict[Any, relax.Call]:
    """Return the allocations of storage in a function, by the variable that holds the storage."""
    found: dict[Any, relax.Call] = {}

    def visit(binding: relax.VarBinding) -> None:
        if _is_call_of(binding.value, "relax.memory.alloc_storage"):
            found[binding.var] = binding.value

    tvm_ffi.structural_walk(sequence, (relax.VarBinding, visit))
    return found


def _sequence(
    sequence: relax.SeqExpr, allocations: dict[Any, relax.Call], present: set[Any], renamed: dict[Any, relax.Var]
) -> relax.SeqExpr:
    """Return a sequence that allocates what it uses; `present` is the storage at hand, `renamed` its own copies."""
    blocks = []
    for block in sequence.blocks:
        bindings: list[relax.Binding] = []
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, relax.If):
                binding = _branches(binding, allocations, present, renamed)
            elif binding.var in allocations:
                present.add(binding.var)
            elif _is_call_of(value, "relax.memory.alloc_tensor"):
                storage = value.args[0]
                if storage not in present and storage not in renamed:
                    renamed[storage] = relax.Var(storage.name, storage.ty)
                    bindings.append(relax.VarBinding(renamed[storage], allocations[storage]))
                if storage in renamed:
                    binding = _with_storage(binding, renamed[storage])
            bindings.append(binding)
        blocks.append(relax.BindingBlock(bindings))
    return relax.SeqExpr(blocks, sequence.body)


def _branches(
    binding: relax.VarBinding, allocations: dict[Any, relax.Call], present: set[Any], renamed: dict[Any, relax.Var]
) -> relax.VarBinding:
    branch = binding.value
    arms = [
        _sequence(arm, allocations, set(present), dict(renamed)) for arm in (branch.true_branch, branch.false_branch)
    ]
    made = relax.If(branch.cond, *arms)
    retyped(made, branch.ty)
    return relax.VarBinding(binding.var, made)


def _with_storage(binding: relax.VarBinding, storage: relax.Var) -> relax.VarBinding:
    call = binding.value
    made = relax.Call(call.op, [storage, *list(call.args)[1:]], call.attrs, list(call.ty_args))
    retyped(made, call.ty)
    return relax.VarBinding(binding.var, made)
