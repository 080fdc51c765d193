"""The rule for kernels of any blocks: elements shared among threads, long reductions done by a block of threads."""

from __future__ import annotations

import math

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ..._tvm.nodes import is_choice
from ..blocks import (
    Block,
    Loop,
    extent,
    is_reduction,
    kernel_blocks,
    static_size,
)
from ..expressions import loads_in
from ..inlining import inline_cheap_blocks, inline_unless_large

__all__ = ["prepare", "reduce_together", "spread_blocks"]


@dataclass(frozen=True)
class _Spread:
    """How a block is spread.

    Attributes
    ----------
    threads : int
        How many threads work together.
    together : bool
        Whether they share the steps of one reduction; if not, each computes elements of its own.
    """

    threads: int
    together: bool


# A reduction of that many steps is worth an exchange among the threads of a block.
_LONG = 256
# With that many elements every thread has one of its own.
_MANY = 16_384


def reduce_together(function: tirx.PrimFunc, target: Target) -> tirx.PrimFunc | None:
    """Return a kernel whose long reductions are each done by a block of threads; None if it has none.

    TVM lowers that for the reductions that it knows by their form: sums, products, extremes and their positions.
    """
    schedule, blocks = _prepared(function)
    decisions = [_decide(schedule, block) for block in blocks]
    if not any(decision.together for decision in decisions):
        return None
    for block, decision in zip(blocks, decisions, strict=True):
        _apply(schedule, block, decision)
    return schedule.mod["main"]


def spread_blocks(function: tirx.PrimFunc, target: Target) -> tirx.PrimFunc | None:
    """Return a kernel every thread of which computes elements; None for one of loops within a single block."""
    schedule, blocks = _prepared(function)
    for block in blocks:
        _apply(schedule, block, _Spread(256, False))
    return schedule.mod["main"] if blocks else None


def prepare(function: tirx.PrimFunc) -> s_tir.Schedule:
    """Return the schedule of a kernel in which what only moves or pads elements is done where they are read."""
    schedule = s_tir.Schedule(function)
    inline_cheap_blocks(schedule)
    for block in kernel_blocks(schedule):
        readers = list(schedule.get_consumers(block))
        if _only_moves(schedule, block) and len(readers) == 1:
            inline_unless_large(schedule, block, readers[0])
    return schedule


def _prepared(function: tirx.PrimFunc) -> tuple[s_tir.Schedule, list[Block]]:
    schedule = prepare(function)
    return schedule, kernel_blocks(schedule)


def _only_moves(sch: s_tir.Schedule, block: Block) -> bool:
    """Say whether a block computes nothing, as padding and transposition do, so that reading it again costs nothing."""
    if is_reduction(sch, block) or not isinstance(sch.get(block).body, tirx.BufferStore):
        return False
    calls: list[tvm.ir.Call] = []
    tvm_ffi.structural_walk(sch.get(block).body.value, (tvm.ir.Call, calls.append))
    return len(loads_in(sch.get(block).body.value)) <= 1 and all(map(is_choice, calls))


def _decide(sch: s_tir.Schedule, block: Block) -> _Spread:
    spatial, steps = _loops(sch, block)
    if not is_reduction(sch, block) or not steps:
        return _Spread(256, False)
    length = _steps(sch, block) or _LONG
    is_many = all(extent(sch, loop) for loop in spatial) and static_size(sch, spatial) >= _MANY
    if spatial and (length < _LONG or is_many):
        return _Spread(256, False)
    return _Spread(256 if length >= 8 * _LONG else 64, True)


def _steps(sch: s_tir.Schedule, block: Block) -> int | None:
    """Return how many steps a reduction has; None where that is not known."""
    sizes = [extent(sch, loop) for loop in _loops(sch, block)[1]]
    return None if None in sizes else math.prod(size for size in sizes if size is not None)


def _apply(sch: s_tir.Schedule, block: Block, decisions: _Spread) -> None:
    spatial, steps = _loops(sch, block)
    spatial = spatial or [sch.add_unit_loop(steps[0] if steps else block)]
    sch.reorder(*spatial, *steps)
    elements = sch.fuse(*spatial)
    outer, lane = sch.split(sch.fuse(*steps) if decisions.together else elements, [None, decisions.threads])
    sch.bind(elements if decisions.together else outer, "blockIdx.x")
    sch.bind(lane, "threadIdx.x")
    if not decisions.together and is_reduction(sch, block) and steps:
        sch.decompose_reduction(block, steps[0])


def _loops(sch: s_tir.Schedule, block: Block) -> tuple[list[Loop], list[Loop]]:
    """Return the loops over elements of the result, and those that reduce or whose order matters."""
    loops, kinds = sch.get_loops(block), [v.iter_type for v in sch.get(block).iter_vars]
    if not loops:
        return [], []
    if len(loops) != len(kinds):
        raise ValueError(f"{sch.get(block).name_hint} has {len(loops)} loops for {len(kinds)} iteration variables")
    by_kind: tuple[list[Loop], list[Loop]] = ([], [])
    for loop, kind in zip(loops, kinds, strict=True):
        by_kind[kind != tirx.IterVar.DataPar].append(loop)
    return by_kind
