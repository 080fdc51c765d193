"""The rule for dense layers with packed weights: few rows stream the weight, many rows are tiled in registers.

The weight is most of what is read, so it is read once: a block of it stays in the cache while all rows go by. Where
there are enough rows to use it several times, the next block is prefetched meanwhile. For fewer rows several blocks are
read side by side, so that results do not wait for each other. A weight of 16 bits is widened where it is read, by the
first of many tiles of rows for all of them.

A number of rows that is known at run time only chooses among versions, each of which costs time to compile. Two blocks
side by side keep the multipliers as busy with half as many rows, which makes both the tile and the rest smaller, and
nothing is prefetched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import tvm
from tvm import s_tir, tirx
from tvm.target import Target

from ..._dataclasses import dataclass
from ...kernels.packed_product.shape import BLOCK
from ...target.processor import Caches, Processor, processor_of
from ...values.halves import HALVES
from ..blocks import Loop, SingleReduction, extent, loops_of_results, single_reduction, static_size
from ..rule import Options, Rule, Versions, choices
from .chunks import in_chunks
from .elementwise import PARALLEL_SIZE, schedule_spatial, sharing
from .overlap import tiles
from .packed import rows_of_tile, rows_to_try
from .packed_products import for_many_rows
from .prefetch import prefetch_ahead, prefetch_next_block
from .versions import fewer_rows
from .widened_blocks import widen_blocks

__all__ = ["RULE", "Decisions"]

_UNROLLED = (8, 4, 2, 1)  # steps of the reduction in one iteration
_UNROLLED_OF_FEW = (4, 2, 1)  # those where a step has several blocks
_STREAMS = 5  # the most blocks that are read side by side
_CHUNK = 16  # tiles whose rows stay in the cache while all blocks of the weight go by
_BESIDE = 1  # rows whose work takes as long as reading the weight
_SHORTEST = 4  # tiles that repay reading the weight once more
_MANY_FOR_UNIT = 32  # rows that repay cutting the weight in parts for a matrix unit
_WIDENED = 2  # tiles that repay writing a block of a weight down as float32
_MANY = 3  # tiles to expect where the number of rows is known at run time only; of two each prefetches too little


@dataclass(frozen=True)
class Decisions:
    """How a product of rows with a packed weight is computed.

    Attributes
    ----------
    rows : int
        How many rows are in registers at once, at most as many as there are.
    blocks : int
        How many blocks of the weight are read side by side; they divide its blocks.
    unrolled : int
        How many steps of the reduction one iteration has; they divide it.
    lines : int
        How many lines of the weight's next block an iteration prefetches; 0 unless one block is read at a time.
    ahead : bool
        Whether an iteration prefetches what a later one reads; else it may prefetch from the next block.
    chunk : int
        How many tiles of rows go by all blocks before the next ones do; 0 where all do at once.
    parallel : bool
        Whether blocks are shared among cores.
    widened : bool
        Whether the first tile of rows writes a block of a weight of 16 bits down as float32 for those after it; one
        block is read at a time then.
    """

    rows: int
    blocks: int
    unrolled: int
    lines: int
    ahead: bool
    chunk: int
    parallel: bool
    widened: bool = False


@dataclass(frozen=True)
class _Kernel:
    """A kernel around a product with a packed weight of shape (count, inner, width), the parameter at `weight`."""

    found: SingleReduction
    loops: list[Loop]
    weight: int
    count: int
    inner: int
    width: int
    bytes: int
    is_half: bool
    row_axis: int | None
    rows: int | None

    def is_from_memory(self, caches: Caches) -> bool:
        """Say whether the weight is so large that it is not taken to be in the cache."""
        return self.count * self.inner * self.width * self.bytes >= caches.quarter_of_second

    @property
    def floats(self) -> int:
        """How many float32 take as much room in registers as the sums of a row of a block."""
        return self.width * max(self.bytes, 4) // 4

    @property
    def row_bytes(self) -> int:
        """How many bytes a row of the data has."""
        return self.inner * max(self.bytes, 4)

    @property
    def is_in_rows(self) -> bool:
        """Whether tiles of rows are right within the blocks of the weight, so that chunks of them can be outside."""
        return self.row_axis is not None and self.row_axis == self.found.spatial - 2


def decide(sch: s_tir.Schedule, target: Target) -> Decisions | None:
    """Return the default decisions for a product with a packed weight; for any number of rows, those for many."""
    kernel, processor = _kernel(sch), processor_of(target)
    if kernel is None:
        return None
    if kernel.rows is not None:
        return _decisions(sch, kernel, processor, kernel.rows)
    many = _decisions(sch, kernel, processor, _MANY * processor.vectors.rows_of_results(kernel.floats))
    return _half_as_many(kernel, processor, many) or many


def candidates(sch: s_tir.Schedule, target: Target) -> Iterable[Decisions]:
    """Return decisions with tiles that fit into the registers beside what they are computed from."""
    kernel, default, unit = _kernel(sch), decide(sch, target), processor_of(target).vectors
    if kernel is None or default is None:
        return ()
    vectors = unit.registers_for(kernel.floats)
    options: Options = {
        "rows": rows_to_try(kernel.rows, unit.most_rows(kernel.floats)) if kernel.row_axis is not None else [1],
        "blocks": [b for b in range(1, _STREAMS + 1) if kernel.count % b == 0],
        "unrolled": [u for u in (1, 2, 4, 8) if kernel.inner % u == 0],
        "lines": list(dict.fromkeys([default.lines, 0, 1, 2, 4])) if kernel.row_axis is not None else [0],
        "ahead": [False, True],
        "chunk": [0, _CHUNK] if kernel.is_in_rows else [0],
        "parallel": sharing(static_size(sch, kernel.loops), target),
        "widened": [False, True] if kernel.is_half and kernel.row_axis is not None else [False],
    }
    tried = choices(Decisions, default, options)
    return (
        d
        for d in tried
        if d == default
        or (
            (d.rows + 1) * d.blocks * vectors < unit.registers
            and not (d.lines and (d.ahead or d.blocks > 1))
            and not (d.widened and d.blocks > 1)
        )
    )


def apply(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> None:
    """Schedule a product with a packed weight."""
    kernel = _kernel(sch)
    assert kernel is not None
    for other in kernel.found.others:
        schedule_spatial(sch, other)
    _tile(sch, kernel, decisions)


def versions(sch: s_tir.Schedule, target: Target, decisions: Decisions) -> Versions[Decisions] | None:
    """Return versions for numbers of rows that are known at run time only."""
    kernel, processor = _kernel(sch), processor_of(target)
    assert kernel is not None
    if kernel.row_axis is None or kernel.rows is not None:
        return None
    rows, size = decisions.rows, sch.get(kernel.loops[kernel.row_axis]).extent
    fewer = [(each, _decisions(sch, kernel, processor, each)) for each in fewer_rows(rows)]
    # Of so few rows there is one chunk.
    fewer = [(each, replace(d, parallel=decisions.parallel, chunk=0, ahead=False)) for each, d in fewer]
    if not decisions.widened:
        return size, [(rows, decisions), *fewer]
    return size, [(rows * (_WIDENED - 1) + 1, decisions), (rows, replace(decisions, chunk=0, widened=False)), *fewer]


def largest(sch: s_tir.Schedule, target: Target) -> tuple[int, tirx.PrimFunc] | None:
    """Return the least number of rows, and the kernel for those, that are computed on a matrix unit; None without."""
    kernel = _kernel(sch)
    if kernel is None or kernel.width != BLOCK:
        return None
    function = sch.mod["main"]
    made = for_many_rows(function, target, function.params[kernel.weight], kernel.inner)
    return None if made is None else (_MANY_FOR_UNIT, made)


def _kernel(sch: s_tir.Schedule) -> _Kernel | None:
    """Return the structure of a kernel if it is that of a product with a packed weight."""
    found = single_reduction(sch)
    if found is None:
        return None
    if found.after is not None and len(sch.get_loops(found.after)) != found.spatial:
        return None
    node, params = sch.get(found.block), list(sch.mod["main"].params)
    if len(node.iter_vars) != found.spatial + 1:
        return None
    column, k = node.iter_vars[found.spatial - 1].var, node.iter_vars[-1].var
    region = next((r for r in node.reads if _is_packed(list(r.region), column, k)), None)
    at = None if region is None else next((i for i, p in enumerate(params) if p.same_as(region.source)), None)
    if region is None or at is None or not all(isinstance(d, tirx.IntImm) for d in region.source.ty.shape):
        return None
    count, inner, width = (int(d) for d in region.source.ty.shape)
    dtype = str(region.source.ty.dtype)
    size, is_half = tvm.DataType(dtype).bits // 8, dtype in HALVES and str(node.writes[0].source.ty.dtype) == "float32"
    loops = sch.get_loops(found.block)
    row_axis = next((axis for axis in reversed(range(found.spatial - 1)) if extent(sch, loops[axis]) != 1), None)
    rows = 1 if row_axis is None else extent(sch, loops[row_axis])
    return _Kernel(found, loops, at, count, inner, width, size, is_half, row_axis, rows)


def _is_packed(region: list[tvm.ir.Range], column: tirx.Var, k: tirx.Var) -> bool:
    """Say whether a weight is read as ``[column // width, k, column % width]``."""
    if len(region) != 3:
        return False
    block, inner, lane = (r.min for r in region)
    return (
        isinstance(block, tirx.FloorDiv)
        and isinstance(lane, tirx.FloorMod)
        and isinstance(lane.b, tirx.IntImm)
        and block.a.same_as(column)
        and lane.a.same_as(column)
        and inner.same_as(k)
    )


def _decisions(sch: s_tir.Schedule, kernel: _Kernel, processor: Processor, rows: int) -> Decisions:
    """Return the default decisions for a number of rows."""
    caches = processor.caches
    most, parallel = processor.vectors.rows_of_results(kernel.floats), static_size(sch, kernel.loops) >= PARALLEL_SIZE
    tile = rows_of_tile(rows, most, _BESIDE)
    is_few = tile * 2 <= most
    unrolled = next(u for u in (_UNROLLED_OF_FEW if is_few else _UNROLLED) if kernel.inner % u == 0)
    if is_few:
        side_by_side = range(min(_STREAMS, most // tile), 0, -1)
        blocks = next(b for b in side_by_side if kernel.count % b == 0)
        return Decisions(tile, blocks, unrolled, 0, kernel.is_from_memory(caches), 0, parallel)
    tiles = max(2, -(-rows // tile))
    is_prefetched = kernel.is_from_memory(caches) and kernel.row_axis is not None
    lines = _lines(kernel, caches, unrolled, tiles) if is_prefetched else 0
    # Rows stay in the cache beside a block of the weight and the next one.
    near = caches.three_quarters_of_second // (tile * kernel.row_bytes)
    chunk = min(_CHUNK, near) if kernel.is_in_rows else 0
    is_long = kernel.rows is None or tiles > chunk
    widened = kernel.is_half and kernel.row_axis is not None and (kernel.rows is None or tiles >= _WIDENED)
    chunk = chunk if is_long and chunk >= _SHORTEST else 0
    return Decisions(tile, 1, unrolled, lines, False, chunk, parallel, widened)


def _half_as_many(kernel: _Kernel, processor: Processor, many: Decisions) -> Decisions | None:
    """Return decisions for many rows with half as many in a tile, and two blocks side by side where these divide all.

    None where two blocks would not fit into registers, or each is to be widened.
    """
    unit, rows = processor.vectors, many.rows // 2
    is_within = (rows + 1) * 2 * unit.registers_for(kernel.floats) < unit.registers
    if many.widened or many.blocks > 1 or many.rows % 2 or not is_within:
        return None
    unrolled = next(u for u in _UNROLLED_OF_FEW if kernel.inner % u == 0)
    near = processor.caches.three_quarters_of_second // (rows * kernel.row_bytes)
    chunk = min(2 * _CHUNK, near) if many.chunk else 0
    return Decisions(rows, 1 if kernel.count % 2 else 2, unrolled, 0, False, chunk, many.parallel)


def _lines(kernel: _Kernel, caches: Caches, unrolled: int, tiles: int) -> int:
    """Return how many lines of the next block an iteration prefetches, so that some tiles prefetch all of it."""
    of_step = -(-unrolled * kernel.width * kernel.bytes // caches.line)
    return -(-of_step // tiles)


def _tile(sch: s_tir.Schedule, kernel: _Kernel, decisions: Decisions) -> None:
    found, block, last = kernel.found, kernel.found.block, kernel.found.spatial - 1
    outer, reduction = kernel.loops[: found.spatial], kernel.loops[-1]
    columns, side, lane = sch.split(outer[last], [None, decisions.blocks, kernel.width])
    whole, inner = None, [side]
    if kernel.row_axis is not None:
        whole, row = tiles(sch, outer[kernel.row_axis], decisions.rows)
        outer[kernel.row_axis] = whole
        # Of several blocks each is read for all rows at once, so that few vectors of the weight wait in registers.
        inner.insert(1 if decisions.blocks > 1 else 0, row)
    steps, step = sch.split(reduction, [None, decisions.unrolled])
    # Blocks of the weight change slowly: one stays in the cache while all positions go by.
    order = [columns, *outer[:last]]
    sch.reorder(*order, steps, step, *inner, lane)
    for loop in (step, *inner):
        sch.unroll(loop)
    sch.vectorize(lane)
    written = loops_of_results(sch, found, order)
    side, lane = sch.split(written[last], [decisions.blocks, kernel.width])
    sch.unroll(side)
    sch.vectorize(lane)
    if kernel.row_axis is not None:
        sch.unroll(written[kernel.row_axis])
    if whole is not None and decisions.widened:
        widen_blocks(sch, (columns, whole, steps), kernel.weight)
    if decisions.chunk:
        in_chunks(sch, columns, decisions.chunk)
    if decisions.lines and whole is not None:
        prefetch_next_block(sch, (columns, whole, steps), kernel.weight, decisions.lines)
    elif decisions.ahead:
        prefetch_ahead(sch, (columns, steps), kernel.weight, decisions.blocks)
    if decisions.parallel:
        sch.parallel(columns)
    sch.decompose_reduction(block, steps)


RULE = Rule("dense", Decisions, decide, candidates, apply, versions, largest=largest)
