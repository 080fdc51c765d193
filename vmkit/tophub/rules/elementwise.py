"""The rule for kernels of any shape: the outer loops shared among cores."""

from __future__ import annotations

from tvm import s_tir
from tvm.target import Target

from .blocks import Block, extent, is_reduction, kernel_blocks, static_size

__all__ = ["PARALLEL_SIZE", "schedule", "schedule_spatial"]

# Below this many elements, starting threads costs more than they save.
PARALLEL_SIZE = 16_384


def schedule(sch: s_tir.Schedule, target: Target) -> bool:
    """Schedule a kernel; applies to every kernel."""
    for block in kernel_blocks(sch):
        if is_reduction(sch, block):
            _share_outer_loops(sch, block)
        else:
            schedule_spatial(sch, block)
    return True


def schedule_spatial(sch: s_tir.Schedule, block: Block) -> None:
    """Share the outer loops of a block that does not reduce among cores; LLVM vectorises the innermost one itself."""
    loops = sch.get_loops(block)
    if len(loops) > 1 and static_size(sch, loops) >= PARALLEL_SIZE:
        sch.parallel(sch.fuse(*loops[:-1]))


def _share_outer_loops(sch: s_tir.Schedule, block: Block) -> None:
    """Share the loops of a reduction that are outside of it among cores."""
    loops = sch.get_loops(block)
    kinds = [v.iter_type for v in sch.get(block).iter_vars]
    if len(loops) != len(kinds):
        return
    outer = []
    for loop, kind in zip(loops, kinds, strict=True):
        if kind != 0:
            break
        outer.append(loop)
    # The innermost loop of the output is left for LLVM to vectorise.
    if len(outer) > 1 and static_size(sch, loops) >= PARALLEL_SIZE:
        sch.parallel(sch.fuse(*outer[:-1]))
    steps = loops[len(outer) :]
    if any(not extent(sch, loop) for loop in steps):
        # The start value is written by the first step, so a reduction that may have no step writes it beforehand.
        sch.decompose_reduction(block, steps[0])
