"""Kernels that take arrays at any address at which their elements may be.

TVM compiles kernels for data that begins at a multiple of 64 bytes, which is how it allocates its own. Arrays of
callers do not: numpy's begin at multiples of 16, and parts of them anywhere. A processor that reads a vector from such
an address takes its time only where the vector lies in two lines of its cache, and none at an aligned address, so
kernels are told to expect no more of what they read than whole elements. What they write is always TVM's.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ..values.element_types import element_bytes
from .rewrite import with_functions

__all__ = ["expecting_elements"]


def expecting_elements(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module whose kernels expect of the buffers that they only read that elements are aligned."""
    return with_functions(mod, {v: _relaxed(f) for v, f in mod.functions.items() if isinstance(f, tirx.PrimFunc)})


def _relaxed(function: tirx.PrimFunc) -> tirx.PrimFunc:
    written = _written(function)
    changed = {
        buffer: _with_alignment(buffer, element_bytes(str(buffer.ty.dtype)))
        for buffer in function.params
        if is_buffer_var(buffer) and buffer not in written
    }
    if not changed:
        return function
    return tvm_ffi.structural_map(function, (tvm.ir.Var, lambda var: changed.get(var, var)))


def _written(function: tirx.PrimFunc) -> set[tvm.ir.Var]:
    """Return the buffers that a kernel stores to itself."""
    found: set[tvm.ir.Var] = set()
    tvm_ffi.structural_walk(function.body, (tirx.BufferStore, lambda store: found.add(store.buffer)))
    return found


def _with_alignment(buffer: tvm.ir.Var, alignment: int) -> tvm.ir.Var:
    kind = buffer.ty
    return tirx.decl_buffer(
        kind.shape,
        kind.dtype,
        buffer.name,
        strides=kind.strides,
        elem_offset=kind.elem_offset,
        scope=kind.storage_scope,
        data_alignment=alignment,
        offset_factor=kind.offset_factor,
        layout=kind.layout,
    )
