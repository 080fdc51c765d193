"""The rule for kernels whose threads each compute elements of their own: maps, and sums over windows of a few.

A thread of a map has several elements that are next to each other in memory wherever every operand has them so: it
reads and writes them at once, as for channels of images whose channels are last.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from tvm import s_tir, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.gpu import gpu_of
from ..blocks import Block, Loop, extent, is_reduction, kernel_blocks, static_size
from ..expressions import is_one, loads_in, uses
from ..rule import Rule, choices
from .vectors import is_conditional, neighbours

__all__ = ["RULE", "Decisions"]

# Sums over more steps are work for several threads.
_SHORT = 32
_THREADS = 256
# With that many elements there are enough threads even if each has several.
_MANY = 65_536
_VECTORS = ("float32", "float16")


@dataclass(frozen=True)
class Decisions:
    """How elements are shared among threads.

    Attributes
    ----------
    threads : int
        How many a block has.
    lanes : int
        How many elements, next to each other, a thread has.
    """

    threads: int
    lanes: int


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for a kernel of maps and short sums."""
    blocks = kernel_blocks(sch)
    if not blocks or not all(_is_for_one_thread(sch, block) for block in blocks):
        return None
    elements = max(static_size(sch, _spatial(sch, block)) for block in blocks)
    is_open = any(extent(sch, loop) is None for block in blocks for loop in _spatial(sch, block))
    lanes = _lanes(sch, target)
    while lanes > 1 and not is_open and elements // lanes < _MANY:
        lanes //= 2
    most = min(_THREADS, gpu_of(target).threads)
    whole = [each for each in (256, 128, 64, 32) if each <= most and elements % (each * lanes) == 0]
    return Decisions(most if is_open or not whole else whole[0], lanes)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with as many elements of a thread as lie together in memory at most."""
    default, most = decide(sch, target), _lanes(sch, target)
    if default is None:
        return ()
    threads = [each for each in (32, 64, 128, 256, 512) if each <= gpu_of(target).threads]
    return choices(Decisions, default, {"threads": threads, "lanes": [w for w in (1, 2, 4, 8) if w <= most]})


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a kernel of maps and short sums."""
    for block in kernel_blocks(sch):
        _launch(sch, block, replace(decisions, lanes=1) if _steps(sch, block) else decisions)


def _is_for_one_thread(sch: s_tir.Schedule, block: Block) -> bool:
    kinds = {v.iter_type for v in sch.get(block).iter_vars}
    if not kinds <= {tirx.IterVar.DataPar, tirx.IterVar.CommReduce}:
        return False
    if not isinstance(sch.get(block).body, tirx.BufferStore) or len(sch.get_loops(block)) != len(
        sch.get(block).iter_vars
    ):
        return False
    if not is_reduction(sch, block):
        return True
    sizes = [extent(sch, loop) for loop in _steps(sch, block)]
    return None not in sizes and math.prod(size for size in sizes if size is not None) <= _SHORT


def _of_kind(sch: s_tir.Schedule, block: Block, kind: int) -> list[Loop]:
    variables = sch.get(block).iter_vars
    return [loop for loop, v in zip(sch.get_loops(block), variables, strict=True) if v.iter_type == kind]


def _spatial(sch: s_tir.Schedule, block: Block) -> list[Loop]:
    return _of_kind(sch, block, tirx.IterVar.DataPar)


def _steps(sch: s_tir.Schedule, block: Block) -> list[Loop]:
    return _of_kind(sch, block, tirx.IterVar.CommReduce)


def _lanes(sch: s_tir.Schedule, target: Target) -> int:
    """Return how many elements lie together for all blocks of a kernel."""
    most = gpu_of(target).vector // 4
    return min(most, *(_width(sch, block) for block in kernel_blocks(sch))) if most > 1 else 1


def _width(sch: s_tir.Schedule, block: Block) -> int:
    """Return how many elements of a block's result lie together, as do those that they are computed from."""
    node = sch.get(block)
    spatial = [v for v in node.iter_vars if v.iter_type == tirx.IterVar.DataPar]
    inner = next((v for v in reversed(spatial) if not is_one(v.dom.extent)), None)
    if inner is None or not isinstance(inner.dom.extent, tirx.IntImm):
        return 1
    variable, size = inner.var, inner.dom.extent
    if is_conditional(node.body, variable):
        return 1
    store = node.body
    accesses = [(store.buffer, list(store.indices)), *((each.source, list(each.indices)) for each in loads_in(store))]
    widths = []
    for buffer, indices in accesses:
        shape, dtype = list(buffer.ty.shape), str(buffer.ty.dtype)
        if dtype not in _VECTORS:
            return 1
        is_used = any(uses(index, variable) for index in indices)
        if is_used or buffer.same_as(store.buffer):
            widths.append(max(1, neighbours(shape, indices, dtype, variable, size)))
    return min(widths)


def _launch(sch: s_tir.Schedule, block: Block, decisions: Decisions) -> None:
    spatial, steps = _spatial(sch, block), _steps(sch, block)
    spatial = spatial or [sch.add_unit_loop(steps[0] if steps else block)]
    sch.reorder(*spatial, *steps)
    outer, thread, lane = sch.split(sch.fuse(*spatial), [None, decisions.threads, decisions.lanes])
    sch.bind(outer, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    if decisions.lanes > 1:
        sch.vectorize(lane)
    if steps:
        sch.decompose_reduction(block, steps[0])


RULE = Rule("gpu.elements", Decisions, decide, candidates, apply)
