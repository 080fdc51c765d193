"""The rule for reductions over axes before the last: sums of rows, of images, of channels that come before pixels.

Tiles of results in registers would read a little of each line and skip to the next. Here a line, or a part of one that
stays in the nearest cache, is read from its beginning to its end and added to results in memory, a few lines at a time.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm import s_tir, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.processor import processor_of
from ..blocks import Loop, SingleReduction, extent, single_reduction, static_size
from ..expressions import known, uses
from ..rule import Options, Rule, choices
from .elementwise import PARALLEL_SIZE, schedule_spatial, sharing

__all__ = ["RULE", "Decisions"]

_LEAST, _MOST = 32, 2048
"""Results of a part: enough to hide the latency of additions, few enough for the nearest cache."""
_VECTOR = 16
_UNROLLED, _FEW = 512, 256
"""LLVM unrolls up to so many additions of vectors, which takes it a third of a second, and no longer if there are more:
a part of few results is as fast, and done in a sixth of that."""
_LINES = (4, 2, 1)  # how many lines are added at once, the best first


@dataclass(frozen=True)
class Decisions:
    """How lines are reduced.

    Attributes
    ----------
    part : int
        How many results there are at a time; they divide a line.
    lines : int
        How many lines are read at once; they divide the innermost axis of the reduction.
    parallel : bool
        Whether parts are shared among cores.
    """

    part: int
    lines: int
    parallel: bool


@dataclass(frozen=True)
class _Kernel:
    found: SingleReduction
    axes: int  # of the output that make a line, the last ones
    size: int  # elements of a line
    steps: int | None  # of the innermost axis of the reduction


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for a reduction whose results lie as what it reads does."""
    kernel = _kernel(sch)
    if kernel is None or not (parts := _parts(kernel.size)):
        return None
    size = static_size(sch, sch.get_loops(kernel.found.block))
    lanes, steps = processor_of(target).vectors.lanes, kernel.steps or _UNROLLED
    part = next((p for p in parts if p <= _FEW or p // lanes * steps > _UNROLLED), parts[0])
    return Decisions(part, _lines(kernel)[0], size >= PARALLEL_SIZE)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with parts of several sizes, and one to four lines at once."""
    kernel, default = _kernel(sch), decide(sch, target)
    if kernel is None or default is None:
        return ()
    size = static_size(sch, sch.get_loops(kernel.found.block))
    options: Options = {
        "part": _parts(kernel.size),
        "lines": _lines(kernel),
        "parallel": sharing(size, target),
    }
    return choices(Decisions, default, options)


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a reduction of lines."""
    kernel = _kernel(sch)
    assert kernel is not None
    found = kernel.found
    if found.after is not None:
        schedule_spatial(sch, found.after)
    loops = sch.get_loops(found.block)
    outer, line = loops[: found.spatial - kernel.axes], loops[found.spatial - kernel.axes : found.spatial]
    *steps, step = loops[found.spatial :]
    part, result = sch.split(sch.fuse(*line) if len(line) > 1 else line[0], [None, decisions.part])
    step, at_once = sch.split(step, [None, decisions.lines])
    sch.reorder(*outer, part, *steps, step, result, at_once)
    sch.unroll(at_once)
    if decisions.parallel:
        sch.parallel(sch.fuse(*outer, part))
    sch.decompose_reduction(found.block, (steps or [step])[0])


def _kernel(sch: s_tir.Schedule) -> _Kernel | None:
    found = single_reduction(sch)
    if found is None or found.others:
        return None
    node, loops = sch.get(found.block), sch.get_loops(found.block)
    if len(node.writes) != 1 or not node.reads:
        return None
    results = [v.var for v in node.iter_vars][: found.spatial]
    own, steps = node.iter_vars[: found.spatial], node.iter_vars[found.spatial :]
    if _are_windows(node.reads, *([v.var for v in each if known(v.dom.extent) != 1] for each in (own, steps))):
        return None
    axes, size = 0, 1
    while axes < found.spatial:
        step, whole = extent(sch, loops[found.spatial - axes - 1]), results[found.spatial - axes - 1 :]
        if step is None or not all(_ends_in(r, whole) for r in (*node.reads, *node.writes)):
            break
        if axes and not all(_has_last(r, sch, loops[found.spatial - axes : found.spatial]) for r in node.reads):
            break
        axes, size = axes + 1, size * step
    return _Kernel(found, axes, size, extent(sch, loops[-1])) if axes else None


def _are_windows(reads: Iterable[tirx.BufferRegion], results: list[tirx.Var], steps: list[tirx.Var]) -> bool:
    """Say whether lines are read around the places of their results, as pools do.

    Those have few steps, and a tile of results in registers loads once what their windows have in common.
    """
    indices = [region.min for read in reads for region in read.region]
    return any(any(uses(at, var) for var in results) and any(uses(at, var) for var in steps) for at in indices)


def _ends_in(region: tirx.BufferRegion, variables: list[tirx.Var]) -> bool:
    """Say whether the last indices of an operand are these variables, and go along all of it."""
    last = list(region.region)[-len(variables) :]
    return len(last) == len(variables) and all(
        index.min.same_as(var) for index, var in zip(last, variables, strict=True)
    )


def _has_last(region: tirx.BufferRegion, sch: s_tir.Schedule, loops: list[Loop]) -> bool:
    """Say whether loops go to the ends of an operand's last axes, which are one line then."""
    sizes = list(region.source.ty.shape)[-len(loops) :]
    return all(known(size) == extent(sch, loop) for size, loop in zip(sizes, loops, strict=True))


def _parts(size: int) -> list[int]:
    """Return the sizes of parts that divide a line, the largest first."""
    if size < _LEAST:
        return []
    whole = [size] if size <= _MOST else []
    return whole + [p for p in range(_MOST, _LEAST - 1, -_VECTOR) if size % p == 0 and p != size]


def _lines(kernel: _Kernel) -> list[int]:
    return [lines for lines in _LINES if kernel.steps is not None and kernel.steps % lines == 0] or [1]


RULE = Rule("leading_reduction", Decisions, decide, candidates, apply)
