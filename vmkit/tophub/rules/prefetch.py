"""Weights on their way to the cache before they are needed: what the next block reads is asked for during this one.

While the rows go by one block of a weight, which lies in the cache by then, memory has nothing to do. Prefetching the
next block meanwhile hides the time that it takes to come.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

__all__ = ["LINE", "prefetch_next_block", "with_prefetches"]

LINE = 64  # bytes that come at once

_KEY = "vmkit.prefetch"
_SECOND_LEVEL = 2  # as LLVM counts localities: the cache that holds a whole block


def prefetch_next_block(sch: s_tir.Schedule, loops: tuple[Any, Any, Any], weight: int, lines: int) -> None:
    """Mark loops of which the innermost is to prefetch the next block of a weight.

    Parameters
    ----------
    sch : Schedule
        The schedule of the kernel.
    loops : tuple of LoopRV
        The loop over the weight's first axis, whose positions are the blocks; the one over tiles of rows within it; and
        the one over steps of the reduction within that.
    weight : int
        Which parameter of the kernel the weight is; it has three dimensions.
    lines : int
        How many lines of the cache each step asks for. The steps of all tiles go on where the last one stopped, up to
        the end of the block.
    """
    for loop, role in zip(loops, ("block", "tile", "step"), strict=True):
        sch.annotate(loop, _KEY, [role, weight, lines])


def with_prefetches(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled kernel in which the marked loops prefetch."""
    marked: dict[str, tirx.For] = {}

    def note(loop: tirx.For) -> None:
        if _KEY in loop.annotations:
            marked[str(loop.annotations[_KEY][0])] = loop

    tvm_ffi.structural_walk(function.body, (tirx.For, note))
    if not marked:
        return function

    def replaced(loop: tirx.For) -> tirx.For:
        mark = loop.annotations.get(_KEY)
        if mark is None:
            return loop
        role, at, lines = str(mark[0]), int(mark[1]), int(mark[2])
        prefetches = _prefetches(function.params[at], lines, marked) if role == "step" else []
        annotations = {k: v for k, v in loop.annotations.items() if k != _KEY}
        body = tirx.SeqStmt([*prefetches, loop.body]) if prefetches else loop.body
        return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, annotations)

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, replaced)))


def _prefetches(weight: tirx.Var, lines: int, loops: dict[str, tirx.For]) -> list[tirx.Stmt]:
    """Return what a step does beside its work: ask for some lines of the block after this one."""
    block, tile, step = loops["block"], loops["tile"], loops["step"]
    count, inner, width = (int(d) for d in weight.ty.shape)
    line = LINE // (tvm.DataType(str(weight.ty.dtype)).bits // 8)
    dtype = str(block.loop_var.ty.dtype)

    def const(value: int) -> tirx.IntImm:
        return tirx.IntImm(dtype, value)

    next_block = tirx.min(block.loop_var + const(1), const(count - 1))
    steps = tile.loop_var * step.extent + step.loop_var
    statements = []
    for at in range(lines):
        element = (steps * const(lines) + const(at)) * const(line)
        row = tirx.min(tirx.floordiv(element, const(width)), const(inner - 1))
        load = tirx.BufferLoad(weight, [next_block, row, tirx.floormod(element, const(width))])
        arguments = [tirx.address_of(load), *(tirx.IntImm("int32", v) for v in (0, _SECOND_LEVEL, 1))]
        statements.append(tirx.Evaluate(tvm.ir.Call("tirx.prefetch", arguments, ret_ty=tvm.ir.PrimType("void"))))
    return statements
