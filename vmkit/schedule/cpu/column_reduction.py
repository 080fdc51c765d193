"""The rule for kernels that reduce columns and then map their elements: softmax over channels that come before pixels.

Columns that lie beside each other go together in vectors. All stages of some columns are computed before the next
begin, if there are several times as many.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm import s_tir
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.processor import processor_of
from ..blocks import extent, is_reduction, static_size
from ..rule import Options, Rule, choices
from .elementwise import PARALLEL_SIZE, sharing
from .short_lines import mark_short_line
from .staged_reduction import StagedReduction, staged_reduction

__all__ = ["RULE", "Decisions"]

_LINE = 8  # columns from which on that is slower than a vector, half of one and so on


@dataclass(frozen=True)
class Decisions:
    """How columns are computed.

    Attributes
    ----------
    columns : int
        How many columns go together; 0 where all do that lie beside each other.
    parallel : bool
        Whether columns are shared among cores.
    """

    columns: int
    parallel: bool


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for stages of which some reduce axes before the last."""
    kernel = _kernel(sch)
    if kernel is None:
        return None
    size = static_size(sch, sch.get_loops(kernel.blocks[-1]))
    return Decisions(_columns(kernel, target)[0], size >= PARALLEL_SIZE)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with several vectors of columns, and with all of them."""
    kernel, default = _kernel(sch), decide(sch, target)
    if kernel is None or default is None:
        return ()
    size = static_size(sch, sch.get_loops(kernel.blocks[-1]))
    options: Options = {"columns": _columns(kernel, target), "parallel": sharing(size, target)}
    return choices(Decisions, default, options)


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a kernel of stages over columns."""
    kernel = _kernel(sch)
    assert kernel is not None
    *others, last = kernel.blocks
    loops = sch.get_loops(last)
    columns = sch.split(loops[-1], [None, decisions.columns]) if decisions.columns else [loops[-1]]
    kept = [loop for axis, loop in enumerate(loops[:-1]) if axis not in kernel.reduced]
    outer = [*kept, *columns[:-1]]
    sch.reorder(*outer, *(loops[axis] for axis in kernel.reduced), columns[-1])
    # Indices taken apart again are not understood where sizes are unknown.
    if decisions.parallel and outer and all(extent(sch, loop) for loop in outer):
        outer = [sch.fuse(*outer)]
    for block in reversed(others) if outer else ():
        sch.compute_at(block, outer[-1], preserve_unit_loops=True)
    if decisions.parallel and outer:
        # While the reductions are whole: what is left of them once their start is apart no longer looks like ones.
        sch.parallel(next((loop for loop in outer if extent(sch, loop) != 1), outer[0]))
    for block in (each for each in others if is_reduction(sch, each)):
        own = sch.get_loops(block)[len(outer) :]
        steps = own[-len(kernel.reduced) :]
        sch.reorder(*steps, own[-len(steps) - 1])
        sch.decompose_reduction(block, steps[0])
    # LLVM makes vectors of few elements, of several lines at once, except where they are sums.
    for block in kernel.blocks:
        if is_reduction(sch, block) or (kernel.width or 0) >= _LINE:
            mark_short_line(sch, block, sch.get_loops(block)[-1])


def _kernel(sch: s_tir.Schedule) -> StagedReduction | None:
    """Return the structure of a kernel that keeps the last axis, with more than one column in it."""
    kernel = staged_reduction(sch)
    return None if kernel is None or kernel.rank - 1 in kernel.reduced or kernel.width == 1 else kernel


def _columns(kernel: StagedReduction, target: Target) -> list[int]:
    lanes = processor_of(target).vectors.lanes
    return [*(t * lanes for t in (8, 4) if kernel.width is not None and kernel.width % (t * lanes) == 0), 0]


RULE = Rule("column_reduction", Decisions, decide, candidates, apply)
