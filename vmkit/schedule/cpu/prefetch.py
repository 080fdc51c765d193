"""Weights on their way to the cache before they are needed.

While many rows go by one block of a weight, which lies in the cache by then, memory has nothing to do: prefetching the
next block meanwhile hides the time that it takes to come. Where few rows stream the weight, its lines are asked for
some steps ahead: the work between two loads leaves too few of them under way, and the machine's own fetching ahead ends
at every page.
"""

from __future__ import annotations

from collections.abc import Callable

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ...target.processor import CACHES
from ..blocks import Loop, computed_once, mark_loops, marked_loops, unmarked

__all__ = ["prefetch_ahead", "prefetch_next_block", "with_prefetches"]


_KEY = "vmkit.prefetch"
_FIRST_LEVEL, _SECOND_LEVEL = 3, 2  # as LLVM counts localities: the nearest cache, and the one that holds a block
_LINES_AHEAD = 32


def prefetch_next_block(sch: s_tir.Schedule, loops: tuple[Loop, Loop, Loop], weight: int, lines: int) -> None:
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
    mark_loops(sch, _KEY, dict(zip(("block", "tile", "step"), loops, strict=True)), weight, lines)


def prefetch_ahead(sch: s_tir.Schedule, loops: tuple[Loop, Loop], weight: int, blocks: int) -> None:
    """Mark loops of which the inner one is to prefetch the lines of a weight that some later step reads.

    Parameters
    ----------
    sch : Schedule
        The schedule of the kernel.
    loops : tuple of LoopRV
        The loop over groups of blocks of the weight, and the one over steps of the reduction within it.
    weight : int
        Which parameter of the kernel the weight is; it has three dimensions.
    blocks : int
        How many blocks one group has.
    """
    mark_loops(sch, _KEY, dict(zip(("block", "stream"), loops, strict=True)), weight, blocks)


def with_prefetches(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled kernel in which the marked loops prefetch."""
    marked = marked_loops(function, _KEY)
    if not marked:
        return function

    def replaced(loop: tirx.For) -> tirx.For:
        mark = loop.annotations.get(_KEY)
        if mark is None:
            return loop
        role, at, number = str(mark[0]), int(mark[1]), int(mark[2])
        annotations, body = unmarked(loop, _KEY), loop.body
        if role in _PREFETCHES:
            body = tirx.SeqStmt([_PREFETCHES[role](function.params[at], number, marked), body])
        return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, annotations)

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, replaced)))


def _of_next_block(weight: tirx.Var, lines: int, loops: dict[str, tirx.For]) -> tirx.Stmt:
    """Return what a step does beside its work: ask for some lines of the block after this one."""
    block, tile, step = loops["block"], loops["tile"], loops["step"]
    count, inner, width = (int(d) for d in weight.ty.shape)
    line, const = _line(weight), _constants(block)
    next_block = tirx.floormod(block.loop_var + const(1), const(count))  # all blocks go by again for the next chunk
    steps = tile.loop_var * step.extent + step.loop_var
    at = tirx.Var("line", str(block.loop_var.ty.dtype))
    element = (steps * const(lines) + at) * const(line)
    row = tirx.min(tirx.floordiv(element, const(width)), const(inner - 1))
    where = [next_block, row, tirx.floormod(element, const(width))]
    return _unrolled(_prefetch(weight, where, _SECOND_LEVEL), (at, lines))


def _ahead(weight: tirx.Var, blocks: int, loops: dict[str, tirx.For]) -> tirx.Stmt:
    """Return what a step does beside its work: ask for the lines of a later one, in all blocks of the group.

    The last steps ask for the first lines of the next group. Beyond the end of the weight a prefetch does nothing.
    """
    block, step = loops["block"], loops["stream"]
    _, inner, width = (int(d) for d in weight.ty.shape)
    line, const = _line(weight), _constants(block)
    rows, distance = inner // int(step.extent), max(1, _LINES_AHEAD * line // width)
    at, side = (tirx.Var(name, str(block.loop_var.ty.dtype)) for name in ("line", "side"))
    first = step.loop_var * const(rows) + const(distance)
    after = tirx.Select(first >= const(inner), const((blocks - 1) * inner), const(0))
    row, computed = computed_once("row", first + after)
    element = at * const(line)
    row, column = row + tirx.floordiv(element, const(width)), tirx.floormod(element, const(width))
    ask = _prefetch(weight, [block.loop_var * const(blocks) + side, row, column], _FIRST_LEVEL)
    return tirx.SeqStmt([*computed, _unrolled(ask, (at, -(-rows * width // line)), (side, blocks))])


def _unrolled(body: tirx.Stmt, *loops: tuple[tirx.Var, int]) -> tirx.Stmt:
    """Return a statement in loops that are unrolled, the outermost first, once indices are those of flat memory."""
    for var, count in reversed(loops):
        zero, extent = (tirx.IntImm(str(var.ty.dtype), number) for number in (0, count))
        body = tirx.For(var, zero, extent, tirx.ForKind.UNROLLED, body)
    return body


def _line(weight: tirx.Var) -> int:
    """Return how many elements of a weight come at once."""
    return CACHES.line // (tvm.DataType(str(weight.ty.dtype)).bits // 8)


def _constants(loop: tirx.For) -> Callable[[int], tirx.IntImm]:
    """Return how constants beside a loop's variable are made."""
    dtype = str(loop.loop_var.ty.dtype)
    return lambda value: tirx.IntImm(dtype, value)


def _prefetch(weight: tirx.Var, where: list[tirx.Expr], locality: int) -> tirx.Stmt:
    arguments = [tirx.address_of(tirx.BufferLoad(weight, where))]
    arguments += [tirx.IntImm("int32", value) for value in (0, locality, 1)]
    return tirx.Evaluate(tvm.ir.Call("tirx.prefetch", arguments, ret_ty=tvm.ir.PrimType("void")))


_PREFETCHES = {"step": _of_next_block, "stream": _ahead}
