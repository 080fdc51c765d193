"""Small buffers of kernels are kept on the stack, from where LLVM takes them into registers.

TVM asks its runtime for the memory of every buffer of scope ``local``, and for that of 1024 bytes and more. What may be
seen from elsewhere LLVM writes back in every iteration, and sixteen vectors of AVX-512 are just 1024 bytes.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.compilation_pipeline import get_tir_pipeline, register_tir_pipeline

from .kernel_groups.parts import parts_called

__all__ = ["PIPELINE"]

PIPELINE = "vmkit"  # the name of TVM's pipeline with this step in it

_MOST = 8192  # bytes; a kernel runs on the stack of whichever thread calls it
_KEEP = "disable_lower_builtin"  # LowerTVMBuiltin leaves alone what is annotated so


@tirx.transform.prim_func_pass(opt_level=0, name="vmkit.KeepOnStack")
def _keep_on_stack(
    function: tirx.PrimFunc, _module: tvm.IRModule, _context: tvm.transform.PassContext
) -> tirx.PrimFunc:
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


def _pipeline() -> tuple[Any, Any, Any]:
    lower, finalize_host, finalize_device = get_tir_pipeline("default")

    def finalize() -> tvm.transform.Pass:
        return tvm.transform.Sequential([parts_called, _keep_on_stack, finalize_host()])

    return lower, finalize, finalize_device


register_tir_pipeline(PIPELINE, _pipeline)
