"""The rule for kernels around one reduction over contiguous outputs: convolution, matrix product, pooling.

A tile of the output is kept in registers while the reduction runs: a few vectors along the innermost output axis,
times a few along an axis that one of the operands does not depend on, so that each of its elements is used several
times once loaded. What follows the reduction (bias, activation, residual) is computed on the tile.
"""

from __future__ import annotations

from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from .blocks import SingleReduction, extent, single_reduction, static_size, stride, uses
from .elementwise import PARALLEL_SIZE, schedule_spatial

__all__ = ["schedule"]

_VECTOR = 8  # elements that one register holds
_LANES = 16  # the most elements along the vectorised axis beside several rows
_LEAST = 4  # an axis of fewer elements is not worth vectors
_REGISTERS = 8  # accumulators: enough to hide the latency of multiply-add, few enough not to spill


def schedule(sch: s_tir.Schedule, target: Target) -> bool:
    """Schedule a kernel with one reduction block over an innermost output axis of known size."""
    found = single_reduction(sch)
    if found is None:
        return False
    node, loops = sch.get(found.block), sch.get_loops(found.block)
    lane = _lane_axis([extent(sch, loop) for loop in loops[: found.spatial]])
    if lane is None or not _reads_lines(node, node.iter_vars[lane].var):
        return False
    rows = _row_axis(node, lane)
    if rows is None and not _has_unit_stride(node, node.iter_vars[lane].var):
        return False
    for other in found.others:
        schedule_spatial(sch, other)
    _tile(sch, found, lane, rows)
    return True


def _lane_axis(extents: list[int | None]) -> int | None:
    """Return the innermost output axis of more than one element, if its size is known and worth vectors."""
    for axis in reversed(range(len(extents))):
        size = extents[axis]
        if size != 1:
            return axis if size is not None and size >= _LEAST else None
    return None


def _reads_lines(node: Any, var: Any) -> bool:
    """Say whether every operand that depends on an iteration variable has it in its last index of several values."""
    for region in node.reads:
        indices, shape = list(region.region), list(region.source.ty.shape)
        used = [at for at, index in enumerate(indices) if uses(index.min, var)]
        if used and not (len(used) == 1 and all(_is_one(size) for size in shape[used[0] + 1 :])):
            return False
    return True


def _is_one(size: Any) -> bool:
    return isinstance(size, tirx.IntImm) and int(size.value) == 1


def _has_unit_stride(node: Any, var: Any) -> bool:
    """Say whether consecutive values of an iteration variable read consecutive elements."""
    indices = [index.min for region in node.reads for index in region.region]
    return all(stride(index, var) == 1 for index in indices if uses(index, var))


def _row_axis(node: Any, lane_axis: int) -> int | None:
    """Return an outer output axis along which what is loaded for a whole tile of lanes is used again."""
    lane = node.iter_vars[lane_axis].var
    for i in reversed(range(lane_axis)):
        var = node.iter_vars[i].var
        reads = [(_reads(region, lane), _reads(region, var)) for region in node.reads]
        if any(by_row for _, by_row in reads) and not any(by_lane and by_row for by_lane, by_row in reads):
            return i
    return None


def _reads(region: Any, var: Any) -> bool:
    return any(uses(r.min, var) for r in region.region)


def _lanes(width: int, most: int) -> int:
    """Return how many elements of an axis to keep at once: whole registers if they divide it, else a part of one.

    More than one register and no whole number of them would be cut into pieces of every size.
    """
    divisors = [t for t in range(min(width, most), 0, -1) if width % t == 0]
    return next(t for t in divisors if t % _VECTOR == 0 or t < _VECTOR)


def _tile(sch: s_tir.Schedule, found: SingleReduction, lane_axis: int, row_axis: int | None) -> None:
    block, loops = found.block, sch.get_loops(found.block)
    size = static_size(sch, loops)
    outer, reduce_loops, inner = loops[: found.spatial], loops[found.spatial :], []
    lanes = _lanes(extent(sch, outer[lane_axis]) or 1, _LANES if row_axis is not None else _REGISTERS * _VECTOR)
    if row_axis is not None:
        most = max(1, _REGISTERS * _VECTOR // (-(-lanes // _VECTOR) * _VECTOR))
        have = extent(sch, outer[row_axis]) or 1
        rows = next(r for r in range(most, 0, -1) if have % r == 0)
        outer[row_axis], row = sch.split(outer[row_axis], [None, rows])
        sch.unroll(row)
        inner.append(row)
    outer[lane_axis], lane = sch.split(outer[lane_axis], [None, lanes])
    sch.reorder(*outer, *reduce_loops, *inner, lane)
    sch.vectorize(lane)
    if found.after is None:
        after = sch.cache_write(block, 0, "local")
    else:
        after = found.after
        sch.set_scope(block, 0, "local")
    sch.reverse_compute_at(after, outer[-1], preserve_unit_loops=True)
    written = sch.get_loops(after)[len(outer) :]
    sch.vectorize(written[lane_axis])
    if row_axis is not None:
        # An accumulator that a loop reads by a running index would live in memory, not in a register.
        sch.unroll(written[row_axis])
    if size >= PARALLEL_SIZE:
        sch.parallel(sch.fuse(*outer))
    sch.decompose_reduction(block, reduce_loops[0])
