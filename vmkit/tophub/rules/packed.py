"""The rule for kernels with packed weights: convolution over channels-last data, dense layers.

The innermost axis of the weight is a block of output channels, a few vectors wide. For each block, a tile of a few
positions is kept in registers while the reduction runs: for every element of the data that is loaded, all vectors of
the block are multiplied with it. What follows (bias, activation, residual) is computed on the tile.
"""

from __future__ import annotations

from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from ...target.vectors import VectorUnit, vector_unit
from .blocks import SingleReduction, extent, single_reduction, static_size
from .elementwise import PARALLEL_SIZE, schedule_spatial
from .overlap import overlap
from .sizes import split_by_size

__all__ = ["rows_of_tile", "schedule"]

_UNROLLED = 4  # steps of the reduction in one iteration


def schedule(sch: s_tir.Schedule, target: Target) -> bool:
    """Schedule a kernel with one reduction whose weight is packed in blocks of the innermost output axis."""
    found = single_reduction(sch)
    if found is None:
        return False
    node = sch.get(found.block)
    block = _block(node, found.spatial)
    if block is None:
        return False
    if found.after is not None and len(sch.get_loops(found.after)) != found.spatial:
        return False
    rows = _row_axis(node, found.spatial)
    for other in found.others:
        schedule_spatial(sch, other)
    _tile(sch, found, block, rows, vector_unit(target))
    return True


def _block(node: Any, spatial: int) -> int | None:
    """Return the size of the weight's blocks of the last output axis, or None where no operand has such blocks."""
    last = node.iter_vars[spatial - 1]
    for region in node.reads:
        *_, inner = [r.min for r in region.region] or [None]
        if isinstance(inner, tirx.FloorMod) and inner.a.same_as(last.var) and isinstance(inner.b, tirx.IntImm):
            return int(inner.b.value)
    return None


def _row_axis(node: Any, spatial: int) -> int | None:
    """Return the innermost output axis but the last that has more than one position."""
    for axis in reversed(range(spatial - 1)):
        size = node.iter_vars[axis].dom.extent
        if not (isinstance(size, tirx.IntImm) and int(size.value) == 1):
            return axis
    return None


def rows_of_tile(size: int | None, most: int) -> int:
    """Return how many positions a tile has: as many as keep the multipliers busy and compute little twice."""
    if size is None:
        return most
    least = max(1, most // 2)  # fewer wait for the results of those before them
    return min(range(1, min(size, most) + 1), key=lambda rows: (-(-size // rows) * max(rows, least), -rows))


def _tile(sch: s_tir.Schedule, found: SingleReduction, block_size: int, row_axis: int | None, unit: VectorUnit) -> None:
    block, loops = found.block, sch.get_loops(found.block)
    size = static_size(sch, loops)
    outer, reduction = loops[: found.spatial], loops[found.spatial :]
    last = found.spatial - 1
    outer[last], lane = sch.split(outer[last], [None, block_size])
    inner = []
    if row_axis is not None:
        most = max(1, unit.accumulators * unit.lanes // max(block_size, unit.lanes))
        have = extent(sch, outer[row_axis])
        rows = rows_of_tile(have, most)
        if have is None:
            outer[row_axis], row = split_by_size(sch, outer[row_axis], rows)
        else:
            outer[row_axis], row = overlap(sch, outer[row_axis], have, rows)
        inner.append(row)
    steps = extent(sch, reduction[-1])
    unrolled = next((u for u in (_UNROLLED, 2) if steps is not None and steps % u == 0), 1)
    reduction[-1], step = sch.split(reduction[-1], [None, unrolled])
    # Blocks of the weight change slowly: one stays in the cache while all positions go by.
    order = [outer[last], *outer[:last]]
    sch.reorder(*order, *reduction, step, *inner, lane)
    sch.vectorize(lane)
    sch.unroll(step)
    for loop in inner:
        sch.unroll(loop)
    if found.after is None:
        after = sch.cache_write(block, 0, "local")
    else:
        after = found.after
        sch.set_scope(block, 0, "local")
    sch.reverse_compute_at(after, order[-1], preserve_unit_loops=True)
    written = sch.get_loops(after)[len(order) :]
    sch.vectorize(written[last])
    if row_axis is not None:
        sch.unroll(written[row_axis])
    if size >= PARALLEL_SIZE:
        sch.parallel(sch.fuse(*order[:-1]) if len(order) > 2 else order[0])
    sch.decompose_reduction(block, reduction[0])
