"""Schedules for code without vectors, such as C for a microcontroller: little memory first, then few operations.

A sum is held in a variable, and what is done with it follows at once; what is cheap to compute, such as padding, is
computed where it is read, in place of being kept.
"""

from __future__ import annotations

from contextlib import suppress

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from .._dataclasses import dataclass
from .._tvm.nodes import is_choice
from .blocks import Block, is_empty, is_reduction, kernel_blocks
from .expressions import known, loads_in, uses
from .inlining import inline_cheap_blocks, inline_unless_large

__all__ = ["schedule_for_scalars"]

_CHEAP = 4
"""Arithmetic operations that a reduction may repeat for each of its terms."""
_TILES = (4, 5, 3, 2)
"""How many sums grow together, best first: a processor with 13 registers holds four of them with their operands."""
_FEWEST_TERMS = 4
"""Of sums that grow together."""


def schedule_for_scalars(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel scheduled for a processor without vectors and with little memory."""
    schedule = s_tir.Schedule(function)
    if not kernel_blocks(schedule) or is_empty(schedule):
        return function
    for block in reversed(kernel_blocks(schedule)):
        if not is_reduction(schedule, block) and schedule.get_consumers(block) and _is_cheap(schedule, block):
            for reader in schedule.get_consumers(block)[:1]:
                inline_unless_large(schedule, block, reader)
    inline_cheap_blocks(schedule)
    for name in [schedule.get(block).name_hint for block in kernel_blocks(schedule)]:
        if is_reduction(schedule, schedule.get_sblock(name)):
            schedule = _with_held_sum(schedule, name)
    return schedule.mod["main"]


def _with_held_sum(schedule: s_tir.Schedule, name: str) -> s_tir.Schedule:
    """Return a schedule in which a sum is held in variables: several that share operands, or one, if that can be."""
    for tile in (_tile(schedule, schedule.get_sblock(name)), None):
        trial = schedule.copy()
        # Where a primitive refuses a kernel's shape, its loops stay: right, but with more memory.
        with suppress(s_tir.ScheduleError):
            if _hold_sum(trial, trial.get_sblock(name), tile):
                return trial
    return schedule


def _is_cheap(schedule: s_tir.Schedule, block: Block) -> bool:
    """Say whether a block reads one tensor, such as by padding or casting it, and computes next to nothing with it."""
    node = schedule.get(block)
    if not isinstance(node.body, tirx.BufferStore) or len(schedule.get_consumers(block)) != 1:
        return False
    calls: list[tvm.ir.Call] = []
    tvm_ffi.structural_walk(node.body.value, (tvm.ir.Call, calls.append))
    return all(is_choice(call) for call in calls) and _operations(node.body.value) <= _CHEAP


def _operations(value: tirx.Expr) -> int:
    """Return the operations on elements in a value; what indices and conditions take is not counted."""
    if is_choice(value):
        return _operations(value.args[1]) + _operations(value.args[2])
    if isinstance(value, tirx.Cast):
        return _operations(value.value)
    if isinstance(value, tirx.Div | tirx.FloorDiv | tirx.FloorMod | tirx.Mod):
        return _CHEAP + 1
    if hasattr(value, "a") and hasattr(value, "b"):
        return 1 + _operations(value.a) + _operations(value.b)
    return 0


@dataclass(frozen=True)
class _Tile:
    """So many neighbours along one axis of the results, whose sums grow together."""

    axis: int
    size: int


def _tile(schedule: s_tir.Schedule, block: Block) -> _Tile | None:
    """Return the tile whose sums read an operand once for all; None where there is none.

    A condition that tells the neighbours apart, such as that of padding, would be looked at for each of them.
    """
    node = schedule.get(block)
    if not isinstance(node.body, tirx.BufferStore):
        return None
    kinds = [v.iter_type for v in node.iter_vars]
    terms = 1
    for var in node.iter_vars:
        terms *= 1 if var.iter_type == tirx.IterVar.DataPar else known(var.dom.extent) or 0
    choices = _choices(node.body.value)
    loads = [load for load in loads_in(node.body) if not load.source.same_as(node.body.buffer)]
    found = []
    for axis, var in enumerate(node.iter_vars[: kinds.count(tirx.IterVar.DataPar)]):
        size = known(var.dom.extent)
        divisors = [each for each in _TILES if size is not None and size % each == 0]
        is_told_apart = any(uses(choice.args[0], var.var) for choice in choices)
        is_shared = any(not any(uses(index, var.var) for index in load.indices) for load in loads)
        if divisors and is_shared and not is_told_apart:
            found.append(_Tile(axis, divisors[0]))
    best = min(found, key=lambda tile: _TILES.index(tile.size), default=None)
    return best if len(loads) > 1 and terms >= _FEWEST_TERMS else None


def _choices(value: tirx.Expr) -> list[tvm.ir.Call]:
    calls: list[tvm.ir.Call] = []
    tvm_ffi.structural_walk(value, (tvm.ir.Call, calls.append))
    return [call for call in calls if is_choice(call)]


def _hold_sum(schedule: s_tir.Schedule, block: Block, tile: _Tile | None) -> bool:
    """Compute a sum in a variable, and what reads it straight after it; say whether its loops are such."""
    kinds = [v.iter_type for v in schedule.get(block).iter_vars]
    spatial = kinds.count(tirx.IterVar.DataPar)
    loops = list(schedule.get_loops(block))
    if len(loops) != len(kinds) or kinds[:spatial] != [tirx.IterVar.DataPar] * spatial:
        return False
    readers = list(schedule.get_consumers(block))
    is_read_at_once = len(readers) == 1 and _reads_at_place(schedule, block, readers[0])
    if tile is not None and (not readers or is_read_at_once):
        loops[tile.axis], inner = schedule.split(loops[tile.axis], [None, tile.size])
        schedule.reorder(*loops, inner)
        schedule.unroll(inner)
    if spatial and not readers:
        schedule.reverse_compute_at(schedule.cache_write(block, 0, "local"), loops[spatial - 1])
    elif spatial and is_read_at_once:
        schedule.reverse_compute_at(readers[0], loops[spatial - 1])
    schedule.decompose_reduction(block, loops[spatial])
    return True


def _reads_at_place(schedule: s_tir.Schedule, block: Block, reader: Block) -> bool:
    """Say whether a block reads of another's result the one element alone that stands at its own place."""
    made, read = schedule.get(block), schedule.get(reader)
    if any(v.iter_type != tirx.IterVar.DataPar for v in read.iter_vars):
        return False
    axes = {v.var for v in read.iter_vars}
    written = made.writes[0].source
    for load in loads_in(read.body):
        if load.source.same_as(written):
            used = [index for index in load.indices if not isinstance(index, tirx.IntImm)]
            if len(set(used)) != len(used) or not all(index in axes for index in used):
                return False
    return True
