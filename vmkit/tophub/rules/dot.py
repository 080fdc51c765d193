"""The rule for reductions along contiguous memory: dense layers with the weight's rows as they are, sums of rows.

Each output keeps a vector of partial sums, which are added up at the end; several outputs are computed at once where
the last output axis can be cut.
"""

from __future__ import annotations

from typing import Any

from tvm import s_tir
from tvm.target import Target

from .blocks import extent, single_reduction, static_size, stride, uses
from .elementwise import PARALLEL_SIZE, schedule_spatial

__all__ = ["schedule"]

_LANES = (16, 8, 4)
_ROWS = (4, 3, 2, 1)


def schedule(sch: s_tir.Schedule, target: Target) -> bool:
    """Schedule a kernel whose innermost reduction axis is contiguous in every operand."""
    found = single_reduction(sch)
    if found is None:
        return False
    node = sch.get(found.block)
    loops = sch.get_loops(found.block)
    last = node.iter_vars[-1].var
    width = extent(sch, loops[-1])
    lanes = next((t for t in _LANES if width is not None and width % t == 0 and width >= 2 * t), None)
    if lanes is None or not all(_is_contiguous(list(region.region), last) for region in node.reads):
        return False
    for other in found.others:
        schedule_spatial(sch, other)
    size = static_size(sch, loops)
    _, lane = sch.split(loops[-1], [None, lanes])
    partial = sch.rfactor(lane, found.spatial)
    sch.set_scope(partial, 0, "local")
    outer = sch.get_loops(found.block)[: found.spatial]
    have = extent(sch, outer[-1]) or 1
    outer[-1], _ = sch.split(outer[-1], [None, next(r for r in _ROWS if have % r == 0)])
    sch.compute_at(partial, outer[-1], preserve_unit_loops=True)
    if found.after is not None:
        sch.set_scope(found.block, 0, "local")
        sch.reverse_compute_at(found.after, outer[-1], preserve_unit_loops=True)
    inner = sch.get_loops(partial)[len(outer) :]
    kinds = [v.iter_type for v in sch.get(partial).iter_vars]
    reduce_loops = [loop for loop, kind in zip(inner, kinds, strict=True) if kind != 0]
    # The axis that rfactor made comes first among the block's own.
    lane, *rows = (loop for loop, kind in zip(inner, kinds, strict=True) if kind == 0)
    sch.reorder(*reduce_loops, *rows, lane)
    sch.vectorize(lane)
    sch.unroll(rows[-1])
    if size >= PARALLEL_SIZE:
        sch.parallel(sch.fuse(*outer))
    sch.decompose_reduction(partial, reduce_loops[0])
    return True


def _is_contiguous(region: list[Any], var: Any) -> bool:
    """Say whether a read walks consecutive elements as a variable grows; a read of nothing that depends on it does."""
    *outer, last = [r.min for r in region] or [0]
    if any(uses(index, var) for index in outer):
        return False
    return not uses(last, var) or stride(last, var) == 1
