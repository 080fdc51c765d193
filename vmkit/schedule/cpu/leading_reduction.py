"""The rule for reductions over axes before the last: sums of rows, of images, of channels that come before pixels.

Tiles of results in registers would read a little of each line and skip to the next. Here a line, or a part of one that
stays in the nearest cache, is read from its beginning to its end and added to results in memory, a few lines at a time.

The error of a sum of numbers of one sign grows with how many there are, and all of it is left in a difference to their
mean: long sums are sums of shorter ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from tvm import s_tir, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.processor import processor_of
from ..blocks import (
    Block,
    Loop,
    SingleReduction,
    extent,
    keep_on_stack,
    partial_results,
    share_among_cores,
    single_reduction,
    static_size,
)
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
_LONG, _SUMMED = 1024, 64
"""Sums of more lines than the first, and of any number of them, are made of sums of so many."""
_SEVERAL = 16  # sums over one axis of which another one's are made


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
    sums = _sums(sch, found, [*steps, step])
    part, result = sch.split(sch.fuse(*line) if len(line) > 1 else line[0], [None, decisions.part])
    if sums is None:
        step, at_once = sch.split(step, [None, decisions.lines])
        sch.reorder(*outer, part, *steps, step, result, at_once)
        sch.unroll(at_once)
        first = (steps or [step])[0]
    else:
        first = sch.get_loops(found.block)[-1]
        sch.reorder(*outer, part, first, result)
        sch.compute_at(sums.block, first)
    if decisions.parallel:
        share_among_cores(sch, [*outer, part])
    if sums is not None:
        _schedule_sums(sch, sums, first, decisions.lines)
    sch.decompose_reduction(found.block, first)


@dataclass(frozen=True)
class _Sums:
    """The sums of which a long one is made.

    Attributes
    ----------
    block : Block
        What computes them.
    end : tirx.Expr or None
        Where the axis ends of which each sum has so many lines; None where each is over all of another axis.
    """

    block: Block
    end: tirx.Expr | None


def _sums(sch: s_tir.Schedule, found: SingleReduction, steps: list[Loop]) -> _Sums | None:
    """Cut a long sum into shorter ones: of so many lines, or of the lines of its innermost axis."""
    node, sizes = sch.get(found.block), [extent(sch, loop) for loop in steps]
    is_short = prod(_LONG + 1 if size is None else size for size in sizes) <= _LONG
    is_float = str(node.writes[0].source.ty.dtype).startswith("float")
    if is_short or not is_float or not isinstance(getattr(node.body, "value", None), tirx.Add):
        return None
    *others, step = [loop for loop, size in zip(steps, sizes, strict=True) if size != 1]
    if others and (extent(sch, others[-1]) or _SEVERAL) >= _SEVERAL:
        return _Sums(partial_results(sch, found.block, others[-1], 0), None)
    end = sch.get(step).extent
    several, _ = sch.split(step, [None, _SUMMED])
    return _Sums(partial_results(sch, found.block, several, 0), end)


def _schedule_sums(sch: s_tir.Schedule, sums: _Sums, several: Loop, lines: int) -> None:
    """Order the loops of shorter sums, each of which is in its place: line by line, a few at once."""
    node = sch.get(sums.block)
    count = sum(v.iter_type == tirx.IterVar.CommReduce for v in node.iter_vars)
    own = sch.get_loops(sums.block)
    depth = next(at for at, loop in enumerate(own) if sch.get(loop).same_as(sch.get(several))) + 1
    results, *steps = own[depth:-count], *sorted(own[-count:], key=lambda loop: extent(sch, loop) != 1)
    step, at_once = sch.split(steps.pop(), [None, lines])
    sch.reorder(*steps, step, *results, at_once)
    sch.unroll(at_once)
    keep_on_stack(sch, sums.block, results)
    sch.decompose_reduction(sums.block, (steps or [step])[0])
    if sums.end is not None:
        _end_at(sch, step, sch.get(several).loop_var, sums.end, lines)


def _end_at(sch: s_tir.Schedule, step: Loop, several: tirx.Var, end: tirx.Expr, lines: int) -> None:
    """Let the last of some sums end where the axis does: moving one to its place loses the condition on it."""
    node = sch.get(step)
    left = tirx.floordiv(end - several * _SUMMED, lines)
    size = tirx.min(tirx.IntImm(str(node.loop_var.ty.dtype), _SUMMED // lines), left)
    made = tirx.For(node.loop_var, node.min, size, node.kind, node.body, annotations=node.annotations)
    sch.state.replace(sch.get_sref(step), made, {})


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
