"""The rule for kernels that reduce rows and then map their elements: layer normalisation, softmax.

All stages of a row are computed before the next row begins. Sums and maxima are kept in a vector, whose elements are
combined at the end of the row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tvm import s_tir
from tvm.target import Target

from ...target.vectors import vector_unit
from .blocks import Block, extent, is_reduction, kernel_blocks, static_size
from .elementwise import PARALLEL_SIZE, sharing
from .rule import Rule, choices

__all__ = ["RULE", "Decisions"]


@dataclass(frozen=True)
class Decisions:
    """How rows are computed.

    Attributes
    ----------
    lanes : int
        How many partial sums, and how many elements of a map, go together.
    parallel : bool
        Whether rows are shared among cores.
    """

    lanes: int
    parallel: bool


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for stages over rows of known length, of which several reduce the last axis."""
    blocks = kernel_blocks(sch)
    if not blocks:
        return None
    lanes = vector_unit(target).lanes
    last = blocks[-1]
    rank = len(sch.get_loops(last))
    if rank < 2 or is_reduction(sch, last):
        return None
    width = extent(sch, sch.get_loops(last)[-1])
    if width is None or width % lanes:
        return None
    reductions = [block for block in blocks if is_reduction(sch, block)]
    if len(reductions) < 2 or not all(_is_of_rows(sch, block, rank, width) for block in blocks):
        return None
    return Decisions(lanes, static_size(sch, sch.get_loops(last)) >= PARALLEL_SIZE)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with half a vector to four vectors at once."""
    default = decide(sch, target)
    if default is None:
        return ()
    loops = sch.get_loops(kernel_blocks(sch)[-1])
    width, lanes = extent(sch, loops[-1]) or 0, vector_unit(target).lanes
    options = [t for t in (lanes // 2, lanes, lanes * 2, lanes * 4) if width % t == 0]
    return choices(Decisions, default, {"lanes": options, "parallel": sharing(static_size(sch, loops), target)})


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a kernel of stages over rows."""
    blocks, lanes = kernel_blocks(sch), decisions.lanes
    last = blocks[-1]
    width = extent(sch, sch.get_loops(last)[-1])
    partials = [_in_vectors(sch, block, lanes) for block in blocks if is_reduction(sch, block)]
    *outer, _ = sch.get_loops(last)
    for block in reversed(kernel_blocks(sch)[:-1]):
        sch.compute_at(block, outer[-1], preserve_unit_loops=True)
    for partial in partials:
        lane, *_, steps = sch.get_loops(partial)[len(outer) :]
        sch.reorder(steps, lane)
        sch.vectorize(lane)
        sch.decompose_reduction(partial, steps)
    for block in kernel_blocks(sch):
        along = sch.get_loops(block)[-1]
        if not is_reduction(sch, block) and extent(sch, along) == width:
            _, lane = sch.split(along, [None, lanes])
            sch.vectorize(lane)
    if decisions.parallel:
        sch.parallel(sch.fuse(*outer))


def _is_of_rows(sch: s_tir.Schedule, block: Block, rank: int, width: int) -> bool:
    """Say whether a block is one value for each row, or a map or a reduction of the row."""
    loops = sch.get_loops(block)
    kinds = [v.iter_type for v in sch.get(block).iter_vars]
    if len(loops) != len(kinds) or any(kind != 0 for kind in kinds[:-1]):
        return False
    if len(loops) == rank:
        return extent(sch, loops[-1]) == width
    return len(loops) == rank - 1 and kinds[-1] == 0


def _in_vectors(sch: s_tir.Schedule, block: Block, lanes: int) -> Block:
    """Cut a reduction in two: of every so many elements first, and of what that leaves."""
    *_, along = sch.get_loops(block)
    _, lane = sch.split(along, [None, lanes])
    return sch.rfactor(lane, len(sch.get_loops(block)) - 2)


RULE = Rule("rows", Decisions, decide, candidates, apply)
