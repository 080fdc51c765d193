"""The rule for reductions to one value: the sum, the mean or an extreme of all elements.

There is no output to share among cores or to go along in vectors, so the elements are reduced to partial results first:
some vectors of them for each position on the first axis, then one for each element of a vector. If there is one axis,
it may be long: many partial results, of as many elements each, are as exact, and are reduced in vectors themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm import s_tir, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.processor import processor_of
from ..blocks import Block, extent, is_reduction, kernel_blocks, partial_results, static_size
from ..expressions import known
from ..rule import Options, Rule, choices
from .elementwise import PARALLEL_SIZE, sharing
from .flattening import flattened_steps
from .rests import stop_at

__all__ = ["RULE", "Decisions"]

_AT_ONCE = 32  # partial results of one axis
_MANY = 512  # and of a long one, which they cut into parts that are about as long
_LONG = 16 * _MANY


@dataclass(frozen=True)
class Decisions:
    """How one value is computed.

    Attributes
    ----------
    sums : int
        How many partial results there are at a time; what they leave of the last axis goes to the first of them.
    parallel : bool
        Whether positions on the first of several axes are shared among cores.
    """

    sums: int
    parallel: bool


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for one reduction of which nothing is left."""
    sch = flattened_steps(sch, keep=1)
    block = _reduction(sch)
    if block is None:
        return None
    sizes = _sums(sch, block, target)
    loops = sch.get_loops(block)
    return Decisions(sizes[0], len(loops) > 1 and static_size(sch, loops) >= PARALLEL_SIZE) if sizes else None


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with one to four vectors of partial results."""
    sch = flattened_steps(sch, keep=1)
    block, default = _reduction(sch), decide(sch, target)
    if block is None or default is None:
        return ()
    loops = sch.get_loops(block)
    shared = sharing(static_size(sch, loops), target) if len(loops) > 1 else [False]
    options: Options = {"sums": _sums(sch, block, target), "parallel": shared}
    return choices(Decisions, default, options)


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> s_tir.Schedule:
    """Schedule a reduction to one value."""
    sch = flattened_steps(sch, keep=1)
    block = _reduction(sch)
    assert block is not None
    width = sch.get(sch.get_loops(block)[-1]).extent
    for each in kernel_blocks(sch):
        if not sch.get_loops(each):
            sch.add_unit_loop(each)  # rfactor takes a block without loops for its own
    # What stands over the end is cut off below.
    _, lane = sch.split(sch.get_loops(block)[-1], [None, decisions.sums], disable_predication=True)
    of_lanes = partial_results(sch, block, lane, 0)
    if len(sch.get_loops(of_lanes)) == 2:
        _reduce_one_axis(sch, block, of_lanes, decisions.sums, width)
        return sch
    first, *_ = sch.get_loops(of_lanes)
    of_rows = partial_results(sch, of_lanes, first, 0)
    row, *steps, lane = sch.get_loops(of_rows)
    sch.vectorize(lane)
    if decisions.parallel:
        sch.parallel(row)
    sch.decompose_reduction(of_rows, steps[0])
    row, lane = sch.get_loops(of_lanes)
    sch.vectorize(lane)
    sch.decompose_reduction(of_lanes, row)
    if (known(width) or 1) % decisions.sums:
        stop_at(sch, steps[-1], decisions.sums, width)
    return sch


def _reduce_one_axis(sch: s_tir.Schedule, block: Block, of_lanes: Block, sums: int, width: tirx.Expr) -> None:
    """Schedule a reduction of one axis: to partial results, these to vectors if they are many, and to one value."""
    if sums > _AT_ONCE:
        _, lane = sch.split(sch.get_loops(block)[0], [None, _AT_ONCE])
        of_vectors = partial_results(sch, block, lane, 0)
        step, lane = sch.get_loops(of_vectors)
        sch.vectorize(lane)
        sch.decompose_reduction(of_vectors, step)
    steps, lane = sch.get_loops(of_lanes)
    if sums > _AT_ONCE:
        _, lane = sch.split(lane, [None, _AT_ONCE])
    sch.vectorize(lane)
    sch.decompose_reduction(of_lanes, steps)
    if (known(width) or 1) % sums:
        stop_at(sch, steps, sums, width, of_vectors=sums > _AT_ONCE)


def _reduction(sch: s_tir.Schedule) -> Block | None:
    """Return the only reduction of a kernel, if it reduces all of its axes."""
    found = [block for block in kernel_blocks(sch) if is_reduction(sch, block)]
    if len(found) != 1:
        return None
    kinds = [v.iter_type for v in sch.get(found[0]).iter_vars]
    is_whole = bool(kinds) and all(kind == tirx.IterVar.CommReduce for kind in kinds)
    return found[0] if is_whole and len(sch.get_loops(found[0])) == len(kinds) else None


def _sums(sch: s_tir.Schedule, block: Block, target: Target) -> list[int]:
    lanes, width = processor_of(target).vectors.lanes, extent(sch, sch.get_loops(block)[-1])
    if len(sch.get_loops(block)) == 1:
        if width is None or width >= _LONG:
            return [_MANY, _AT_ONCE]
        return [_AT_ONCE] if width >= _AT_ONCE else []
    if width is None:
        return [lanes]
    whole = [t * lanes for t in (4, 2, 1) if width % (t * lanes) == 0]
    return whole or [t * lanes for t in (4, 1) if width >= t * t * lanes]


RULE = Rule("full_reduction", Decisions, decide, candidates, apply)
