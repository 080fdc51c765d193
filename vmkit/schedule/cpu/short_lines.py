"""Innermost loops of a few iterations as vectors, in kernels that compute each element by itself, or sums of columns.

LLVM unrolls such a loop before it makes vectors, and then makes them of elements of several lines, which it gathers
one by one: that takes several times as long. So vectors along the line are written out, whole ones and parts for what
is left.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ..._tvm.nodes import is_choice
from ..blocks import Block, Loop, extent, unmarked
from ..expressions import loads_in, replaced, stride, uses
from .boundary_peeling import copied

__all__ = ["mark_short_line", "with_short_lines"]

_KEY = "vmkit.short_line"
_LEAST, _MOST = 5, 47  # iterations: LLVM makes vectors of more by itself, and shuffles fewer well
_VECTOR = 16
_DTYPES = ("float32", "float64", "int32", "int64")


def mark_short_line(sch: s_tir.Schedule, block: Block, line: Loop) -> None:
    """Mark the innermost loop of a block, along elements of its result, if vectors are to be written out.

    The block computes each element by itself, or adds to each what is at its place.
    """
    size, node = extent(sch, line), sch.get(block)
    if size is None or not _LEAST <= size <= _MOST or not isinstance(node.body, tirx.BufferStore):
        return
    if len(sch.get_loops(block)) > 1 and _is_in_vectors(node.body, _lane(node)):
        sch.annotate(line, _KEY, 1)


def with_short_lines(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled kernel in which marked loops are vectors."""

    def vectors(loop: tirx.For) -> tirx.Stmt:
        if _KEY not in loop.annotations:
            return loop
        size, begin, parts = int(loop.extent), 0, []
        while begin < size:
            lanes = min(_VECTOR, 1 << (size - begin).bit_length() - 1)
            parts.append(_part(loop, begin, lanes))
            begin += lanes
        return tirx.SeqStmt(parts) if len(parts) > 1 else parts[0]

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, vectors)))


def _part(loop: tirx.For, begin: int, lanes: int) -> tirx.For:
    dtype = str(loop.loop_var.ty.dtype)
    lane = tirx.Var(loop.loop_var.name, dtype)
    body = copied(replaced(loop.body, {loop.loop_var: lane + tirx.IntImm(dtype, begin)}))
    kind = tirx.ForKind.VECTORIZED if lanes > 1 else loop.kind
    zero, size = tirx.IntImm(dtype, 0), tirx.IntImm(dtype, lanes)
    return tirx.For(lane, zero, size, kind, body, loop.thread_binding, unmarked(loop, _KEY))


def _lane(node: s_tir.SBlock) -> tirx.Var:
    return next(v.var for v in reversed(node.iter_vars) if v.iter_type == tirx.IterVar.DataPar)


def _is_in_vectors(store: tirx.BufferStore, lane: tirx.Var) -> bool:
    """Say whether what is read and written along a line is vectors or the same number, and is computed in vectors."""
    calls: list[tvm.ir.Call] = []
    tvm_ffi.structural_walk(store.value, (tvm.ir.Call, calls.append))
    if any(is_choice(call) or str(getattr(call.ty, "dtype", "")) != "float32" for call in calls):
        return False
    accessed = [(store.buffer, store.indices), *((load.source, load.indices) for load in loads_in(store.value))]
    return all(str(b.ty.dtype) in _DTYPES and _goes_along(list(i), lane) for b, i in accessed)


def _goes_along(indices: list[tirx.Expr], lane: tirx.Var) -> bool:
    *far, last = indices or [tirx.IntImm("int64", 0)]
    return not any(uses(index, lane) for index in far) and stride(last, lane) in (0, 1)
