"""Which kernels sorting, scans and drawing become: TVM's passes, where a module has such an operator.

They go through every function in Python, and import what schedules kernels for GPUs.
"""

from __future__ import annotations

import tvm
from tvm import ir, relax

from .rewrite import nested_bindings

__all__ = ["CHOSEN_BY_TARGET", "dispatch_sampling", "dispatch_sort_scan"]

_SORT_SCAN = ("argsort", "bucketize", "cumprod", "cumsum", "sort", "topk")
_SAMPLING = ("multinomial_from_uniform",)

CHOSEN_BY_TARGET = frozenset(f"relax.{name}" for name in (*_SORT_SCAN, *_SAMPLING))
"""The operators that these passes make kernels of."""


def dispatch_sort_scan() -> tvm.transform.Pass:
    """Return TVM's pass that chooses kernels of sorting and scans for the target."""
    return _where_called(_SORT_SCAN, relax.backend.DispatchSortScan())


def dispatch_sampling() -> tvm.transform.Pass:
    """Return TVM's pass that chooses kernels of drawing for the target."""
    return _where_called(_SAMPLING, relax.backend.DispatchSampling())


def _where_called(names: tuple[str, ...], dispatch: tvm.transform.Pass) -> tvm.transform.Pass:
    """Return a pass for the modules that call operators of some names."""
    operators = {f"relax.{name}" for name in names}

    def is_one(value: relax.Expr) -> bool:
        # A function inside another is there only if the pass that lifts it is disabled; nobody looks into it here.
        if isinstance(value, relax.Function):
            return True
        return isinstance(value, relax.Call) and isinstance(value.op, ir.Op) and value.op.name in operators

    def is_for(function: ir.BaseFunc) -> bool:
        if not isinstance(function, relax.Function):
            return False
        return any(is_one(binding.value) for binding in nested_bindings(function.body))

    def run(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        return dispatch(mod) if any(map(is_for, mod.functions.values())) else mod

    return tvm.transform.module_pass(run, opt_level=0, name=dispatch.info.name)
