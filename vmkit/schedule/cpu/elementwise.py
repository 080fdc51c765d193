"""The rule for kernels of any shape: the outer loops shared among cores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tvm_ffi
from tvm import s_tir, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ..._tvm.nodes import TensorLoad
from ...kernels.builder import PARALLEL_SIZE
from ...target.processor import processor_of
from ..blocks import Block, Loop, extent, is_reduction, kernel_blocks, share_among_cores, static_size
from ..expressions import known, uses
from ..rule import Rule, choices
from .line_parts import mark_line_parts
from .short_lines import mark_short_line
from .unit_lines import without_unit_lines

__all__ = ["PARALLEL_SIZE", "RULE", "Decisions", "schedule_spatial", "sharing"]

_ENOUGH = 1024  # iterations of an innermost loop that make it long
_MOST = 4096  # iterations above which it is cut into parts, which may be shared
_VECTOR = 16  # elements of the widest vectors
_MOST_TURNS = 8  # vectors that LLVM interleaves
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


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> s_tir.Schedule:
    """Schedule a kernel."""
    sch = without_unit_lines(sch)
    for block in kernel_blocks(sch):
        if is_reduction(sch, block):
            _share_outer_loops(sch, block, decisions.parallel_size)
        else:
            schedule_spatial(sch, block, decisions.parallel_size)
    return sch


def schedule_spatial(sch: s_tir.Schedule, block: Block, parallel_size: int = PARALLEL_SIZE) -> None:
    """Share the outer loops of a block that does not reduce among cores; LLVM vectorises the innermost one itself."""
    together, part = _together(sch, block)
    if together > 1:
        line = sch.fuse(*sch.get_loops(block)[-together:])
        if part is not None:
            sch.split(line, [None, part], disable_predication=True)
    loops = sch.get_loops(block)
    if len(loops) > 1:
        mark_short_line(sch, block, loops[-1])
    if len(loops) > 1 and static_size(sch, loops) >= parallel_size:
        share_among_cores(sch, _shared(sch, loops))
    if len(loops) > 1:
        _interleave(sch, block, loops[-1])
        mark_line_parts(sch, block, sch.get_loops(block)[-1])


def _interleave(sch: s_tir.Schedule, block: Block, line: Loop) -> None:
    """Write a line that is read in turn from a few places, as a shuffle of channels is, in turns.

    LLVM makes vectors along each of them then, and shuffles these; else it gathers element by element.
    """
    node, size = sch.get(block), extent(sch, line)
    last = node.iter_vars[-1].var
    turns: list[tirx.Expr] = []

    def note(number: tirx.FloorMod | tirx.FloorDiv) -> None:
        if uses(number, last):
            turns.append(number.b if number.a.same_as(last) else number)

    tvm_ffi.structural_walk(node.body, [(tirx.FloorMod, note), (tirx.FloorDiv, note)])
    counts = {known(turn) for turn in turns}
    count = counts.pop() if len(counts) == 1 else None
    if count and size and 2 <= count <= _MOST_TURNS and size % count == 0 and size >= count * _VECTOR:
        _, turn = sch.split(line, [None, count], disable_predication=True)
        sch.unroll(turn)


def _together(sch: s_tir.Schedule, block: Block) -> tuple[int, int | None]:
    """Return how many of the innermost loops to make one of, so that it is long, and of what parts, if any.

    They go along all that they index. A loop over rows of 7, or of 56, would compute their ends one by one.
    """
    node, loops = sch.get(block), sch.get_loops(block)
    store, sizes = node.body, [extent(sch, loop) for loop in loops]
    if not isinstance(store, tirx.BufferStore) or len(loops) != len(node.iter_vars) or not loops:
        return 1, None
    count, size, part = 1, sizes[-1], None
    while size and size < _ENOUGH and count < len(loops):  # a loop without a step stays, for others would divide by it
        step, variables = sizes[-count - 1], [v.var for v in node.iter_vars]
        if not step or not _is_along(store, variables, sizes, count + 1):
            break
        part = None if step * size <= _MOST else _part(step, size, count)
        if step * size > _MOST and part is None:
            break
        count, size = count + 1, step * size
    return count, part


def _part(step: int, size: int, count: int) -> int | None:
    """Return the largest number of whole vectors that divides a loop over lines of a size and is not too many.

    Whole lines go first: which places of three axes another part goes over, TVM no longer sees to be in a row.
    """
    parts = [part for part in range(_MOST, _ENOUGH - 1, -_VECTOR) if step * size % part == 0]
    of_lines = [part for part in parts if part % size == 0]
    return next(iter(of_lines or (parts if count == 1 else [])), None)


def _is_along(store: tirx.BufferStore, variables: list[tirx.Var], sizes: list[int | None], count: int) -> bool:
    """Say whether the last loops of a store go along all memory that depends on them, and nothing else does."""
    inner, extents = variables[-count:], sizes[-count:]

    def is_along(buffer: tirx.Buffer, indices: Sequence[tirx.Expr]) -> bool:
        rest = list(indices)
        far, near = rest[:-count], rest[-count:]
        shape = [known(size) for size in list(buffer.ty.shape)[-count:]]
        is_whole = (
            len(near) == count and shape == extents and all(i.same_as(v) for i, v in zip(near, inner, strict=True))
        )
        return not any(uses(index, v) for index in (far if is_whole else rest) for v in inner)

    def without(load: TensorLoad) -> tirx.Expr:
        return tirx.const(0, str(load.ty.dtype)) if is_along(load.source, load.indices) else load

    if not is_along(store.buffer, store.indices):
        return False
    value = tvm_ffi.structural_map(store.value, (TensorLoad, without))
    return not any(uses(value, v) for v in inner)


def _shared(sch: s_tir.Schedule, loops: list[Loop]) -> list[Loop]:
    """Return the outer loops to make one of: all but the innermost, or enough of them to be shared evenly.

    Which place is meant in several loops that were made one takes divisions, and LLVM makes vectors along several loops
    only where they are still there. An axis of unknown size, if not the first, is taken for a long one.
    """
    count = 1
    for at, loop in enumerate(loops[:-1], start=1):
        count *= extent(sch, loop) or (_SHARED if at > 1 else 1)
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
        share_among_cores(sch, outer[:-1])
    steps = loops[len(outer) :]
    if any(not extent(sch, loop) for loop in steps):
        # The start value is written by the first step, so a reduction that may have no step writes it beforehand.
        sch.decompose_reduction(block, steps[0])


RULE = Rule("elementwise", Decisions, decide, candidates, apply)
