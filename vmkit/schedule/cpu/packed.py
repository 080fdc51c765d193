"""The rule for kernels with packed weights: convolution over channels-last data, dense layers.

The innermost axis of the weight is a block of output channels, a few vectors wide. For each block, a tile of a few
positions is register-resident while the reduction runs: for every element of the data that is loaded, all vectors of
the block are multiplied with it. What follows (bias, activation, residual) is computed on the tile. Data of few
channels are not copied to be padded, which would go element by element: boundaries are peeled
(:mod:`.boundary_peeling`).
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm import s_tir, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.processor import processor_of
from ..blocks import Loop, SingleReduction, extent, loops_of_results, share_among_cores, single_reduction, static_size
from ..expressions import is_one
from ..rule import Options, Rule, Versions, choices
from .boundary_peeling import Boundaries, boundaries_of, mark_boundaries
from .elementwise import PARALLEL_SIZE, schedule_spatial, sharing
from .overlap import tiles
from .versions import for_fewer_rows

__all__ = ["RULE", "Decisions", "rows_of_tile", "rows_to_try"]

_UNROLLED = (4, 2, 1)  # steps of the reduction in one iteration
_BESIDE = 1  # positions whose work takes as long as reading the weight
_FEW = 4  # channels of data of which a padded copy is made element by element


@dataclass(frozen=True)
class Decisions:
    """How a kernel with packed weights is computed.

    Attributes
    ----------
    rows : int
        How many positions a tile has, at most as many as there are; 1 where there is one position.
    unrolled : int
        How many steps of the reduction one iteration has; they divide its innermost axis.
    weight_first : bool
        Whether a block of the weight is kept while all positions go by; else a tile of positions while the weight does.
    parallel : bool
        Whether tiles are shared among cores.
    """

    rows: int
    unrolled: int
    weight_first: bool
    parallel: bool


@dataclass(frozen=True)
class _Kernel:
    found: SingleReduction
    loops: list[Loop]
    block_size: int
    row_axis: int | None
    positions: int | None
    steps: int | None
    boundaries: Boundaries | None


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for one reduction whose weight is packed in blocks of the innermost output axis."""
    kernel = _kernel(sch)
    if kernel is None:
        return None
    rows, unit = 1, processor_of(target).vectors
    if kernel.row_axis is not None:
        rows = rows_of_tile(kernel.positions, unit.rows_of_results(kernel.block_size), _BESIDE)
    unrolled = next((u for u in _UNROLLED if kernel.steps is not None and kernel.steps % u == 0), 1)
    return Decisions(rows, unrolled, True, static_size(sch, kernel.loops) >= PARALLEL_SIZE)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with tiles that fit into the registers beside what they are computed from."""
    kernel, default = _kernel(sch), decide(sch, target)
    if kernel is None or default is None:
        return ()
    most = processor_of(target).vectors.most_rows(kernel.block_size)
    options: Options = {
        "rows": rows_to_try(kernel.positions, most) if kernel.row_axis is not None else [1],
        "unrolled": [u for u in (1, 2, 4, 8) if kernel.steps is not None and kernel.steps % u == 0] or [1],
        "weight_first": [True, False],
        "parallel": sharing(static_size(sch, kernel.loops), target),
    }
    return choices(Decisions, default, options)


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a kernel with packed weights."""
    kernel = _kernel(sch)
    assert kernel is not None
    for other in kernel.found.others:
        if kernel.boundaries is not None:
            sch.compute_inline(other)
        else:
            schedule_spatial(sch, other)
    _tile(sch, kernel, decisions)


