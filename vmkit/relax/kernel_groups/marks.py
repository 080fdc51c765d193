"""Kernel groups that say when each of their kernels has run, for a profile.

After each call of a part stands a call of the function :data:`MARK`, which the profiler registers: with the kernel's
name, what its arguments are, and those of their extents that are known only at run time.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ..rewrite import substituted, with_functions
from .looks import IS_LOOK
from .parts import CALLS_PARTS, part_called, told_by_shapes

__all__ = ["MARK", "with_marks"]

MARK = "vmkit.profiling.mark"
"""The name of the function that is called: of a kernel's name, a template of its arguments' shapes, and extents."""


def with_marks(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module of kernels, as it is before TVM's packed convention, whose groups call :data:`MARK`."""
    kernels = {gvar.name_hint: function for gvar, function in mod.functions.items()}

    def marked(statement: tirx.Evaluate) -> tirx.Stmt:
        name = part_called(statement)
        if name is None or IS_LOOK in kernels[name].attrs:
            return statement
        shapes, extents = _arguments(kernels[name], list(statement.value.args)[1:])
        mark = tirx.call_packed(MARK, name.removesuffix("_part"), shapes, *extents)
        return tirx.SeqStmt([statement, tirx.Evaluate(mark)])

    changed = {
        gvar: function.with_body(tvm_ffi.structural_map(function.body, (tirx.Evaluate, marked)))
        for gvar, function in mod.functions.items()
        if CALLS_PARTS in function.attrs
    }
    return with_functions(mod, changed)


def _arguments(kernel: tirx.PrimFunc, args: list[tirx.Expr]) -> tuple[str, list[tirx.Expr]]:
    """Return a template of the shapes of a kernel's arguments, and the extents that belong in it."""
    told = [symbol for symbol, _, _ in told_by_shapes(kernel)]
    known = {p: arg for p, arg in zip(kernel.params, args, strict=False) if not is_buffer_var(p)}
    known.update(zip(told, args[len(kernel.params) :], strict=True))
    texts, extents = [], []
    for param in filter(is_buffer_var, kernel.params):
        dims = []
        for size in param.ty.shape:
            if isinstance(size, tirx.IntImm):
                dims.append(str(size.value))
            else:
                dims.append("{}")
                extents.append(substituted(size, known).astype("int64"))
        texts.append(f"{param.ty.dtype}[{', '.join(dims)}]")
    return ", ".join(texts), extents
