"""The rule for kernels around one reduction over contiguous outputs: convolution, matrix product, pooling.

A tile of the output is kept in registers while the reduction runs: a few vectors along the innermost output axis,
times a few along an axis that one of the operands does not depend on, so that each of its elements is used several
times once loaded. What follows the reduction (bias, activation, residual) is computed on the tile.
"""

from __future__ import annotations

from typing import Any

from tvm import s_tir
from tvm.target import Target

from .blocks import Block, extent, single_reduction, static_size, stride, uses
from .elementwise import PARALLEL_SIZE, schedule_spatial

__all__ = ["schedule"]

_VECTOR = 8  # elements that one register holds
_LANES = 16  # the most elements along the vectorised axis beside several rows
_REGISTERS = 8  # accumulators: enough to hide the latency of multiply-add, few enough not to spill


def schedule(sch: s_tir.Schedule, target: Target) -> bool:
    """Schedule a kernel with one reduction block over an innermost output axis of known size."""
    found = single_reduction(sch)
    if found is None:
        return False
    node = sch.get(found.block)
    width = extent(sch, sch.get_loops(found.block)[found.spatial - 1])
    lane = node.iter_vars[found.spatial - 1].var
    if width is None or width < 4 or not _in_last_index(node, lane):
        return False
    if _reuse_axis(node, found.spatial) is None and not _has_unit_stride(node, lane):
        return False
    for other in found.others:
        schedule_spatial(sch, other)
    _tile(sch, found.block, found.after, found.spatial)
    return True


def _in_last_index(node: Any, var: Any) -> bool:
    """Say whether every operand that depends on an iteration variable has it in its last index alone."""
    return not any(uses(index.min, var) for region in node.reads for index in list(region.region)[:-1])


def _has_unit_stride(node: Any, var: Any) -> bool:
    """Say whether consecutive values of an iteration variable read consecutive elements."""
    last = [list(region.region)[-1].min for region in node.reads]
    return all(isinstance(step, int) and step == 1 for step in (stride(i, var) for i in last if uses(i, var)))


def _reuse_axis(node: Any, spatial: int) -> int | None:
    """Return an outer output axis along which what is loaded for a whole tile of lanes is used again."""
    lane = node.iter_vars[spatial - 1].var
    for i in reversed(range(spatial - 1)):
        var = node.iter_vars[i].var
        reads = [(_reads(region, lane), _reads(region, var)) for region in node.reads]
        if any(by_row for _, by_row in reads) and not any(by_lane and by_row for by_lane, by_row in reads):
            return i
    return None


def _reads(region: Any, var: Any) -> bool:
    return any(uses(r.min, var) for r in region.region)


def _lanes(width: int, most: int) -> int:
    """Return how many elements of an axis to keep at once: whole registers if they divide it, else what does."""
    divisors = [t for t in range(min(width, most), 0, -1) if width % t == 0]
    return next((t for t in divisors if t % _VECTOR == 0), divisors[0])


def _tile(sch: s_tir.Schedule, block: Block, after: Block | None, spatial: int) -> None:
    node = sch.get(block)
    loops = sch.get_loops(block)
    outer, reduce_loops = loops[:spatial], loops[spatial:]
    size = static_size(sch, loops)
    row_axis = _reuse_axis(node, spatial)
    inner = []
    lanes = _lanes(extent(sch, outer[-1]) or 1, _LANES if row_axis is not None else _REGISTERS * _VECTOR)
    if row_axis is not None:
        most = max(1, _REGISTERS * _VECTOR // (-(-lanes // _VECTOR) * _VECTOR))
        have = extent(sch, outer[row_axis]) or 1
        rows = next(r for r in range(most, 0, -1) if have % r == 0)
        outer[row_axis], row = sch.split(outer[row_axis], [None, rows])
        inner.append(row)
    column, lane = sch.split(outer[-1], [None, lanes])
    outer[-1] = column
    inner.append(lane)
    sch.reorder(*outer, *reduce_loops, *inner)
    if after is None:
        after = sch.cache_write(block, 0, "local")
    else:
        sch.set_scope(block, 0, "local")
    sch.reverse_compute_at(after, outer[-1], preserve_unit_loops=True)
    for tail in (block, after):
        tail_loops = sch.get_loops(tail)
        sch.vectorize(tail_loops[-1])
    if len(inner) > 1:
        sch.unroll(inner[0])
    if size >= PARALLEL_SIZE:
        sch.parallel(sch.fuse(*outer))
    sch.decompose_reduction(block, reduce_loops[0])
