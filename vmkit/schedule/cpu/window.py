"""The rule for windows that go along all operands: depthwise convolution, pooling, sums over outer axes.

The last output axis, mostly the channels, runs through all operands, so vectors go along it. A tile of a few positions
is register-resident while the window goes by, so that what several windows have in common is loaded once. A padded
stage is computed for one block of channels and a few rows at a time, and read back from the nearest cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import tvm
from tvm import s_tir
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.processor import Processor, processor_of
from ...target.vectors import VectorUnit
from ..blocks import Loop, SingleReduction, extent, loops_of_results, share_among_cores, single_reduction, static_size
from ..expressions import stride, uses
from ..rule import Options, Rule, Versions, choices
from .elementwise import PARALLEL_SIZE, schedule_spatial, sharing
from .overlap import tiles
from .packed import rows_of_tile, rows_to_try
from .versions import for_one_row

__all__ = [
    "RULE",
    "Decisions",
    "Kernel",
    "is_short",
    "kernel_of",
    "lanes_alone",
    "lanes_of",
    "lines_of",
    "split_channels",
    "vectorize_channels",
]

_ROWS = 8  # positions in registers: enough to hide the latency of additions
_ALONE = (4, 3, 2, 1)  # vectors of a position by itself
_WIDE = (24, 32)  # elements of which processors make several vectors
_LEAST_VECTOR = 4  # elements of a vector that a group of channels may be cut into
_UNROLLED = 9  # the most steps of the innermost reduction axis that are unrolled


@dataclass(frozen=True)
class Decisions:
    """How windows are computed.

    Attributes
    ----------
    lanes : int
        How many elements go together along the last output axis; they divide it.
    rows : int
        How many positions a tile has, at most as many as there are; 1 where there is one position.
    unrolled : bool
        Whether the innermost axis of the window is unrolled.
    lines : int
        How many lines of positions share a near piece of the padded stage; they divide the lines. 0 where there is no
        such stage, and where it is computed as a whole beforehand.
    parallel : bool
        Whether tiles are shared among cores.
    """

    lanes: int
    rows: int
    unrolled: bool
    lines: int
    parallel: bool


@dataclass(frozen=True)
class Kernel:
    """A kernel of windows.

    Attributes
    ----------
    found : SingleReduction
        Its blocks.
    loops : list of Loop
        Those of the reduction.
    row_axis : int or None
        Which of them goes along a line of positions; None where there is one position, and where there are unknown
        many whose windows have nothing in common: vectors of one are as good as a tile of them, at any number.
    positions : int or None
        How many positions a line has; None where that is known at run time only.
    width : int
        The size of the last output axis.
    steps : list of Loop
        The loops over the window of more than one step.
    """

    found: SingleReduction
    loops: list[Loop]
    row_axis: int | None
    positions: int | None
    width: int
    steps: list[Loop]


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for one reduction whose operands all have the last output axis as innermost one."""
    kernel, processor = kernel_of(sch), processor_of(target)
    lanes = lanes_of(sch, kernel, processor.vectors) if kernel is not None else None
    if kernel is None or lanes is None:
        return None
    if kernel.row_axis is None:
        lanes = lanes_alone(kernel.width, lanes)  # no other positions to go on with meanwhile, or unknown many
    rows = rows_of_tile(kernel.positions, _ROWS) if kernel.row_axis is not None else 1
    lines = lines_of(sch, kernel, lanes, processor)
    size = static_size(sch, kernel.loops)
    return Decisions(lanes, rows, is_short(sch, kernel.steps[-1]), max(lines, default=0), size >= PARALLEL_SIZE)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with tiles that fit into the registers beside what they are computed from."""
    kernel, default = kernel_of(sch), decide(sch, target)
    if kernel is None or default is None:
        return ()
    processor = processor_of(target)
    unit = processor.vectors
    options: Options = {
        "lanes": list(dict.fromkeys([default.lanes, *unit.vectors_in(kernel.width)])),
        "rows": rows_to_try(kernel.positions, unit.registers - 2) if kernel.row_axis is not None else [1],
        "unrolled": [True, False] if is_short(sch, kernel.steps[-1]) else [False],
        "lines": list(dict.fromkeys([default.lines, *lines_of(sch, kernel, default.lanes, processor), 0])),
        "parallel": sharing(static_size(sch, kernel.loops), target),
    }
    # What is loaded needs registers as well, two for each vector of a row at most.
    return (
        d
        for d in choices(Decisions, default, options)
        if d == default
        or (
            (d.rows + 2) * unit.registers_for(d.lanes) <= unit.registers
            and d.lines in (0, *lines_of(sch, kernel, d.lanes, processor))
        )
    )


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a kernel of windows along all operands."""
    kernel = kernel_of(sch)
    assert kernel is not None
    _tile(sch, kernel, decisions)


