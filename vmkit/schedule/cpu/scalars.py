"""Scalars of a kernel are read once, before its loops.

Where a choice between values reads one, LLVM makes vectors of reads that only some of the elements need, and they are
slower than all the arithmetic beside them: nothing tells it that the memory is there for the others too. Nor does it
where a test says whether there is an element at all.
"""

from __future__ import annotations

from collections.abc import Iterable

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ..._tvm.nodes import TensorLoad
from ..expressions import known, loads_in

__all__ = ["with_scalars_first"]


def with_scalars_first(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled kernel that reads scalars among its parameters first, where choices or tests would."""
    scalars = [p for p in function.params if isinstance(p.ty, tirx.BufferType) and not len(p.ty.shape)]
    # TVM later gives what is read of these types another type, but not the variable that it is bound to.
    scalars = [s for s in scalars if not str(s.ty.dtype).startswith(("bfloat", "float8"))]
    if not scalars or not isinstance(function.body, s_tir.SBlockRealize):
        return function
    chosen: list[TensorLoad] = []
    stored: list[tirx.BufferStore] = []
    tvm_ffi.structural_walk(function.body, (tirx.Select, lambda choice: chosen.extend(loads_in(choice))))

    def note(realize: s_tir.SBlockRealize) -> None:
        if known(realize.predicate) != 1:
            chosen.extend(loads_in(realize.block.body))

    tvm_ffi.structural_walk(function.body, (s_tir.SBlockRealize, note))
    tvm_ffi.structural_walk(function.body, (tirx.BufferStore, stored.append))
    written = [store.buffer for store in stored]
    read = [s for s in scalars if _is_among(s, [load.source for load in chosen]) and not _is_among(s, written)]
    values = [(s, tirx.Var(f"{s.name}_value", s.ty.dtype)) for s in read]
    if not values:
        return function

    def value_of(load: TensorLoad) -> tirx.Expr:
        return next((value for scalar, value in values if load.source.same_as(scalar)), load)

    block = function.body.block
    body = tvm_ffi.structural_map(block.body, (TensorLoad, value_of))
    binds = [tirx.Bind(value, tirx.BufferLoad(scalar, [])) for scalar, value in values]
    outer = s_tir.SBlock([], [], [], block.name_hint, tirx.SeqStmt([*binds, body]), block.init, block.alloc_buffers)
    return function.with_body(s_tir.SBlockRealize([], True, outer))


def _is_among(buffer: tvm.ir.Var, others: Iterable[tvm.ir.Var]) -> bool:
    return any(buffer.same_as(other) for other in others)
