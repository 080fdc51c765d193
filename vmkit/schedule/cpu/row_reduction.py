"""The rule for kernels that reduce rows and then map their elements: layer normalisation, softmax.

All stages of a row are computed before the next row begins. Sums and maxima are kept in a vector, whose elements are
combined at the end of the row.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm import s_tir, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.processor import processor_of
from ..blocks import Block, Loop, extent, is_reduction, keep_on_stack, kernel_blocks, partial_results, static_size
from ..rule import Options, Rule, choices
from .elementwise import PARALLEL_SIZE, sharing
from .flattening import flattened_rows
from .in_place import earlier_result, in_place_of
from .joined import joined
from .overlap import tiles_of_any
from .rests import stop_at
from .staged_reduction import staged_reduction

__all__ = ["RULE", "Decisions"]

_LONG = 16  # vectors of a row from which several vectors of partial sums pay
_FEW = 4  # partial sums that are added one by one


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
    sch = _with_lines(sch)
    kernel, lanes = _kernel(sch), processor_of(target).vectors.lanes
    if kernel is None:
        return None
    width = kernel.width or 0
    # What whole vectors leave of a long row costs less than all of it in halves of vectors.
    whole = [lanes] if width >= _LONG * lanes else _fitting(kernel, [lanes, lanes // 2])
    if not whole:
        return None
    # More partial sums hide the latency of additions, but have to be added at the end of each row.
    several = (
        [n * lanes for n in (4, 3, 2) if width % (n * lanes) == 0] or [4 * lanes] if width >= _LONG * lanes else []
    )
    size = static_size(sch, sch.get_loops(kernel.blocks[-1]))
    return Decisions((several or whole)[0], whole[0], size >= PARALLEL_SIZE)


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with half a vector to four vectors at once."""
    sch = _with_lines(sch)
    kernel, default = _kernel(sch), decide(sch, target)
    if kernel is None or default is None:
        return ()
    lanes, size = processor_of(target).vectors.lanes, static_size(sch, sch.get_loops(kernel.blocks[-1]))
    options: Options = {
        "sums": _fitting(kernel, [t * lanes for t in (1, 2, 3, 4)]) or [default.sums],
        "lanes": _fitting(kernel, [lanes // 2, lanes, lanes * 2]),
        "parallel": sharing(size, target),
    }
    return choices(Decisions, default, options)


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> s_tir.Schedule | None:
    """Schedule a kernel of stages over rows."""
    plain, sch = sch, _with_lines(sch)
    kernel = _kernel(sch)
    assert kernel is not None
    # A tile that overlaps the one before it would read what that one wrote.
    is_once = kernel.width is None or kernel.width % decisions.lanes == 0
    earlier = earlier_result(sch, kernel.blocks) if is_once else None
    last, maps = kernel.blocks[-1], [b for b in kernel.blocks if _is_map(sch, b, kernel)]
    reductions = [b for b in kernel.blocks if is_reduction(sch, b)]
    width = sch.get(sch.get_loops(last)[-1]).extent
    if earlier is None:
        for block in maps[:-1]:
            keep_on_stack(sch, block, sch.get_loops(block)[kernel.outer :])
    stage = _summed_stage(sch, kernel.blocks, maps)
    # Sums behind a stage's vectors wait for nothing, and more of them would take its registers.
    sums = [decisions.lanes if stage is not None and _same(sch, b, [stage[1]]) else decisions.sums for b in reductions]
    partials = [_in_vectors(sch, block, kernel, own) for block, own in zip(reductions, sums, strict=True)]
    folds = [f for b, own in zip(reductions, sums, strict=True) for f in _folds(sch, b, kernel, own, decisions.lanes)]
    outer = sch.get_loops(last)[: kernel.outer]
    # Indices taken apart again are not understood where sizes are unknown.
    if decisions.parallel and all(extent(sch, loop) for loop in outer):
        outer = [sch.fuse(*outer)]
    for block in reversed(kernel_blocks(sch)[:-1]):
        sch.compute_at(block, outer[-1], preserve_unit_loops=True)
    if decisions.parallel:
        # While the reductions are whole: what is left of them once their start is apart no longer looks like ones.
        sch.parallel(next((loop for loop in outer if extent(sch, loop) != 1), outer[0]))
    is_cut = kernel.width is None or any(kernel.width % own for own in sums)
    for partial, own in zip(partials, sums, strict=True):
        steps = _schedule_partial(sch, partial, len(outer))
        if kernel.width is None or kernel.width % own:
            stop_at(sch, steps, own, width)
    for fold in folds:
        _schedule_partial(sch, fold, len(outer))
    for block in maps:
        if is_cut:
            _run_to(sch, block, width)
            if any(_same(sch, producer, maps) for producer in sch.get_producers(block)) and not _same(
                sch, block, [last]
            ):
                # May be computed in the place of what it reads, so nothing of it twice. LLVM makes vectors here.
                continue
        _, lane = tiles_of_any(sch, sch.get_loops(block)[-1], decisions.lanes)
        sch.vectorize(lane)
    made = None if sch is plain else sch
    if stage is not None:
        at = next(at for at, block in enumerate(reductions) if _same(sch, block, [stage[1]]))
        made = joined(sch, stage[0], partials[at], decisions.lanes)
    return made if earlier is None else in_place_of(made or sch, *earlier)


def _summed_stage(sch: s_tir.Schedule, blocks: list[Block], maps: list[Block]) -> tuple[Block, Block] | None:
    """Return the first map that reads no other and is next read by a reduction, and that."""
    for block in maps[:-1]:
        readers = list(sch.get_consumers(block))
        first = next((each for each in blocks if _same(sch, each, readers)), None)
        if first is None or any(_same(sch, each, maps) for each in sch.get_producers(block)):
            continue
        if is_reduction(sch, first):
            return block, first
    return None


def _same(sch: s_tir.Schedule, block: Block, among: list[Block]) -> bool:
    return any(sch.get(block).same_as(sch.get(each)) for each in among)


def _with_lines(sch: s_tir.Schedule) -> s_tir.Schedule:
    """Return a kernel with the rows of an image as one row, where that may be; else the kernel."""
    found = staged_reduction(sch)
    if found is None or len(found.reduced) < 2 or found.reduced[0] + len(found.reduced) < found.rank:
        return sch
    return flattened_rows(sch, len(found.reduced))


def _kernel(sch: s_tir.Schedule) -> _Kernel | None:
    """Return the structure of a kernel that reduces the last axes."""
    found = staged_reduction(sch)
    if found is None or found.rank - 1 not in found.reduced:
        return None
    outer = found.rank - len(found.reduced)
    return _Kernel(found.blocks, outer, found.width) if found.reduced[0] == outer else None


def _is_map(sch: s_tir.Schedule, block: Block, kernel: _Kernel) -> bool:
    return len(sch.get_loops(block)) > kernel.outer and not is_reduction(sch, block)


def _fitting(kernel: _Kernel, sizes: list[int]) -> list[int]:
    """Return the sizes that divide rows; where none does, those that are no larger."""
    width = kernel.width
    if width is None:
        return sizes
    return [size for size in sizes if width % size == 0] or [size for size in sizes if size <= width]


def _in_vectors(sch: s_tir.Schedule, block: Block, kernel: _Kernel, sums: int) -> Block:
    """Cut a reduction in two: of every so many elements first, and of what that leaves."""
    _, lane = sch.split(sch.get_loops(block)[-1], [None, sums])
    return partial_results(sch, block, lane, kernel.outer)


def _folds(sch: s_tir.Schedule, block: Block, kernel: _Kernel, left: int, lanes: int) -> list[Block]:
    """Cut what adds partial sums until few are left; return what adds vectors of them, or parts of vectors, together.

    One by one each addition would wait for the one before it.
    """
    folds = []
    for part in (lanes, _FEW):
        if left > part and left % part == 0:
            folds.append(_in_vectors(sch, block, kernel, part))
            left = part
    return folds


def _schedule_partial(sch: s_tir.Schedule, partial: Block, depth: int) -> Loop:
    """Order the loops of partial sums and return that of the steps along the row.

    They come as the iteration variables do, the sums first.
    """
    lane, *rest = sch.get_loops(partial)[depth:]
    kinds = [v.iter_type for v in sch.get(partial).iter_vars[1:]]
    along = [loop for loop, kind in zip(rest, kinds, strict=True) if kind == tirx.IterVar.CommReduce]
    rows = [loop for loop, kind in zip(rest, kinds, strict=True) if kind != tirx.IterVar.CommReduce]
    sch.reorder(*rows, *along, lane)
    sch.vectorize(lane)
    sch.decompose_reduction(partial, along[0])
    return along[-1]


def _run_to(sch: s_tir.Schedule, block: Block, width: tirx.Expr) -> None:
    """Let a map run along the row, not along what partial sums seem to read of it."""
    loop = sch.get_loops(block)[-1]
    node = sch.get(loop)
    realize = node.body
    values = [*list(realize.iter_values)[:-1], node.loop_var]
    body = s_tir.SBlockRealize(values, True, realize.block)
    whole = tirx.For(node.loop_var, tirx.IntImm(str(node.loop_var.ty.dtype), 0), width, node.kind, body)
    sch.state.replace(sch.get_sref(loop), whole, {realize.block: realize.block})


RULE = Rule("row_reduction", Decisions, decide, candidates, apply)
