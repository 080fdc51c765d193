"""The rule for tensors concatenated along their last axes: loops are split where one ends and the next begins.

A line whose elements each test which tensor they are from is copied element by element, where the target has no masked
loads. Its loop split into ones of constant bounds has no tests, and each of them copies by vectors. Short lines within
the axis, as images of 7x7 within channels, are one line with it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ..._tvm.nodes import is_choice
from ..blocks import Block, extent, is_reduction, kernel_blocks, share_among_cores, static_size, unmarked
from ..expressions import replaced
from ..rule import Rule, choices
from .boundary_peeling import copied
from .elementwise import PARALLEL_SIZE, sharing

__all__ = ["RULE", "Decisions", "with_split_loops"]

_KEY = "vmkit.split"
_SHORTEST, _LONGEST = 4, 64  # elements of a part that are one vector, which LLVM cuts into those of the target
_SHORT = 64  # elements of a line that LLVM makes no vectors of, or too few
_MOST = 32  # split loops that are worth a copy of the code each


@dataclass(frozen=True)
class Decisions:
    """How concatenated lines are copied.

    Attributes
    ----------
    parallel : bool
        Whether lines are shared among cores.
    """

    parallel: bool


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for one block whose elements choose by their place on the last axis."""
    blocks = kernel_blocks(sch)
    if len(blocks) != 1 or is_reduction(sch, blocks[0]):
        return None
    loops = sch.get_loops(blocks[0])
    if len(loops) != len(sch.get(blocks[0]).iter_vars) or len(loops) < 2 or extent(sch, loops[-1]) is None:
        return None
    node = sch.get(blocks[0])
    is_cut = _axis(sch, blocks[0]) is not None and not _has_remainders(node)
    return Decisions(static_size(sch, loops) >= PARALLEL_SIZE) if is_cut else None


def _axis(sch: s_tir.Schedule, block: Block) -> int | None:
    """Return the axis that is cut: the last one, or one with short lines within it; None where there is no such one."""
    node, loops = sch.get(block), sch.get_loops(block)
    inner = 1
    for axis in reversed(range(1, len(loops))):
        size = extent(sch, loops[axis])
        cuts = _cuts(node, axis)
        if size is None or len(cuts) >= _MOST:
            return None
        if cuts:
            return axis
        inner *= size
        if not 0 < inner < _SHORT:
            return None
    return None


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return the default decisions, and others about cores where these are unsure."""
    default = decide(sch, target)
    if default is None:
        return ()
    (block,) = kernel_blocks(sch)
    return choices(Decisions, default, {"parallel": sharing(static_size(sch, sch.get_loops(block)), target)})


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a kernel of concatenated lines; :func:`with_split_loops` splits them."""
    (block,) = kernel_blocks(sch)
    axis, loops = _axis(sch, block), sch.get_loops(block)
    assert axis is not None
    outer, (first, *within) = loops[:axis], loops[axis:]
    size = static_size(sch, within)
    if decisions.parallel:
        share_among_cores(sch, outer)
    sch.annotate(sch.fuse(first, *within) if within else first, _KEY, [axis, size])


def with_split_loops(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled kernel in which marked loops are split where tests of their places change."""

    def split(loop: tirx.For) -> tirx.Stmt:
        if _KEY not in loop.annotations:
            return loop
        axis, size = (int(number) for number in loop.annotations[_KEY])
        cuts = [c * size for c in _cuts(loop.body.block, axis) if 0 < c * size < int(loop.extent)]
        bounds = [0, *cuts, int(loop.extent)]
        parts = [_part(loop, axis, first, end) for first, end in itertools.pairwise(bounds)]
        # A line that is concatenated with an empty one is split at its end, which leaves one part.
        return tirx.SeqStmt(parts) if len(parts) > 1 else parts[0]

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, split)))


def _part(loop: tirx.For, axis: int, first: int, end: int) -> tirx.For:
    """Return a part of a loop, in which tests of its places on an axis against constants are decided."""
    dtype, cut = str(loop.loop_var.ty.dtype), loop.body.block.iter_vars[axis].var
    size = int(loop.annotations[_KEY][1])
    var = tirx.Var(loop.loop_var.name, dtype)

    def decided(call: tvm.ir.Call) -> tirx.Expr:
        at = _cut(call, cut)
        return call if at is None else call.args[1 if at * size <= first else 2]

    place = tirx.IntImm(dtype, first) + var
    body = tvm_ffi.structural_map(loop.body, (tvm.ir.Call, decided))
    body = replaced(body, {loop.loop_var: place})
    annotations = unmarked(loop, _KEY)
    count = tirx.IntImm(dtype, end - first)
    # LLVM unrolls a loop of so few iterations before it makes vectors, and does not always find them then.
    kind = tirx.ForKind.VECTORIZED if _SHORTEST <= end - first <= _LONGEST else loop.kind
    return tirx.For(var, tirx.IntImm(dtype, 0), count, kind, copied(body), loop.thread_binding, annotations)


def _cuts(block: s_tir.SBlock, axis: int) -> list[int]:
    """Return the places on an axis from which elements choose something else, in rising order."""
    found: set[int] = set()

    def note(call: tvm.ir.Call) -> None:
        at = _cut(call, block.iter_vars[axis].var)
        if at is not None:
            found.add(at)

    tvm_ffi.structural_walk(block.body, (tvm.ir.Call, note))
    return sorted(found)


def _has_remainders(block: s_tir.SBlock) -> bool:
    """Say whether what is read comes round again from position to position, which the rule ``piecewise`` knows."""
    found: list[tirx.FloorMod] = []
    tvm_ffi.structural_walk(block.body, (tirx.FloorMod, found.append))
    return bool(found)


def _cut(call: tvm.ir.Call, var: tirx.Var) -> int | None:
    """Return the place on an axis from which a call chooses its first value; None of another call."""
    if not is_choice(call):
        return None
    test = call.args[0]
    is_cut = isinstance(test, tirx.LE) and test.b.same_as(var) and isinstance(test.a, tirx.IntImm)
    return int(test.a) if is_cut else None


RULE = Rule("concatenation", Decisions, decide, candidates, apply)