def versions(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> Versions[Decisions] | None:
    """Return versions of a kernel of windows for numbers of positions that are known at run time only."""
    kernel = kernel_of(sch)
    assert kernel is not None
    axis = None if kernel.row_axis is None else kernel.loops[kernel.row_axis]
    alone = replace(decisions, rows=1, lanes=lanes_alone(kernel.width, decisions.lanes))
    return for_one_row(sch, axis, decisions, alone)


def kernel_of(sch: s_tir.Schedule) -> Kernel | None:
    """Return a kernel of one reduction whose operands all go along the last output axis; None if it is another."""
    found = single_reduction(sch)
    if found is None:
        return None
    loops, last = sch.get_loops(found.block), found.spatial - 1
    width = extent(sch, loops[last])
    if width is None or found.spatial < 2 or not _goes_along(sch.get(found.block), last):
        return None
    if found.after is not None and len(sch.get_loops(found.after)) != found.spatial:
        return None
    row_axis = next((a for a in reversed(range(last)) if extent(sch, loops[a]) != 1), None)
    if row_axis is not None and extent(sch, loops[row_axis]) is None and any(width % wide == 0 for wide in _WIDE):
        row_axis = row_axis if _has_shared(sch.get(found.block), row_axis) else None
    positions = None if row_axis is None else extent(sch, loops[row_axis])
    reduction = loops[found.spatial :]
    steps = [loop for loop in reduction if extent(sch, loop) != 1] or reduction
    return Kernel(found, loops, row_axis, positions, width, steps)


def _has_shared(node: s_tir.SBlock, axis: int) -> bool:
    """Say whether windows that follow each other along an axis may read some of the same elements."""
    var = node.iter_vars[axis].var
    for region in node.reads:
        along = [r.min for r in region.region if uses(r.min, var)]
        if not along or not any(index.same_as(var) for index in along):
            return True
    return False


def is_short(sch: s_tir.Schedule, steps: Loop) -> bool:
    """Say whether a loop over a window is worth writing out."""
    return (extent(sch, steps) or _UNROLLED + 1) <= _UNROLLED


def lanes_of(sch: s_tir.Schedule, kernel: Kernel, unit: VectorUnit) -> int | None:
    """Return how many elements go together: a vector, or a part of one, that divides the last axis; None for neither.

    A short axis of which only a small part would be is a vector as it is, which LLVM makes several of, where the window
    goes along one axis: windows along two would be read from a padded copy, into which such vectors are put one by one.
    """
    part = next((t for t in unit.parts() if kernel.width % t == 0), None)
    is_whole = unit.lanes // 2 <= kernel.width <= 2 * unit.lanes and (part or 0) < unit.lanes // 2
    return kernel.width if is_whole and len(kernel.steps) == 1 and is_short(sch, kernel.steps[0]) else part


def lanes_alone(width: int, lanes: int, counts: Sequence[int] = _ALONE) -> int:
    """Return how many of the channels go together at one position by itself: several vectors, where they divide them.

    The numbers of vectors to choose from go from the best to the least good.

    A sum waits for the one before, so there is something else to go on with.
    """
    return next(lanes * vectors for vectors in counts if width % (lanes * vectors) == 0)


def split_channels(sch: s_tir.Schedule, loop: Loop, lanes: int) -> list[Loop]:
    """Split a loop over channels into groups of so many, and a group that is several vectors into these.

    LLVM keeps what is no power of two of elements as so many single ones wherever it goes from one block of code to the
    next, as a sum does in every step.
    """
    vector = lanes & -lanes
    if vector < _LEAST_VECTOR or vector == lanes:
        return list(sch.split(loop, [None, lanes]))
    return list(sch.split(loop, [None, lanes // vector, vector]))


def vectorize_channels(sch: s_tir.Schedule, loop: Loop, lanes: int) -> None:
    """Make vectors of a loop over one group of channels, as :func:`split_channels` has them."""
    _, *sides, lane = split_channels(sch, loop, lanes)
    for side in sides:
        sch.unroll(side)
    sch.vectorize(lane)


def _goes_along(node: s_tir.SBlock, axis: int) -> bool:
    """Say whether consecutive values of an iteration variable are consecutive elements of every operand."""
    var = node.iter_vars[axis].var
    for region in node.reads:
        indices = [r.min for r in region.region]
        used = [at for at, index in enumerate(indices) if uses(index, var)]
        rest = [int(d) if isinstance(d, int) else getattr(d, "value", 0) for d in region.source.ty.shape]
        if len(used) != 1 or stride(indices[used[0]], var) != 1 or any(d != 1 for d in rest[used[0] + 1 :]):
            return False
    return bool(node.reads)


def _tile(sch: s_tir.Schedule, kernel: Kernel, decisions: Decisions) -> None:
    found, block, row_axis, lines = kernel.found, kernel.found.block, kernel.row_axis, decisions.lines
    last = found.spatial - 1
    outer, reduction = kernel.loops[: found.spatial], kernel.loops[found.spatial :]
    channels, *sides, lane = split_channels(sch, outer[last], decisions.lanes)
    order, inner = [*outer[:last], channels], sides
    if row_axis is not None:
        tile, row = tiles(sch, outer[row_axis], decisions.rows)
        inner = [row, *sides]
        order = [*outer[:row_axis], *outer[row_axis + 1 : last], channels, tile]
        if lines:
            parts, line = sch.split(outer[row_axis - 1], [None, lines])
            order = [*outer[: row_axis - 1], parts, *outer[row_axis + 1 : last], channels, line, tile]
    sch.reorder(*order, *reduction, *inner, lane)
    sch.vectorize(lane)
    for loop in inner:
        sch.unroll(loop)
    if decisions.unrolled:
        sch.unroll(kernel.steps[-1])
    written = loops_of_results(sch, found, order)
    vectorize_channels(sch, written[last], decisions.lanes)
    if row_axis is not None:
        sch.unroll(written[row_axis])
    for other in found.others:
        if lines:
            sch.compute_at(other, channels, preserve_unit_loops=True)
            sch.vectorize(sch.get_loops(other)[-1])
        else:
            schedule_spatial(sch, other)
    if decisions.parallel and len(order) > 1:
        share_among_cores(sch, order[: -2 if lines else -1])
    sch.decompose_reduction(block, reduction[0])


def lines_of(sch: s_tir.Schedule, kernel: Kernel, lanes: int, processor: Processor) -> list[int]:
    """Return how many positions on the axis before that of the rows may share a near piece of the padded stage."""
    found, row_axis = kernel.found, kernel.row_axis
    if row_axis is None or row_axis == 0 or len(found.others) != 1:
        return []
    node, stage = sch.get(found.block), sch.get(found.others[0]).writes[0].source
    have = extent(sch, kernel.loops[row_axis - 1])
    if have is None or len(stage.ty.shape) != found.spatial:
        return []
    height, width = (getattr(d, "value", None) for d in stage.ty.shape[row_axis - 1 : row_axis + 1])
    if height is None or width is None:
        return []
    region = next((r for r in node.reads if r.source.same_as(stage)), None)
    step = None if region is None else stride(region.region[row_axis - 1].min, node.iter_vars[row_axis - 1].var)
    if step is None:
        return []
    window = height - step * (have - 1)
    line = width * lanes * (int(tvm.DataType(str(stage.ty.dtype)).bits) // 8)
    near = processor.caches.sixteenth_of_second
    fitting = [n for n in range(1, have + 1) if have % n == 0 and (step * (n - 1) + window) * line <= near]
    # Neighbours compute what their windows have in common each for itself.
    return [n for n in fitting if n * step >= window]


RULE = Rule("window", Decisions, decide, candidates, apply, versions)
