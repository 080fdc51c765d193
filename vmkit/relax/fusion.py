"""How many operators become one kernel.

TVM's passes over a kernel, and LLVM's, take more than twice as long for twice as many operators. TVM fuses up to 256 by
itself. A kernel of 64 takes a seventh of the time for each of its operators, and the tensor that is written and read
again where it ends is one of 64 that need not be.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax import transform

from .rewrite import bindings_of, with_functions

__all__ = ["MOST_OPERATORS", "fuse_operators"]

MOST_OPERATORS = 64

_DEPTH = "relax.FuseOps.max_depth"


def fuse_operators() -> tvm.transform.Pass:
    """Return TVM's pass that groups operators: up to :data:`MOST_OPERATORS`, or what the caller's options say."""
    fuse = transform.FuseOps()

    def run(mod: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        if _DEPTH in context.config:
            return _without_empty_groups(fuse(mod))
        # TVM reads the bound from the context in force alone. This one has no instruments: they see the pass outside.
        with tvm.transform.PassContext(context.opt_level, config={**context.config, _DEPTH: MOST_OPERATORS}):
            return _without_empty_groups(fuse(mod))

    return tvm.transform.module_pass(run, opt_level=0, name="FuseOps")


def _without_empty_groups(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module in which groups that only read fields of tuples are plain functions: no kernel comes of them."""
    empty = {v: f.without_attr("Primitive") for v, f in mod.functions.items() if _is_empty_group(f)}
    return with_functions(mod, empty) if empty else mod


def _is_empty_group(function: tvm.ir.BaseFunc) -> bool:
    if not isinstance(function, relax.Function) or "Primitive" not in (function.attrs or {}):
        return False
    return not any(isinstance(binding.value, relax.Call) for binding in bindings_of(function.body))
