"""The rule for reductions along contiguous memory: dense layers with the weight's rows as they are, sums of rows.

Each output keeps a vector of partial sums, which are added up at the end; several outputs are computed at once where
the last output axis can be cut.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm import s_tir, tirx
from tvm.ir import Range
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.processor import processor_of
from ..blocks import Loop, SingleReduction, extent, partial_results, share_among_cores, single_reduction, static_size
from ..expressions import known, stride, uses
from ..rule import Options, Rule, choices
from .elementwise import PARALLEL_SIZE, schedule_spatial, sharing
from .flattening import flattened_steps
from .rests import stop_at

__all__ = ["RULE", "Decisions"]

_LANES = (16, 8, 4)
_ROWS = (4, 3, 2, 1)
_LONG = 16  # elements of a row of odd length from which vectors pay
_MANY = 16  # vectors of an output from which a vector of its sums pays in rows that it does not divide
_VERY_MANY, _AT_ONCE = 2048, 32  # elements of an output by itself from which so many of its sums pay


@dataclass(frozen=True)
class Decisions:
    """How outputs are computed.

    Attributes
    ----------
    lanes : int
        How many partial sums an output has; what they leave of a row is added to the first of them.
    outputs : int
        How many outputs along the last axis are computed at once; they divide it.
    parallel : bool
        Whether outputs are shared among cores.
    """

    lanes: int
    outputs: int
    parallel: bool


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for a kernel whose innermost reduction axis is contiguous in every operand."""
    sch = flattened_steps(sch)
    found = single_reduction(sch)
    if found is None:
        return None
    node = sch.get(found.block)
    loops = sch.get_loops(found.block)
    last = node.iter_vars[-1].var
    width = extent(sch, loops[-1])
    if not all(_is_contiguous(list(region.region), last) for region in node.reads):
        return None
    outputs = next(r for r in _ROWS if _outputs(sch, found) % r == 0)
    lanes = _lanes(width, _steps(sch, loops[found.spatial :]), outputs, processor_of(target).vectors.lanes)
    return Decisions(lanes, outputs, static_size(sch, loops) >= PARALLEL_SIZE) if lanes else None


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with a part of a vector to four of them, and one output to as many as registers hold."""
    sch = flattened_steps(sch)
    default, found = decide(sch, target), single_reduction(sch)
    if default is None or found is None:
        return ()
    unit, loops = processor_of(target).vectors, sch.get_loops(found.block)
    width, have = extent(sch, loops[-1]) or 0, _outputs(sch, found)
    options: Options = {
        "lanes": [t for t in (4, 8, 16, 32, 64) if t <= 4 * unit.lanes and width % t == 0 and width >= 2 * t]
        or [default.lanes],
        "outputs": [r for r in (1, 2, 3, 4, 6, 8) if have % r == 0],
        "parallel": sharing(static_size(sch, loops), target),
    }
    most = unit.registers // 2 * unit.lanes  # what the operands need is as much again
    tried = choices(Decisions, default, options)
    return (d for d in tried if d == default or d.outputs * max(d.lanes, unit.lanes) <= most)


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> s_tir.Schedule:
    """Schedule a kernel of outputs that are sums over contiguous memory."""
    sch = flattened_steps(sch)
    found = single_reduction(sch)
    assert found is not None
    width = sch.get(sch.get_loops(found.block)[-1]).extent
    for other in found.others:
        schedule_spatial(sch, other)
    _, lane = sch.split(sch.get_loops(found.block)[-1], [None, decisions.lanes])
    partial = partial_results(sch, found.block, lane, found.spatial)
    sch.set_scope(partial, 0, "local")
    outer = sch.get_loops(found.block)[: found.spatial]
    outer[-1], _ = sch.split(outer[-1], [None, decisions.outputs])
    sch.compute_at(partial, outer[-1], preserve_unit_loops=True)
    if found.after is not None:
        sch.set_scope(found.block, 0, "local")
        sch.reverse_compute_at(found.after, outer[-1], preserve_unit_loops=True)
    inner = sch.get_loops(partial)[len(outer) :]
    kinds = [v.iter_type for v in sch.get(partial).iter_vars]
    reduce_loops = [loop for loop, kind in zip(inner, kinds, strict=True) if kind != tirx.IterVar.DataPar]
    # The axis that rfactor made comes first among the block's own.
    lane, *rows = (loop for loop, kind in zip(inner, kinds, strict=True) if kind == tirx.IterVar.DataPar)
    sch.reorder(*reduce_loops, *rows, lane)
    sch.vectorize(lane)
    sch.unroll(rows[-1])
    if decisions.parallel:
        share_among_cores(sch, outer)
    sch.decompose_reduction(partial, reduce_loops[0])
    if (known(width) or 1) % decisions.lanes:
        stop_at(sch, reduce_loops[-1], decisions.lanes, width)
    return sch


def _lanes(width: int | None, steps: int, outputs: int, vector: int) -> int | None:
    """Return how many partial sums an output of so many steps has; None of a row that is too short for vectors.

    What they leave of a row, and adding them up, costs more than it saves but where there are many steps.
    """
    if width is not None and width >= _LONG and steps >= _MANY * vector:
        return _AT_ONCE if outputs == 1 and steps >= _VERY_MANY and width >= _AT_ONCE else _LANES[0]
    whole = next((t for t in _LANES if width is not None and width % t == 0 and width >= 2 * t), None)
    return whole or (_LANES[0] if width is None or width >= _LONG else None)


def _steps(sch: s_tir.Schedule, loops: list[Loop]) -> int:
    """Return the steps of a reduction; many where its outer axes may have any number of them."""
    return static_size(sch, loops) if all(extent(sch, loop) for loop in loops[:-1]) else _VERY_MANY


def _outputs(sch: s_tir.Schedule, found: SingleReduction) -> int:
    """Return the size of the last output axis, 1 where it is not known."""
    return extent(sch, sch.get_loops(found.block)[found.spatial - 1]) or 1


def _is_contiguous(region: list[Range], var: tirx.Var) -> bool:
    """Say whether a read walks consecutive elements as a variable grows; a read of nothing that depends on it does."""
    *outer, last = [r.min for r in region] or [0]
    if any(uses(index, var) for index in outer):
        return False
    return not uses(last, var) or stride(last, var) == 1


RULE = Rule("dot", Decisions, decide, candidates, apply)
