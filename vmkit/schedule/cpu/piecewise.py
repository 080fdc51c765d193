"""The rule for maps that read one thing or another by where they write: concatenations, interleaved sub-pixels.

What is read changes at places of the last axis, as in a concatenation, or from one position of another axis to the next
and back again. Vectors end where it changes, and steps from position to position are written out, so that every test
has one outcome for a whole vector, known when compiling or once for all of it. LLVM sees neither by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.processor import processor_of
from ..blocks import Loop, extent, is_reduction, kernel_blocks, share_among_cores, static_size
from ..expressions import stride, uses
from ..rule import Options, Rule, choices
from .elementwise import PARALLEL_SIZE, sharing

__all__ = ["RULE", "Decisions"]

_WRITTEN_OUT = 64  # vectors that are written out at most


@dataclass(frozen=True)
class Decisions:
    """How a piecewise map is computed.

    Attributes
    ----------
    lanes : int
        How many elements of the last axis go together; nothing changes within them.
    written_out : bool
        Whether all vectors of a position are written out.
    parallel : bool
        Whether positions are shared among cores.
    """

    lanes: int
    written_out: bool
    parallel: bool


@dataclass(frozen=True)
class _Kernel:
    loops: list[Loop]
    steps: dict[int, int]  # by loop, where they divide it: after how many positions what is read is the same again
    whole: int  # what divides every stretch of one outcome


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for a map that changes after a whole vector, or a good part of one."""
    kernel = _kernel(sch)
    if kernel is None:
        return None
    lanes = next((t for t in processor_of(target).vectors.parts() if kernel.whole % t == 0), None)
    if lanes is None:
        return None
    return Decisions(lanes, _is_short(sch, kernel, lanes), static_size(sch, kernel.loops) >= PARALLEL_SIZE)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with vectors of several widths."""
    kernel, default = _kernel(sch), decide(sch, target)
    if kernel is None or default is None:
        return ()
    options: Options = {
        "lanes": [t for t in processor_of(target).vectors.parts() if kernel.whole % t == 0],
        "written_out": [True, False],
        "parallel": sharing(static_size(sch, kernel.loops), target),
    }
    found = choices(Decisions, default, options)
    return (d for d in found if not d.written_out or _is_short(sch, kernel, d.lanes))


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a piecewise map."""
    kernel = _kernel(sch)
    assert kernel is not None
    outer, steps = [], []
    for at, loop in enumerate(kernel.loops[:-1]):
        if at in kernel.steps:
            loop, step = sch.split(loop, [None, kernel.steps[at]], disable_predication=True)
            steps.append(step)
        outer.append(loop)
    vector, lane = sch.split(kernel.loops[-1], [None, decisions.lanes])
    sch.reorder(*outer, *steps, vector, lane)
    for loop in steps:
        sch.unroll(loop)
    if decisions.written_out:
        sch.unroll(vector)
    sch.vectorize(lane)
    if decisions.parallel:
        shared = outer[:-1] if len(outer) > 2 else outer
        share_among_cores(sch, shared)


def _is_short(sch: s_tir.Schedule, kernel: _Kernel, lanes: int) -> bool:
    count = (extent(sch, kernel.loops[-1]) or 0) // lanes
    for step in kernel.steps.values():
        count *= step
    return count <= _WRITTEN_OUT


def _kernel(sch: s_tir.Schedule) -> _Kernel | None:
    blocks = kernel_blocks(sch)
    if len(blocks) != 1 or is_reduction(sch, blocks[0]):
        return None
    node, loops = sch.get(blocks[0]), sch.get_loops(blocks[0])
    if len(loops) != len(node.iter_vars) or len(loops) < 2 or not extent(sch, loops[-1]):
        return None
    *others, last = [v.var for v in node.iter_vars]
    if not all(_goes_along(region, last) for region in (*node.reads, *node.writes)):
        return None
    ends = _ends(node.body, last)
    if ends is None:
        return None
    found = {at: step for at, step in enumerate(_step(node.body, var) for var in others) if step > 1}
    if not ends and not found:
        return None
    steps = {at: step for at, step in found.items() if _divides(step, sch.get(loops[at]).extent)}
    return _Kernel(list(loops), steps, gcd(extent(sch, loops[-1]) or 0, *ends))


def _divides(step: int, size: tirx.Expr) -> bool:
    return bool(Analyzer().can_prove_equal(tirx.floormod(size, step), 0))


def _goes_along(region: tirx.BufferRegion, last: tirx.Var) -> bool:
    """Say whether elements next to each other in the output are so in an operand, or are the same one."""
    *far, index = [r.min for r in region.region] or [0]
    if any(isinstance(each, tvm.ir.Expr) and uses(each, last) for each in far):
        return False
    return not (isinstance(index, tvm.ir.Expr) and uses(index, last)) or stride(index, last) == 1


def _ends(body: tirx.Stmt, last: tirx.Var) -> list[int] | None:
    """Return where tests have another outcome along the last axis; None where that is not known."""
    ends: list[int | None] = []

    def note(test: tirx.Expr) -> None:
        sides = [side for side in (test.a, test.b) if uses(side, last)]
        if sides:
            ends.append(_end(test, last))

    kinds = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)
    tvm_ffi.structural_walk(body, tuple((kind, note) for kind in kinds))
    return None if any(end is None for end in ends) else [end for end in ends if end is not None]


def _end(test: tirx.Expr, last: tirx.Var) -> int | None:
    """Return where a test of the last axis against a number changes its outcome."""
    if isinstance(test, tirx.EQ | tirx.NE):
        return None
    difference = Analyzer().simplify(test.a - test.b)
    step = stride(difference, last)
    if step not in (1, -1):
        return None
    rest = Analyzer().simplify(last * step - difference)
    if not isinstance(rest, tirx.IntImm):
        return None
    end = int(rest) * step
    # a < b and a >= b change where they are equal, the others one further on.
    return end if isinstance(test, tirx.LT | tirx.GE) == (step == 1) else end + 1


def _step(body: tirx.Stmt, var: tirx.Var) -> int:
    """Return the divisor of the remainders that are taken of an axis; 1 where there are none, or several."""
    found = set()

    def note(node: tirx.FloorMod) -> None:
        if uses(node.a, var) and stride(node.a, var) == 1 and isinstance(node.b, tirx.IntImm):
            found.add(int(node.b))

    tvm_ffi.structural_walk(body, (tirx.FloorMod, note))
    return found.pop() if len(found) == 1 else 1


RULE = Rule("piecewise", Decisions, decide, candidates, apply)
