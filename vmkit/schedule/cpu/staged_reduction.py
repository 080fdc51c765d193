"""Kernels of several stages, all of which are over the same axes or what one of the stages leaves of them.

Softmax and normalisation are such: a maximum, a sum or a mean over some axes, and elements that read it at their own
place. Stages that read each other's results at other places have to be whole before the next begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from ..._dataclasses import dataclass
from ..blocks import Block, extent, is_reduction, kernel_blocks
from ..expressions import is_one, known, loads_in

__all__ = ["StagedReduction", "staged_reduction"]

_Axes = Mapping[int, tirx.IterVar]  # the axes of the last stage that another is over, in the order of its buffers' axes


@dataclass(frozen=True)
class StagedReduction:
    """A kernel whose stages go together.

    Attributes
    ----------
    blocks : list of Block
        The stages; the last one has a loop for each axis.
    reduced : tuple of int
        The axes that reductions reduce, rising.
    rank : int
        How many axes there are.
    width : int or None
        The size of the last axis; None where that is known at run time only.
    """

    blocks: list[Block]
    reduced: tuple[int, ...]
    rank: int
    width: int | None


def staged_reduction(sch: s_tir.Schedule) -> StagedReduction | None:
    """Return the structure of a kernel, if its stages go together and the last one reduces nothing."""
    blocks = kernel_blocks(sch)
    reductions = [block for block in blocks if is_reduction(sch, block)]
    if not reductions or is_reduction(sch, blocks[-1]):
        return None
    nodes = [sch.get(block) for block in blocks]
    if any(len(sch.get_loops(block)) != len(node.iter_vars) for block, node in zip(blocks, nodes, strict=True)):
        return None
    rank, steps = len(nodes[-1].iter_vars), len(list(_steps(sch.get(reductions[0]))))
    if not 0 < steps < rank:
        return None
    # The last axes first, as nearly all kernels have it.
    for reduced in sorted(combinations(range(rank), steps), reverse=True):
        if _go_together(nodes, reduced):
            return StagedReduction(blocks, reduced, rank, extent(sch, sch.get_loops(blocks[-1])[-1]))
    return None


def _steps(node: s_tir.SBlock) -> Iterator[tirx.IterVar]:
    return (v for v in node.iter_vars if v.iter_type == tirx.IterVar.CommReduce)


def _go_together(nodes: list[s_tir.SBlock], reduced: tuple[int, ...]) -> bool:
    """Say whether each stage is over all axes, or those that are kept, and reads others at its own place."""
    whole, made = list(nodes[-1].iter_vars), []
    for node in nodes:
        axes = _axes(node, reduced, len(whole))
        if axes is None or not all(_are_equal(v.dom.extent, whole[axis].dom.extent) for axis, v in axes.items()):
            return False
        kept = {axis: v for axis, v in axes.items() if v.iter_type == tirx.IterVar.DataPar}
        made += [(region.source, kept) for region in node.writes]
        if not all(
            _is_at(load.indices, axes, of) for load in loads_in(node.body) for s, of in made if load.source.same_as(s)
        ):
            return False
    return True


def _axes(node: s_tir.SBlock, reduced: tuple[int, ...], rank: int) -> _Axes | None:
    """Return the axes that a stage is over; None where its form is another."""
    steps = list(_steps(node))
    kept = [axis for axis in range(rank) if axis not in reduced]
    order = [*kept, *reduced] if steps else range(rank) if len(node.iter_vars) == rank else kept
    is_plain = len(order) == len(node.iter_vars) and (not steps or len(steps) == len(reduced))
    if not is_plain or any(v.iter_type == tirx.IterVar.CommReduce for v in node.iter_vars[: len(order) - len(steps)]):
        return None
    return dict(zip(order, node.iter_vars, strict=True))


def _is_at(indices: Iterable[tirx.Expr], axes: _Axes, of: _Axes) -> bool:
    """Say whether a stage over some axes reads a result that is over others at its own place."""
    if not set(of) <= set(axes):
        return False
    places = [axes[axis] for axis in of]
    return all(
        index.same_as(v.var) or (known(index) == 0 and is_one(v.dom.extent))
        for index, v in zip(indices, places, strict=True)
    )


def _are_equal(one: tirx.Expr, other: tirx.Expr) -> bool:
    return tvm_ffi.structural_equal(one, other) or Analyzer().can_prove_equal(one, other)
