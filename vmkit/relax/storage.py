"""Storage that the branches of an If share is allocated by each of them.

TVM's memory planner sees a function as one sequence. It gives storage that one branch has released to the other branch,
or to what follows the If, although only the first branch allocates it; running the other one then ends the process.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
import tvm_ffi
from tvm import relax

from .._dataclasses import dataclass
from .aliases import STORAGE, TENSOR, is_call
from .rewrite import bindings_of, function_pass, on_bindings, retyped_call, with_branches

__all__ = ["own_storage_of_branches"]


def own_storage_of_branches() -> tvm.transform.Pass:
    """Return the pass, to be run after memory planning, that allocates storage wherever it may be used first."""
    return function_pass("OwnStorageOfBranches", lambda function: _repaired(function.body))


def _repaired(body: relax.SeqExpr) -> relax.SeqExpr | None:
    return _Present(_allocations(body), set(), {}).sequence(body) if _has_branches(body) else None


def _has_branches(sequence: relax.SeqExpr) -> bool:
    return any(isinstance(binding.value, relax.If) for binding in bindings_of(sequence))


def _allocations(sequence: relax.SeqExpr) -> dict[relax.Var, relax.Call]:
    """Return the allocations of storage in a function, by the variable that holds the storage."""
    found: dict[relax.Var, relax.Call] = {}

    def visit(binding: relax.VarBinding) -> None:
        if is_call(binding.value, STORAGE):
            found[binding.var] = binding.value

    tvm_ffi.structural_walk(sequence, (relax.VarBinding, visit))
    return found


@dataclass(frozen=True)
class _Present:
    """The storage at hand at a place of a function.

    Attributes
    ----------
    allocations
        How each storage of the function is allocated.
    present
        The storage that is allocated here already.
    renamed
        What a branch allocates itself, by the storage that the planner gave it.
    """

    allocations: Mapping[relax.Var, relax.Call]
    present: set[relax.Var]
    renamed: dict[relax.Var, relax.Var]

    def sequence(self, sequence: relax.SeqExpr) -> relax.SeqExpr:
        """Return a sequence that allocates what it uses."""
        return on_bindings(sequence, self.bindings)

    def branch(self, arm: relax.SeqExpr) -> relax.SeqExpr:
        """Return a branch that does; what it allocates is not at hand after it."""
        return _Present(self.allocations, set(self.present), dict(self.renamed)).sequence(arm)

    def bindings(self, binding: relax.Binding) -> list[relax.Binding]:
        """Return what becomes of a binding, behind the allocation that it needs here."""
        if binding.var in self.allocations:
            self.present.add(binding.var)
        if not is_call(binding.value, TENSOR):
            return [with_branches(binding, self.branch)]
        storage, *rest = binding.value.args
        made: list[relax.Binding] = []
        if storage not in self.present and storage not in self.renamed:
            self.renamed[storage] = relax.Var(storage.name, storage.ty)
            made.append(relax.VarBinding(self.renamed[storage], self.allocations[storage]))
        if storage in self.renamed:
            binding = relax.VarBinding(binding.var, retyped_call(binding.value, [self.renamed[storage], *rest]))
        return [*made, binding]