def versions(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> Versions[Decisions] | None:
    """Return versions of a kernel with packed weights for numbers of positions that are known at run time only."""
    kernel = _kernel(sch)
    assert kernel is not None
    return for_fewer_rows(sch, None if kernel.row_axis is None else kernel.loops[kernel.row_axis], decisions)


def rows_of_tile(size: int | None, most: int, beside: int = 0) -> int:
    """Return how many positions a tile has: as many as keep the multipliers busy and compute little twice.

    What a tile does beside its positions, such as reading the weight, takes as long as `beside` of them.
    """
    if size is None:
        return most
    least = max(1, most // 2)  # fewer wait for the results of those before them
    return min(range(1, min(size, most) + 1), key=lambda rows: (-(-size // rows) * (max(rows, least) + beside), -rows))


def rows_to_try(size: int | None, most: int) -> list[int]:
    """Return how many positions a tile may have: up to `most`, with no more than a third of a tile computed twice."""
    if size is None:
        return list(range(1, most + 1))
    fitting = range(1, min(size, most) + 1)
    return [rows for rows in fitting if (-(-size // rows) * rows - size) * 3 <= size]


def _kernel(sch: s_tir.Schedule) -> _Kernel | None:
    found = single_reduction(sch)
    if found is None:
        return None
    node = sch.get(found.block)
    block = _block(node, found.spatial)
    if block is None:
        return None
    if found.after is not None and len(sch.get_loops(found.after)) != found.spatial:
        return None
    loops, rows = sch.get_loops(found.block), _row_axis(node, found.spatial)
    positions = None if rows is None else extent(sch, loops[rows])
    steps = extent(sch, loops[-1])
    boundaries = boundaries_of(sch, found, rows) if rows == found.spatial - 2 and positions is not None else None
    is_copied = boundaries is None or steps is None or steps > _FEW
    return _Kernel(found, loops, block, rows, positions, steps, None if is_copied else boundaries)


def _block(node: s_tir.SBlock, spatial: int) -> int | None:
    """Return the size of the weight's blocks of the last output axis, or None where no operand has such blocks."""
    last = node.iter_vars[spatial - 1]
    for region in node.reads:
        *_, inner = [r.min for r in region.region] or [None]
        if isinstance(inner, tirx.FloorMod) and inner.a.same_as(last.var) and isinstance(inner.b, tirx.IntImm):
            return int(inner.b.value)
    return None


def _row_axis(node: s_tir.SBlock, spatial: int) -> int | None:
    """Return the innermost output axis but the last that has more than one position."""
    for axis in reversed(range(spatial - 1)):
        if not is_one(node.iter_vars[axis].dom.extent):
            return axis
    return None


def _tile(sch: s_tir.Schedule, kernel: _Kernel, decisions: Decisions) -> None:
    found, block, row_axis = kernel.found, kernel.found.block, kernel.row_axis
    outer, reduction = kernel.loops[: found.spatial], kernel.loops[found.spatial :]
    last = found.spatial - 1
    outer[last], lane = sch.split(outer[last], [None, kernel.block_size])
    inner = []
    if row_axis is not None:
        outer[row_axis], row = tiles(sch, outer[row_axis], decisions.rows)
        inner.append(row)
    across = [] if kernel.boundaries is None else [kernel.loops[at] for at in kernel.boundaries.steps]
    along = [] if kernel.boundaries is None else [loop for loop in reduction[:-1] if all(loop is not o for o in across)]
    reduction[-1], step = sch.split(reduction[-1], [None, decisions.unrolled])
    # Blocks of the weight change slowly: one stays in the cache while all positions go by.
    order = [outer[last], *outer[:last]] if decisions.weight_first else outer
    sch.reorder(*order, *reduction, step, *inner, lane)
    sch.vectorize(lane)
    # Along a line, what reaches over an edge is known for each step only where it is written out.
    for loop in (*along, step, *inner):
        sch.unroll(loop)
    written = loops_of_results(sch, found, order)
    sch.vectorize(written[last])
    if row_axis is not None:
        sch.unroll(written[row_axis])
    if kernel.boundaries is not None and row_axis is not None:
        mark_boundaries(sch, across, outer[row_axis], row_axis, kernel.boundaries.tiles(decisions.rows))
    if decisions.parallel:
        # Not the loop over tiles, of which the last one may overlap; what is within it has one position.
        whole = outer[: last if row_axis is None else row_axis]
        shared = [outer[last], *whole] if decisions.weight_first else whole
        share_among_cores(sch, shared or order[:1])
    sch.decompose_reduction(block, reduction[0])


RULE = Rule("packed", Decisions, decide, candidates, apply, versions)
