"""Blocks of a weight of 16 bits that become float32 once for all rows that go by them.

A few rows widen a weight as they read it: that takes less time than it takes to come from memory. Of many rows each
tile would widen the same elements again, so the first one writes them down for the others, between its own products:
the units that convert and store have nothing else to do.
"""

from __future__ import annotations

import tvm_ffi
from tvm import s_tir, tirx

from ..._tvm.nodes import TensorLoad
from ..blocks import Loop, mark_loops, marked_loops, unmarked

__all__ = ["widen_blocks", "with_widened_blocks"]

_KEY = "vmkit.widened"


def widen_blocks(sch: s_tir.Schedule, loops: tuple[Loop, Loop, Loop], weight: int) -> None:
    """Mark loops of which the innermost is to widen a block of a weight in the first iteration of the one around it.

    Parameters
    ----------
    sch : Schedule
        The schedule of the kernel.
    loops : tuple of LoopRV
        The loop over the weight's first axis, whose positions are the blocks; the one over tiles of rows within it; and
        the one over steps of the reduction within that, each of which reads as many elements of the second axis.
    weight : int
        Which parameter of the kernel the weight is, whose three dimensions are known. It is read where it is cast.
    """
    mark_loops(sch, _KEY, dict(zip(("block", "tile", "step"), loops, strict=True)), weight)


def with_widened_blocks(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled kernel in which the marked loops widen blocks."""
    marked = marked_loops(function, _KEY)
    if not marked:
        return function
    weight = function.params[int(marked["block"].annotations[_KEY][1])]
    _, inner, width = (int(d) for d in weight.ty.shape)
    wide = tirx.decl_buffer((inner, width), "float32", f"{weight.name}_wide")

    def read(node: tirx.Cast) -> tirx.Expr:
        load = node.value
        is_weight = isinstance(load, TensorLoad) and load.source.same_as(weight)
        return tirx.BufferLoad(wide, load.indices[1:]) if is_weight else node

    def changed(loop: tirx.For) -> tirx.For:
        mark = loop.annotations.get(_KEY)
        if mark is None:
            return loop
        role, body = str(mark[0]), loop.body
        if role == "step":
            body = tirx.SeqStmt([_first(marked, weight, wide), tvm_ffi.structural_map(body, (tirx.Cast, read))])
        elif role == "block":
            body = tirx.SeqStmt([tirx.AllocBuffer(wide), body])
        annotations = unmarked(loop, _KEY)
        return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, annotations)

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, changed)))


def _first(loops: dict[str, tirx.For], weight: tirx.Var, wide: tirx.Buffer) -> tirx.Stmt:
    """Return what a step of the first tile does before its products: to write the elements that it reads as float32."""
    block, tile, step = (loops[role].loop_var for role in ("block", "tile", "step"))
    dtype = str(step.ty.dtype)
    inner, width = (int(d) for d in wide.ty.shape)
    count = inner // int(loops["step"].extent)
    row, lane, zero = tirx.Var("row", dtype), tirx.Var("lane", dtype), tirx.IntImm(dtype, 0)
    at = step * tirx.IntImm(dtype, count) + row
    made: tirx.Stmt = tirx.BufferStore(
        wide, tirx.Cast("float32", tirx.BufferLoad(weight, [block, at, lane])), [at, lane]
    )
    for var, size, kind in ((lane, width, tirx.ForKind.VECTORIZED), (row, count, tirx.ForKind.UNROLLED)):
        made = tirx.For(var, zero, tirx.IntImm(dtype, size), kind, made)
    return tirx.IfThenElse(tirx.EQ(tile, tirx.IntImm(str(tile.ty.dtype), 0)), made, None)
