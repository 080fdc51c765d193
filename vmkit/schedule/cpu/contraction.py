"""The rule for kernels around one reduction over contiguous outputs: convolution, matrix product, pooling.

A tile of the output is register-resident while the reduction runs: a few vectors along the innermost output axis,
times a few along an axis that one of the operands does not depend on, so that each of its elements is used several
times once loaded. What follows the reduction (bias, activation, residual) is computed on the tile.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm import s_tir, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.processor import processor_of
from ...target.vectors import PORTABLE
from ..blocks import Loop, SingleReduction, extent, loops_of_results, share_among_cores, single_reduction, static_size
from ..expressions import is_one, stride, uses
from ..rule import Options, Rule, choices
from .elementwise import PARALLEL_SIZE, schedule_spatial, sharing
from .overlap import tiles

__all__ = ["RULE", "Decisions"]

_VECTOR = PORTABLE.lanes
_LANES = 2 * _VECTOR  # the most elements along the vectorised axis beside several rows
_LEAST = 4  # an axis of fewer elements is not worth vectors
_REGISTERS = PORTABLE.accumulators


@dataclass(frozen=True)
class Decisions:
    """How a tile of the output is computed.

    Attributes
    ----------
    lanes : int
        How many elements it has along the vectorised axis, at most as many as that has.
    rows : int
        How many along the other axis; they divide it. 1 where no axis uses again what is loaded.
    parallel : bool
        Whether tiles are shared among cores.
    """

    lanes: int
    rows: int
    parallel: bool


@dataclass(frozen=True)
class _Kernel:
    found: SingleReduction
    loops: list[Loop]
    lane_axis: int
    row_axis: int | None
    width: int
    height: int


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for a kernel with one reduction over an innermost output axis of known size."""
    kernel = _kernel(sch)
    if kernel is None:
        return None
    lanes = _lanes(kernel.width, _LANES if kernel.row_axis is not None else _REGISTERS * _VECTOR)
    rows = 1
    if kernel.row_axis is not None:
        most = max(1, _REGISTERS * _VECTOR // (-(-lanes // _VECTOR) * _VECTOR))
        rows = next(r for r in range(most, 0, -1) if kernel.height % r == 0)
    return Decisions(lanes, rows, static_size(sch, kernel.loops) >= PARALLEL_SIZE)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with tiles of half of the registers at most."""
    kernel, default = _kernel(sch), decide(sch, target)
    if kernel is None or default is None:
        return ()
    unit = processor_of(target).vectors
    whole = reversed(unit.vectors_in(kernel.width))
    options: Options = {
        "lanes": list(dict.fromkeys([default.lanes, *whole])),
        "rows": [r for r in range(1, unit.registers + 1) if kernel.height % r == 0 and kernel.row_axis is not None]
        or [1],
        "parallel": sharing(static_size(sch, kernel.loops), target),
    }
    # What is loaded needs registers as well, one for each vector of a row and one for the other operand.
    return (
        d
        for d in choices(Decisions, default, options)
        if d == default or (d.rows + 1) * unit.registers_for(d.lanes) < unit.registers
    )


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a kernel around one reduction."""
    kernel = _kernel(sch)
    assert kernel is not None
    for other in kernel.found.others:
        schedule_spatial(sch, other)
    _tile(sch, kernel, decisions)


def _kernel(sch: s_tir.Schedule) -> _Kernel | None:
    found = single_reduction(sch)
    if found is None:
        return None
    node, loops = sch.get(found.block), sch.get_loops(found.block)
    extents = [extent(sch, loop) for loop in loops[: found.spatial]]
    lane = _lane_axis(extents)
    if lane is None or not _reads_lines(node, node.iter_vars[lane].var):
        return None
    rows = _row_axis(node, lane)
    if rows is None and not _has_unit_stride(node, node.iter_vars[lane].var):
        return None
    return _Kernel(found, loops, lane, rows, extents[lane] or 1, 1 if rows is None else extents[rows] or 1)


def _lane_axis(extents: list[int | None]) -> int | None:
    """Return the innermost output axis of more than one element, if its size is known and worth vectors."""
    for axis in reversed(range(len(extents))):
        size = extents[axis]
        if size != 1:
            return axis if size is not None and size >= _LEAST else None
    return None


def _reads_lines(node: s_tir.SBlock, var: tirx.Var) -> bool:
    """Say whether every operand that depends on an iteration variable has it in its last index of several values."""
    for region in node.reads:
        indices, shape = list(region.region), list(region.source.ty.shape)
        used = [at for at, index in enumerate(indices) if uses(index.min, var)]
        if used and not (len(used) == 1 and all(is_one(size) for size in shape[used[0] + 1 :])):
            return False
    return True


def _has_unit_stride(node: s_tir.SBlock, var: tirx.Var) -> bool:
    """Say whether consecutive values of an iteration variable read consecutive elements."""
    indices = [index.min for region in node.reads for index in region.region]
    return all(stride(index, var) == 1 for index in indices if uses(index, var))


def _row_axis(node: s_tir.SBlock, lane_axis: int) -> int | None:
    """Return an outer output axis along which what is loaded for a whole tile of lanes is used again."""
    lane = node.iter_vars[lane_axis].var
    for i in reversed(range(lane_axis)):
        var = node.iter_vars[i].var
        reads = [(_reads(region, lane), _reads(region, var)) for region in node.reads]
        if any(by_row for _, by_row in reads) and not any(by_lane and by_row for by_lane, by_row in reads):
            return i
    return None


def _reads(region: tirx.BufferRegion, var: tirx.Var) -> bool:
    return any(uses(r.min, var) for r in region.region)


def _lanes(width: int, most: int) -> int:
    """Return how many elements of an axis to keep at once: whole registers if they divide it, else one or a part of it.

    More than one register and no whole number of them would be cut into pieces of every size. Of a long axis the last
    register begins earlier, and computes some elements again.
    """
    divisors = [t for t in range(min(width, most), 0, -1) if width % t == 0]
    found = next(t for t in divisors if t % _VECTOR == 0 or t < _VECTOR)
    return _VECTOR if found < _VECTOR < width else found


def _tile(sch: s_tir.Schedule, kernel: _Kernel, decisions: Decisions) -> None:
    found, block, lane_axis, row_axis = kernel.found, kernel.found.block, kernel.lane_axis, kernel.row_axis
    loops = kernel.loops
    outer, reduce_loops, inner = loops[: found.spatial], loops[found.spatial :], []
    if row_axis is not None:
        outer[row_axis], row = sch.split(outer[row_axis], [None, decisions.rows])
        sch.unroll(row)
        inner.append(row)
    outer[lane_axis], lane = tiles(sch, outer[lane_axis], decisions.lanes)
    sch.reorder(*outer, *reduce_loops, *inner, lane)
    sch.vectorize(lane)
    written = loops_of_results(sch, found, outer)
    sch.vectorize(written[lane_axis])
    if row_axis is not None:
        # An accumulator that a loop reads by a running index would live in memory, not in a register.
        sch.unroll(written[row_axis])
    # Not the loop over tiles of which the last one overlaps.
    shared = outer if kernel.width % decisions.lanes == 0 else outer[:lane_axis]
    if decisions.parallel and shared:
        share_among_cores(sch, shared)
    sch.decompose_reduction(block, reduce_loops[0])


RULE = Rule("contraction", Decisions, decide, candidates, apply)
