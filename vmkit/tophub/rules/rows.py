"""The rule for kernels that reduce rows and then map their elements: layer normalisation, softmax.

All stages of a row are computed before the next row begins. Sums and maxima are kept in a vector, whose elements are
combined at the end of the row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tvm import s_tir, tirx
from tvm.sym import Analyzer
from tvm.target import Target

from ...target.vectors import vector_unit
from .blocks import Block, extent, is_reduction, kernel_blocks, static_size
from .elementwise import PARALLEL_SIZE, sharing
from .overlap import tiles
from .rule import Options, Rule, choices

__all__ = ["RULE", "Decisions"]

_LONG = 4096  # elements of a row from which several vectors of partial sums pay


@dataclass(frozen=True)
class Decisions:
    """How rows are computed.

    Attributes
    ----------
    sums : int
        How many partial sums a reduction has.
    lanes : int
        How many elements of a map go together.
    parallel : bool
        Whether rows are shared among cores.
    """

    sums: int
    lanes: int
    parallel: bool


@dataclass(frozen=True)
class _Kernel:
    blocks: list[Block]
    outer: int  # how many loops are over rows, not along one
    width: int | None  # of the innermost loop along a row


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for stages over rows, of which some reduce the last axes and the last does not."""
    kernel, lanes = _kernel(sch), vector_unit(target).lanes
    if kernel is None or (kernel.width is not None and kernel.width < lanes // 2):
        return None
    size = static_size(sch, sch.get_loops(kernel.blocks[-1]))
    whole = _dividing(kernel, [lanes, lanes // 2])
    # More partial sums hide the latency of additions, but are added one by one at the end of each row.
    several = _dividing(kernel, [4 * lanes]) if (kernel.width or 0) >= _LONG else []
    return Decisions((several or whole or [lanes])[0], (whole or [lanes])[0], size >= PARALLEL_SIZE)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with half a vector to four vectors at once."""
    kernel, default = _kernel(sch), decide(sch, target)
    if kernel is None or default is None:
        return ()
    lanes, size = vector_unit(target).lanes, static_size(sch, sch.get_loops(kernel.blocks[-1]))
    options: Options = {
        "sums": _dividing(kernel, [t * lanes for t in (1, 2, 3, 4)]) or [lanes, lanes * 2],
        "lanes": _dividing(kernel, [lanes // 2, lanes, lanes * 2]) or [lanes],
        "parallel": sharing(size, target),
    }
    return choices(Decisions, default, options)


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a kernel of stages over rows."""
    kernel = _kernel(sch)
    assert kernel is not None
    last, maps = kernel.blocks[-1], [b for b in kernel.blocks if _is_map(sch, b, kernel)]
    reductions = [b for b in kernel.blocks if is_reduction(sch, b)]
    width = sch.get(sch.get_loops(last)[-1]).extent
    partials = [_in_vectors(sch, block, kernel, decisions.sums) for block in reductions]
    outer = sch.get_loops(last)[: kernel.outer]
    # Indices taken apart again are not understood where sizes are unknown.
    if decisions.parallel and all(extent(sch, loop) for loop in outer):
        outer = [sch.fuse(*outer)]
    for block in reversed(kernel_blocks(sch)[:-1]):
        sch.compute_at(block, outer[-1], preserve_unit_loops=True)
    if decisions.parallel:
        # While the reductions are whole: what is left of them once their start is apart no longer looks like ones.
        sch.parallel(next((loop for loop in outer if extent(sch, loop) != 1), outer[0]))
    for partial in partials:
        _schedule_partial(sch, partial, len(outer))
        if kernel.width is None or kernel.width % decisions.sums:
            _stop_at(sch, partial, decisions.sums, width)
    for block in maps:
        _, lane = tiles(sch, sch.get_loops(block)[-1], decisions.lanes)
        sch.vectorize(lane)


def _kernel(sch: s_tir.Schedule) -> _Kernel | None:
    blocks = kernel_blocks(sch)
    reductions = [block for block in blocks if is_reduction(sch, block)]
    if not reductions or is_reduction(sch, blocks[-1]):
        return None
    rank, steps = len(sch.get_loops(blocks[-1])), _steps(sch, reductions[0])
    if not 0 < steps < rank:
        return None
    loops = sch.get_loops(blocks[-1])
    kernel = _Kernel(blocks, rank - steps, extent(sch, loops[-1]))
    return kernel if all(_is_of_rows(sch, block, kernel) for block in blocks) else None


def _steps(sch: s_tir.Schedule, block: Block) -> int:
    """Return how many axes a block reduces; -1 where they are not the last ones."""
    kinds = [v.iter_type for v in sch.get(block).iter_vars]
    steps = sum(kind != tirx.IterVar.DataPar for kind in kinds)
    is_plain = len(sch.get_loops(block)) == len(kinds) and all(
        k == tirx.IterVar.CommReduce for k in kinds[len(kinds) - steps :]
    )
    return steps if is_plain else -1


def _is_of_rows(sch: s_tir.Schedule, block: Block, kernel: _Kernel) -> bool:
    """Say whether a block is one value for each row, or a map or a reduction of the row."""
    steps, loops, whole = _steps(sch, block), sch.get_loops(block), sch.get_loops(kernel.blocks[-1])
    if steps == 0 and len(loops) == kernel.outer:
        return True
    if len(loops) != len(whole) or steps not in (0, len(whole) - kernel.outer):
        return False
    return Analyzer().can_prove_equal(sch.get(loops[-1]).extent, sch.get(whole[-1]).extent)


def _is_map(sch: s_tir.Schedule, block: Block, kernel: _Kernel) -> bool:
    return len(sch.get_loops(block)) > kernel.outer and not is_reduction(sch, block)


def _dividing(kernel: _Kernel, sizes: list[int]) -> list[int]:
    """Return the sizes that divide rows."""
    return [size for size in sizes if kernel.width is not None and kernel.width % size == 0]


def _in_vectors(sch: s_tir.Schedule, block: Block, kernel: _Kernel, sums: int) -> Block:
    """Cut a reduction in two: of every so many elements first, and of what that leaves."""
    _, lane = sch.split(sch.get_loops(block)[-1], [None, sums])
    return sch.rfactor(lane, kernel.outer)


def _schedule_partial(sch: s_tir.Schedule, partial: Block, depth: int) -> None:
    """Order the loops of partial sums, which come as the iteration variables do: the sums, and the steps last."""
    loops = sch.get_loops(partial)[depth:]
    steps = [v for v in sch.get(partial).iter_vars if v.iter_type == tirx.IterVar.CommReduce]
    lane, along = loops[0], loops[-len(steps) :]
    sch.reorder(*along, lane)
    sch.vectorize(lane)
    sch.decompose_reduction(partial, along[0])


def _stop_at(sch: s_tir.Schedule, partial: Block, sums: int, width: Any) -> None:
    """Let partial sums end where the row does, which a block forgets when it is computed at another's loop."""
    node = sch.get(partial)
    lane, step = node.iter_vars[0].var, node.iter_vars[-1].var
    is_inside = step * tirx.IntImm(str(step.ty.dtype), sums) + lane < width
    fields = {name: getattr(node, name) for name in ("iter_vars", "reads", "writes", "name_hint", "init")}
    body = tirx.IfThenElse(is_inside, node.body, None)
    guarded = s_tir.SBlock(body=body, **fields, annotations=dict(node.annotations.items()))
    sch.state.replace(sch.get_sref(partial), guarded, {node: guarded})
    sch.annotate(sch.get_loops(partial)[-2], "pragma_loop_partition_hint", True)


RULE = Rule("rows", Decisions, decide, candidates, apply)
