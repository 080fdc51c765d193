"""The ranges of dimensions that a Relax function declares, checked when it runs.

TVM plans the memory of a function for the largest sizes that it declares, whatever the sizes of a call, and a larger
one fails in the allocator. Here a size out of its range is an error that says so, and memory is taken for the sizes
of the call.
"""

from __future__ import annotations

import tvm
from tvm import relax, tirx

from .._tvm import begin_block, end_block
from ..relay.ir import dims
from ..relay.lower.checks import RuntimeChecks
from .rewrite import beginning_with, with_functions

__all__ = ["LOWER_BOUNDS", "UPPER_BOUNDS", "with_checked_bounds"]

LOWER_BOUNDS, UPPER_BOUNDS = "tir_var_lower_bound", "tir_var_upper_bound"
"""The attributes of a function that hold the least and the largest values of its symbols, by their names."""


def with_checked_bounds(mod: tvm.IRModule, checks: RuntimeChecks) -> tvm.IRModule:
    """Return a module whose functions check the ranges that they declare."""
    changed = {
        gvar: _checked(function, checks)
        for gvar, function in mod.functions.items()
        if isinstance(function, relax.Function)
        and any(a in (function.attrs or {}) for a in (LOWER_BOUNDS, UPPER_BOUNDS))
    }
    return with_functions(mod, changed) if changed else mod


def _checked(function: relax.Function, checks: RuntimeChecks) -> relax.Function:
    lower, upper = (dict(function.attrs.get(name) or {}) for name in (LOWER_BOUNDS, UPPER_BOUNDS))
    builder = relax.BlockBuilder()
    begin_block(builder)
    for symbol in _symbols(function):
        least, most = (bounds.get(symbol.name) for bounds in (lower, upper))
        within = [symbol >= int(least)] if least is not None and int(least) > 0 else []
        within += [symbol <= int(most)] if most is not None else []
        if within:
            span = f"{int(least or 0)} to {int(most)}" if most is not None else f"from {int(least or 0)} on"
            message = f"the dimension {symbol.name} is not in the range {span} for which the model was compiled"
            checks.emit(builder, dims.select(tirx.all(*within), 1, 0), 1, message)
    return beginning_with(function, end_block(builder)).without_attr(LOWER_BOUNDS).without_attr(UPPER_BOUNDS)


def _symbols(function: relax.Function) -> list[tirx.Var]:
    """Return the symbols that are dimensions of a function's parameters, each once."""
    found: dict[tirx.Var, None] = {}
    for param in function.params:
        shape = param.ty.shape if isinstance(param.ty, relax.TensorType) else None
        found.update((d, None) for d in shape or () if isinstance(d, tvm.ir.Var))
    return list(found)
