"""Small buffers of kernels are kept on the stack, from where LLVM takes them into registers.

TVM asks its runtime for the memory of every buffer of scope ``local``, and for that of 1024 bytes and more. What may be
seen from elsewhere LLVM writes back in every iteration, and sixteen vectors of AVX-512 are just 1024 bytes.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx

__all__ = ["keep_on_stack"]

_MOST = 8192  # bytes; a kernel runs on the stack of whichever thread calls it
_KEEP = "disable_lower_builtin"  # LowerTVMBuiltin leaves alone what is annotated so


@tirx.transform.prim_func_pass(opt_level=0, name="vmkit.KeepOnStack")
def keep_on_stack(function: tirx.PrimFunc, _module: tvm.IRModule, _context: tvm.transform.PassContext) -> tirx.PrimFunc:
    """Annotate allocations of small local buffers, so that they are not asked of the runtime."""
    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.AllocBuffer, _kept)))


def _kept(allocation: tirx.AllocBuffer) -> tirx.AllocBuffer:
    ty = allocation.buffer.ty
    sizes = [int(d.value) for d in ty.shape if isinstance(d, tirx.IntImm)]
    if str(ty.storage_scope) != "local" or len(sizes) < len(ty.shape):
        return allocation
    dtype = tvm.DataType(str(ty.dtype))
    size = dtype.bits * dtype.lanes // 8
    for each in sizes:
        size *= each
    if size > _MOST:
        return allocation
    annotations = {**dict(allocation.annotations.items()), _KEEP: tirx.IntImm("bool", 1)}
    return tirx.AllocBuffer(allocation.buffer, annotations, allocation.span)
