"""The rule for kernels of any shape: the outer loops shared among cores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tvm import s_tir, tirx
from tvm.target import Target

from ...target.processor import processor_of
from ..blocks import Block, Loop, extent, is_reduction, kernel_blocks, static_size
from ..rule import Rule, choices

__all__ = ["PARALLEL_SIZE", "RULE", "Decisions", "schedule_spatial", "sharing"]

# Below this many elements, starting threads costs more than they save.
PARALLEL_SIZE = 16_384
_SHARED = 64  # iterations that can be shared evenly among the cores of most machines
_UNSURE = 16  # by how much that may be wrong for a kernel


@dataclass(frozen=True)
class Decisions:
    """How the blocks of a kernel are scheduled.

    Attributes
    ----------
    parallel_size : int
        Blocks of at least so many elements are shared among cores.
    """

    parallel_size: int


def decide(sch: s_tir.Schedule, target: Target) -> Decisions:
    """Return the default decisions; there are some for every kernel."""
    return Decisions(PARALLEL_SIZE)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return thresholds that make a difference for one of the blocks."""
    sizes = {static_size(sch, sch.get_loops(block)) for block in kernel_blocks(sch)}
    near = [s for s in sorted(sizes) if len(sharing(s, target)) > 1]
    return choices(Decisions, decide(sch, target), {"parallel_size": [*near, *(s + 1 for s in near)]})


def sharing(size: int, target: Target) -> list[bool]:
    """Return whether to share a block of so many elements among cores, the default first; both where it is unsure."""
    default = size >= PARALLEL_SIZE
    is_near = PARALLEL_SIZE // _UNSURE <= size < PARALLEL_SIZE * _UNSURE
    return [default, not default] if is_near and processor_of(target).cores > 1 else [default]


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a kernel."""
    for block in kernel_blocks(sch):
        if is_reduction(sch, block):
            _share_outer_loops(sch, block, decisions.parallel_size)
        else:
            schedule_spatial(sch, block, decisions.parallel_size)


def schedule_spatial(sch: s_tir.Schedule, block: Block, parallel_size: int = PARALLEL_SIZE) -> None:
    """Share the outer loops of a block that does not reduce among cores; LLVM vectorises the innermost one itself."""
    loops = sch.get_loops(block)
    if len(loops) > 1 and static_size(sch, loops) >= parallel_size:
        sch.parallel(sch.fuse(*_shared(sch, loops)))


def _shared(sch: s_tir.Schedule, loops: list[Loop]) -> list[Loop]:
    """Return the outer loops to make one of: all but the innermost, or enough of them to be shared evenly.

    Which place is meant in several loops that were made one takes divisions, and LLVM makes vectors along several loops
    only where they are still there.
    """
    count = 1
    for at, loop in enumerate(loops[:-1], start=1):
        count *= extent(sch, loop) or 1
        if count >= _SHARED:
            return loops[:at]
    return loops[:-1]


def _share_outer_loops(sch: s_tir.Schedule, block: Block, parallel_size: int) -> None:
    """Share the loops of a reduction that are outside of it among cores."""
    loops = sch.get_loops(block)
    kinds = [v.iter_type for v in sch.get(block).iter_vars]
    if len(loops) != len(kinds):
        return
    outer = []
    for loop, kind in zip(loops, kinds, strict=True):
        if kind != tirx.IterVar.DataPar:
            break
        outer.append(loop)
    # The innermost loop of the output is left for LLVM to vectorise.
    if len(outer) > 1 and static_size(sch, loops) >= parallel_size:
        sch.parallel(sch.fuse(*outer[:-1]))
    steps = loops[len(outer) :]
    if any(not extent(sch, loop) for loop in steps):
        # The start value is written by the first step, so a reduction that may have no step writes it beforehand.
        sch.decompose_reduction(block, steps[0])


RULE = Rule("elementwise", Decisions, decide, candidates, apply)
