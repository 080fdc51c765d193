"""The rule for windows that go along all operands: depthwise convolution, pooling, sums over outer axes.

The last output axis, mostly the channels, runs through all operands, so vectors go along it. A tile of a few positions
is kept in registers while the window goes by, so that what several windows have in common is loaded once. A padded
stage is computed for one block of channels and a few rows at a time, and read back from the nearest cache.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import s_tir
from tvm.target import Target

from ...target.vectors import VectorUnit, vector_unit
from .blocks import SingleReduction, extent, single_reduction, static_size, stride, uses
from .elementwise import PARALLEL_SIZE, schedule_spatial
from .overlap import overlap
from .packed import rows_of_tile
from .sizes import split_by_size

__all__ = ["schedule"]

_ROWS = 8  # positions in registers: enough to hide the latency of additions
_UNROLLED = 9  # the most steps of the innermost reduction axis that are unrolled
_NEAR = 65_536  # bytes of a padded stage that are kept near


def schedule(sch: s_tir.Schedule, target: Target) -> bool:
    """Schedule a kernel with one reduction whose operands all have the last output axis as their innermost one."""
    found = single_reduction(sch)
    if found is None:
        return False
    node = sch.get(found.block)
    width = extent(sch, sch.get_loops(found.block)[found.spatial - 1])
    lanes = _lanes(width, vector_unit(target))
    if lanes is None or found.spatial < 2 or not _goes_along(node, found.spatial - 1):
        return False
    if found.after is not None and len(sch.get_loops(found.after)) != found.spatial:
        return False
    _tile(sch, found, lanes)
    return True


def _lanes(width: int | None, unit: VectorUnit) -> int | None:
    """Return the part of a vector, or the vector, that divides the channels; None where that is not worth it."""
    if width is None:
        return None
    return next((t for t in (unit.lanes, unit.lanes // 2, unit.lanes // 4) if t >= 4 and width % t == 0), None)


def _goes_along(node: Any, axis: int) -> bool:
    """Say whether consecutive values of an iteration variable are consecutive elements of every operand."""
    var = node.iter_vars[axis].var
    for region in node.reads:
        indices = [r.min for r in region.region]
        used = [at for at, index in enumerate(indices) if uses(index, var)]
        rest = [int(d) if isinstance(d, int) else getattr(d, "value", 0) for d in region.source.ty.shape]
        if len(used) != 1 or stride(indices[used[0]], var) != 1 or any(d != 1 for d in rest[used[0] + 1 :]):
            return False
    return bool(node.reads)


def _tile(sch: s_tir.Schedule, found: SingleReduction, lanes: int) -> None:
    block, loops = found.block, sch.get_loops(found.block)
    size, last = static_size(sch, loops), found.spatial - 1
    outer, reduction = loops[: found.spatial], loops[found.spatial :]
    row_axis = next((a for a in reversed(range(last)) if extent(sch, outer[a]) != 1), None)
    if row_axis is None:
        # No other positions to go on with meanwhile, so several vectors.
        width = extent(sch, outer[last]) or lanes
        lanes = next(lanes * t for t in (4, 3, 2, 1) if width % (lanes * t) == 0)
    lines = _lines(sch, found, row_axis, lanes)
    channels, lane = sch.split(outer[last], [None, lanes])
    order, inner = [*outer[:last], channels], []
    if row_axis is not None:
        have = extent(sch, outer[row_axis])
        rows = rows_of_tile(have, _ROWS)
        if have is None:
            tiles, row = split_by_size(sch, outer[row_axis], rows)
        else:
            tiles, row = overlap(sch, outer[row_axis], have, rows)
        inner.append(row)
        order = [*outer[:row_axis], *outer[row_axis + 1 : last], channels, tiles]
        if lines is not None:
            parts, line = sch.split(outer[row_axis - 1], [None, lines])
            order = [*outer[: row_axis - 1], parts, *outer[row_axis + 1 : last], channels, line, tiles]
    sch.reorder(*order, *reduction, *inner, lane)
    sch.vectorize(lane)
    for loop in inner:
        sch.unroll(loop)
    steps = [loop for loop in reduction if extent(sch, loop) != 1] or reduction
    if (extent(sch, steps[-1]) or _UNROLLED + 1) <= _UNROLLED:
        sch.unroll(steps[-1])
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
    for other in found.others:
        if lines is None:
            schedule_spatial(sch, other)
        else:
            sch.compute_at(other, channels, preserve_unit_loops=True)
            sch.vectorize(sch.get_loops(other)[-1])
    if size >= PARALLEL_SIZE and len(order) > 1:
        sch.parallel(sch.fuse(*order[: -1 if lines is None else -2]))
    sch.decompose_reduction(block, reduction[0])


def _lines(sch: s_tir.Schedule, found: SingleReduction, row_axis: int | None, lanes: int) -> int | None:
    """Return how many positions on the axis before that of the rows share a near piece of the padded stage."""
    if row_axis is None or row_axis == 0 or len(found.others) != 1:
        return None
    node, stage = sch.get(found.block), sch.get(found.others[0]).writes[0].source
    have = extent(sch, sch.get_loops(found.block)[row_axis - 1])
    if have is None or len(stage.ty.shape) != found.spatial:
        return None
    height, width = (getattr(d, "value", None) for d in stage.ty.shape[row_axis - 1 : row_axis + 1])
    if height is None or width is None:
        return None
    region = next((r for r in node.reads if r.source.same_as(stage)), None)
    step = None if region is None else stride(region.region[row_axis - 1].min, node.iter_vars[row_axis - 1].var)
    if step is None:
        return None
    window = height - step * (have - 1)
    line = width * lanes * (int(tvm.DataType(str(stage.ty.dtype)).bits) // 8)
    fitting = [n for n in range(1, have + 1) if have % n == 0 and (step * (n - 1) + window) * line <= _NEAR]
    # Neighbours compute what their windows have in common each for itself.
    return max(fitting) if fitting and max(fitting) * step >= window else None
