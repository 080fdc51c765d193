"""The rule for packed weights whose last blocks are filled up: channels or units that vectors do not divide.

Units may be followed by one block more, so that several go by at once.

The reduction has the groups, the blocks of a group and the channels of a block as its last axes; what follows it takes
the channels that there are. For a few positions, all channels of a group (of a single group, which may be large, some
blocks) are computed, a few blocks at a time in registers, and kept in the nearest cache, from where what follows reads
them.
"""

from __future__ import annotations

from collections.abc import Iterable

import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.processor import CACHES, processor_of
from ..blocks import Block, SingleReduction, extent, share_among_cores, single_reduction, static_size
from ..rule import Options, Rule, Versions, choices
from .elementwise import PARALLEL_SIZE, schedule_spatial, sharing
from .overlap import tiles
from .packed import rows_of_tile, rows_to_try
from .rests import whole_or_rest
from .versions import for_fewer_rows

__all__ = ["RULE", "Decisions"]

_BLOCKS = (3, 2, 4, 5)  # how many blocks of a vector to have in registers at once, the best first


@dataclass(frozen=True)
class Decisions:
    """How a convolution with filled blocks is computed.

    Attributes
    ----------
    blocks : int
        How many blocks are in registers at once; they divide those of a group.
    rows : int
        How many positions a tile has, at most as many as there are.
    unrolled : int
        How many steps of the reduction one iteration has; they divide its innermost axis.
    parallel : bool
        Whether tiles are shared among cores.
    """

    blocks: int
    rows: int
    unrolled: int
    parallel: bool


@dataclass(frozen=True)
class _Kernel:
    found: SingleReduction
    after: Block
    groups: int
    blocks: int
    lanes: int
    positions: int | None
    steps: int | None


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for one reduction over blocks of channels that its output does not have as axes."""
    kernel = _kernel(sch)
    if kernel is None:
        return None
    blocks = next((b for b in _BLOCKS if kernel.blocks % b == 0), 1)
    # Some registers are for the weight and what it is multiplied with.
    most = max(1, processor_of(target).vectors.registers * 2 // 3 // blocks)
    if kernel.positions is None:
        most = 1 << most.bit_length() - 1  # which divides more numbers of rows that there are
    rows = rows_of_tile(kernel.positions, most)
    unrolled = 2 if kernel.steps is not None and kernel.steps % 2 == 0 else 1
    return Decisions(blocks, rows, unrolled, _size(sch, kernel) >= PARALLEL_SIZE)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with tiles that fit into the registers beside what they are computed from."""
    kernel, default = _kernel(sch), decide(sch, target)
    if kernel is None or default is None:
        return ()
    registers = processor_of(target).vectors.registers
    options: Options = {
        "blocks": [b for b in (1, *sorted(_BLOCKS)) if kernel.blocks % b == 0],
        "rows": rows_to_try(kernel.positions, registers - 2),
        "unrolled": [u for u in (1, 2, 4) if kernel.steps is not None and kernel.steps % u == 0] or [1],
        "parallel": sharing(_size(sch, kernel), target),
    }
    tried = choices(Decisions, default, options)
    return (d for d in tried if d == default or (d.rows + 1) * d.blocks < registers)


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a convolution with filled blocks."""
    kernel = _kernel(sch)
    assert kernel is not None
    for other in kernel.found.others:
        schedule_spatial(sch, other)
    _tile(sch, kernel, decisions)


def versions(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> Versions[Decisions] | None:
    """Return versions of a convolution with filled blocks for numbers of positions that are known at run time only."""
    kernel = _kernel(sch)
    assert kernel is not None
    return for_fewer_rows(sch, sch.get_loops(kernel.after)[-2], decisions)


def _kernel(sch: s_tir.Schedule) -> _Kernel | None:
    found = single_reduction(sch)
    if found is None or found.after is None or found.spatial < 4:
        return None
    loops = sch.get_loops(found.block)
    groups, blocks, lanes = (extent(sch, loop) for loop in loops[: found.spatial][-3:])
    written = sch.get_loops(found.after)
    channels = extent(sch, written[-1])
    if groups is None or blocks is None or lanes is None or channels is None or len(written) != found.spatial - 2:
        return None
    most = 1 if groups > 1 else 2  # blocks that are filled up, or wholly of what fills them
    if channels % groups or not (blocks - most) * lanes < channels // groups < blocks * lanes:
        return None
    if not _reads_blocks(sch.get(found.block), found.spatial - 1):
        return None
    return _Kernel(found, found.after, groups, blocks, lanes, extent(sch, written[-2]), extent(sch, loops[-1]))


def _size(sch: s_tir.Schedule, kernel: _Kernel) -> int:
    return static_size(sch, sch.get_loops(kernel.found.block))


def _is_near(kernel: _Kernel) -> bool:
    """Say whether the weight of a dense layer is in the second cache whatever else goes by."""
    inner = kernel.steps or CACHES.second
    return inner * kernel.blocks * kernel.lanes * 4 <= CACHES.quarter_of_second


def _reads_blocks(node: s_tir.SBlock, axis: int) -> bool:
    """Say whether the innermost index of an operand is an iteration variable."""
    var, size = node.iter_vars[axis].var, node.iter_vars[axis].dom.extent
    innermost = [list(region.region)[-1].min for region in node.reads if region.region]
    return any(Analyzer().can_prove_equal(_within(index, size), var) for index in innermost)


def _within(index: tirx.Expr, size: tirx.Expr) -> tirx.Expr:
    """Return an index without the remainder by a size that it is smaller than."""
    is_remainder = isinstance(index, tirx.FloorMod) and tvm_ffi.structural_equal(index.b, size)
    return index.a if is_remainder else index


def _tile(sch: s_tir.Schedule, kernel: _Kernel, decisions: Decisions) -> None:
    found, block = kernel.found, kernel.found.block
    *outer, row, channel = sch.get_loops(kernel.after)
    if kernel.groups > 1:
        group, channel = sch.split(channel, [kernel.groups, None])
    else:
        # Some blocks of the weight stay in the cache while all positions go by, where it is not there as a whole.
        group, channel = sch.split(channel, [None, decisions.blocks * kernel.lanes])
    row, inner_row = tiles(sch, row, decisions.rows)
    # Lines that one block ends in and the next begins in are then written while they are in the nearest cache.
    by_row = not outer and kernel.groups == 1 and _is_near(kernel)
    order = [row, group] if by_row else [group, *outer, row]
    sch.reorder(*order, inner_row, channel)
    sch.unroll(inner_row)
    sch.set_scope(block, 0, "local")
    sch.compute_at(block, order[-1], preserve_unit_loops=True)
    loops = sch.get_loops(block)[len(order) :]
    spatial, reduction = loops[: found.spatial], loops[found.spatial :]
    whole, part = sch.split(spatial[-2], [None, decisions.blocks])
    reduction[-1], step = sch.split(reduction[-1], [None, decisions.unrolled])
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
    if decisions.parallel:
        # Where there is nothing else to share, positions are: a loop that were fused with theirs would hide its bounds.
        alone = by_row or (not outer and extent(sch, group) == 1)
        share_among_cores(sch, [row] if alone else order[:-1])
    sch.decompose_reduction(block, reduction[0])
    if kernel.groups == 1:
        whole_or_rest(sch, channel)


RULE = Rule("filled", Decisions, decide, candidates, apply, versions)
