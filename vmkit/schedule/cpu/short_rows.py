"""The rule for reductions of rows of a few elements: several rows beside each other, one in each lane of a vector.

Such a row fills no vector, and summed up one by one each of its elements waits for the one before it. A vector that has
one element of each of several rows takes as many loads as it has elements, and all else is done for them at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tvm import s_tir
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.processor import processor_of
from ..blocks import Loop, SingleReduction, extent, loops_of_results, share_among_cores, single_reduction, static_size
from ..expressions import stride, uses
from ..rule import Options, Rule, Versions, choices
from .elementwise import PARALLEL_SIZE, schedule_spatial, sharing
from .overlap import tiles
from .versions import for_one_row

__all__ = ["RULE", "Decisions"]

_LEAST, _MOST = 9, 19
"""Elements of a row: LLVM shuffles those of fewer into vectors itself, and vectors go along rows of more."""
_PART = 4  # elements of the least vector, which goes along the rows that it divides


@dataclass(frozen=True)
class Decisions:
    """How rows are computed.

    Attributes
    ----------
    rows : int
        How many rows are computed at once, at most as many as there are.
    parallel : bool
        Whether rows are shared among cores.
    """

    rows: int
    parallel: bool


@dataclass(frozen=True)
class _Kernel:
    found: SingleReduction
    loops: list[Loop]  # of the reduction
    row_axis: int  # which of them goes from row to row


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for one reduction of rows that are short, of which there are a vector or more."""
    kernel = _kernel(sch)
    rows = _rows(sch, kernel, target) if kernel is not None else []
    if kernel is None or not rows:
        return None
    return Decisions(rows[0], static_size(sch, kernel.loops) >= PARALLEL_SIZE)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with a vector of rows and with a part of one."""
    kernel, default = _kernel(sch), decide(sch, target)
    if kernel is None or default is None:
        return ()
    size = static_size(sch, kernel.loops)
    options: Options = {"rows": _rows(sch, kernel, target), "parallel": sharing(size, target)}
    return choices(Decisions, default, options)


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a kernel of short rows."""
    kernel = _kernel(sch)
    assert kernel is not None
    found, axis = kernel.found, kernel.row_axis
    for other in found.others:
        schedule_spatial(sch, other)
    outer, reduction = kernel.loops[: found.spatial], kernel.loops[found.spatial :]
    tile, row = tiles(sch, outer[axis], decisions.rows)
    order = [*outer[:axis], *outer[axis + 1 :], tile]
    sch.reorder(*order, *reduction, row)
    sch.vectorize(row)
    for loop in reduction:
        sch.unroll(loop)
    for loop in loops_of_results(sch, found, order):
        if decisions.rows > 1 and extent(sch, loop) == decisions.rows:
            sch.vectorize(loop)
    if decisions.parallel:
        share_among_cores(sch, _shared(sch, order))
    sch.decompose_reduction(found.block, reduction[0])


def versions(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> Versions[Decisions] | None:
    """Return versions for numbers of rows that are known at run time only."""
    kernel = _kernel(sch)
    assert kernel is not None
    return for_one_row(sch, kernel.loops[kernel.row_axis], decisions, replace(decisions, rows=1))


def _kernel(sch: s_tir.Schedule) -> _Kernel | None:
    found = single_reduction(sch)
    if found is None:
        return None
    loops, node = sch.get_loops(found.block), sch.get(found.block)
    steps = [extent(sch, loop) for loop in loops[found.spatial :]]
    if not all(steps) or not _LEAST <= (size := static_size(sch, loops[found.spatial :])) <= _MOST or size % _PART == 0:
        return None
    axis = next((a for a in reversed(range(found.spatial)) if extent(sch, loops[a]) != 1), None)
    if axis is None or not _is_over_results(sch, found, loops):
        return None
    row, step = node.iter_vars[axis].var, node.iter_vars[-1].var
    for region in node.reads:
        *far, last = [r.min for r in region.region] or [0]
        if not any(uses(index, step) for index in (*far, last)):
            continue
        if stride(last, step) != 1 or uses(last, row) or not any(uses(index, row) for index in far):
            return None
    return _Kernel(found, list(loops), axis)


def _shared(sch: s_tir.Schedule, order: list[Loop]) -> list[Loop]:
    """Return the loops to share among cores: of all tiles, but for those that overlap, which stay as they are."""
    several = [loop for loop in order if extent(sch, loop) != 1] or order[-1:]
    if sch.get(several[-1]).annotations and len(several) > 1:
        several.pop()
    return several


def _is_over_results(sch: s_tir.Schedule, found: SingleReduction, loops: list[Loop]) -> bool:
    """Say whether what follows the reduction has the loops of its results, but for ones of one step."""
    if found.after is None:
        return True

    def varying(some: Iterable[Loop]) -> list[int | None]:
        return [size for loop in some if (size := extent(sch, loop)) != 1]

    return varying(sch.get_loops(found.after)) == varying(loops[: found.spatial])


def _rows(sch: s_tir.Schedule, kernel: _Kernel, target: Target) -> list[int]:
    have = extent(sch, kernel.loops[kernel.row_axis])
    return [rows for rows in processor_of(target).vectors.parts() if have is None or rows <= have]


RULE = Rule("short_rows", Decisions, decide, candidates, apply, versions)
