"""The rule for convolutions with packed weights whose last blocks are filled up: channels that vectors do not divide.

The reduction has the groups, the blocks of a group and the channels of a block as its last axes; what follows it takes
the channels that there are. For a few positions, all channels of a group (of a single group, which may be large, some
blocks) are computed, a few blocks at a time in registers, and kept in the nearest cache, from where what follows reads
them.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer
from tvm.target import Target

from ...target.vectors import VectorUnit, vector_unit
from .blocks import SingleReduction, extent, single_reduction, static_size
from .elementwise import PARALLEL_SIZE, schedule_spatial
from .overlap import overlap
from .packed import rows_of_tile
from .sizes import split_by_size

__all__ = ["schedule"]

_BLOCKS = (3, 2, 4, 5)  # how many blocks of a vector to have in registers at once, the best first


def schedule(sch: s_tir.Schedule, target: Target) -> bool:
    """Schedule a kernel with one reduction over blocks of channels that its output does not have as axes."""
    found = single_reduction(sch)
    if found is None or found.after is None or found.spatial < 4:
        return False
    groups, blocks, lanes = (extent(sch, loop) for loop in sch.get_loops(found.block)[: found.spatial][-3:])
    written = sch.get_loops(found.after)
    channels = extent(sch, written[-1])
    if groups is None or blocks is None or lanes is None or channels is None or len(written) != found.spatial - 2:
        return False
    if channels % groups or not (blocks - 1) * lanes < channels // groups < blocks * lanes:
        return False
    if not _reads_blocks(sch.get(found.block), found.spatial - 1):
        return False
    for other in found.others:
        schedule_spatial(sch, other)
    _tile(sch, found, (groups, blocks, lanes), vector_unit(target))
    return True


def _reads_blocks(node: Any, axis: int) -> bool:
    """Say whether the innermost index of an operand is an iteration variable."""
    var, size = node.iter_vars[axis].var, node.iter_vars[axis].dom.extent
    innermost = [list(region.region)[-1].min for region in node.reads if region.region]
    return any(Analyzer().can_prove_equal(_within(index, size), var) for index in innermost)


def _within(index: Any, size: Any) -> Any:
    """Return an index without the remainder by a size that it is smaller than."""
    is_remainder = isinstance(index, tirx.FloorMod) and tvm_ffi.structural_equal(index.b, size)
    return index.a if is_remainder else index


def _tile(sch: s_tir.Schedule, found: SingleReduction, sizes: tuple[int, int, int], unit: VectorUnit) -> None:
    groups, blocks, lanes = sizes
    block, size = found.block, static_size(sch, sch.get_loops(found.block))
    at_once = next((b for b in _BLOCKS if blocks % b == 0), 1)
    *outer, row, channel = sch.get_loops(found.after)
    if groups > 1:
        group, channel = sch.split(channel, [groups, None])
    else:
        # Some blocks of the weight stay in the cache while all positions go by.
        group, channel = sch.split(channel, [None, at_once * lanes])
    have = extent(sch, row)
    # Some registers are for the weight and what it is multiplied with.
    rows = rows_of_tile(have, max(1, unit.registers * 2 // 3 // at_once))
    if have is None:
        row, inner_row = split_by_size(sch, row, rows)
    else:
        row, inner_row = overlap(sch, row, have, rows)
    order = [group, *outer, row]
    sch.reorder(*order, inner_row, channel)
    sch.unroll(inner_row)
    sch.set_scope(block, 0, "local")
    sch.compute_at(block, row, preserve_unit_loops=True)
    loops = sch.get_loops(block)[len(order) :]
    spatial, reduction = loops[: found.spatial], loops[found.spatial :]
    whole, part = sch.split(spatial[-2], [None, at_once])
    steps = extent(sch, reduction[-1])
    unrolled = 2 if steps is not None and steps % 2 == 0 else 1
    reduction[-1], step = sch.split(reduction[-1], [None, unrolled])
    tile = [spatial[-4], part, spatial[-1]]
    sch.reorder(*spatial[:-4], spatial[-3], whole, *reduction, step, *tile)
    sch.vectorize(spatial[-1])
    for loop in (step, spatial[-4], part):
        sch.unroll(loop)
    registers = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(registers, whole, preserve_unit_loops=True)
    kept = sch.get_loops(registers)
    sch.vectorize(kept[-1])
    for loop in (kept[-2], kept[-4]):
        sch.unroll(loop)
    if size >= PARALLEL_SIZE:
        sch.parallel(sch.fuse(*order[:-1]))
    sch.decompose_reduction(block, reduction[0])
