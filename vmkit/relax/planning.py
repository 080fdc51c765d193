"""TVM's memory planner, in time linear in the tensors of unknown sizes.

The planner gives released storage of an unknown size to tensors of the same size alone, and compares each tensor with
all storage that is free, by proof. It searches among storage of one memory scope only. So while it runs, every size
of which nothing is known has a scope of its own, in which all storage fits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.relax import transform

from ..relay.ir import dims
from .aliases import STORAGE, is_call
from .rewrite import function_pass, on_bindings, retyped_call, with_branches

__all__ = ["plan_memory"]

_TENSOR = "relax.builtin.alloc_tensor"  # what the planner takes
_MARK = "/size "


def plan_memory() -> tvm.transform.Pass:
    """Return the pass that plans the storage of all tensors that functions allocate."""
    return tvm.transform.Sequential(
        [
            function_pass("ScopeUnknownSizes", lambda function: _with_scopes(function.body, _Sizes().scope)),
            transform.StaticPlanBlockMemory(),
            function_pass("UnscopeUnknownSizes", lambda function: _with_scopes(function.body, _without_mark)),
        ],
        name="PlanMemory",
    )


class _Sizes:
    """The unknown sizes of a function, each with a number."""

    def __init__(self) -> None:
        self.numbers: dict[int, list[tuple[tirx.Expr, int]]] = defaultdict(list)  # by the hash of the size
        self.count = 0

    def scope(self, call: relax.Call, scope: str) -> str:
        """Return the scope in which the tensor or storage that a call allocates is planned."""
        if not is_call(call, _TENSOR) or all(isinstance(dim, tirx.IntImm) for dim in call.args[0].values):
            return scope
        return f"{scope}{_MARK}{self.number(dims.as_expr(dims.product(list(call.args[0].values))))}"

    def number(self, size: tirx.Expr) -> int:
        """Return the number that equal sizes have."""
        alike = self.numbers[tvm_ffi.structural_hash(size)]
        for known, number in alike:
            if tvm_ffi.structural_equal(known, size):
                return number
        self.count += 1
        alike.append((size, self.count))
        return self.count


def _without_mark(_: relax.Call, scope: str) -> str:
    return scope.partition(_MARK)[0]


def _with_scopes(body: relax.SeqExpr, scope_of: Callable[[relax.Call, str], str]) -> relax.SeqExpr | None:
    """Return the body of a function with the scopes of what it allocates changed; None where all stay."""

    def change(binding: relax.Binding) -> list[relax.Binding]:
        call = binding.value
        place = 3 if is_call(call, _TENSOR) else 2 if is_call(call, STORAGE) else None
        if place is None:
            return [with_branches(binding, sequence)]
        before = str(call.args[place].value)
        after = scope_of(call, before)
        if after == before:
            return [binding]
        args = list(call.args)
        args[place] = tvm.ir.StringImm(after)
        return [relax.VarBinding(binding.var, retyped_call(call, args))]

    def sequence(each: relax.SeqExpr) -> relax.SeqExpr:
        return on_bindings(each, change)

    made = sequence(body)
    return None if made.same_as(body) else made
