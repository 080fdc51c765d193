"""The rule for dense layers with packed weights: few rows stream the weight, many rows are tiled in registers.

The weight is most of what is read, so it is read once: a block of it stays in the cache while all rows go by. Where
there are enough rows to use it several times, the next block is prefetched meanwhile. For fewer rows several blocks are
read side by side, so that results do not wait for each other. A number of rows that is known at run time chooses
among versions of the kernel; none of them tests for rows that are left over, because the last tile overlaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.target import Target

from ...target.vectors import VectorUnit, vector_unit
from .blocks import SingleReduction, extent, single_reduction, static_size
from .chunks import in_chunks, with_chunks
from .elementwise import PARALLEL_SIZE, schedule_spatial
from .overlap import overlap, with_overlaps
from .packed import rows_of_tile
from .prefetch import LINE, prefetch_ahead, prefetch_next_block, with_prefetches
from .versions import by_size

__all__ = ["DenseTile", "schedule", "schedule_by_rows"]

_UNROLLED = 4  # steps of the reduction in one iteration
_STREAMS = 5  # the most blocks that are read side by side
_CHUNK = 16  # tiles whose rows stay in the cache while all blocks of the weight go by
_NEAR = 524_288  # bytes of rows that stay in the cache beside a block of the weight and the next one
_FROM_MEMORY = 262_144  # bytes of a weight from which it is not taken to be in the cache


@dataclass(frozen=True)
class DenseTile:
    """How a product of rows with a packed weight is tiled.

    Attributes
    ----------
    rows : int
        How many rows are in registers at once.
    blocks : int
        How many blocks of the weight are read side by side.
    unrolled : int
        How many steps of the reduction make one iteration.
    lines : int
        How many lines of the weight's next block an iteration prefetches.
    is_ahead : bool
        Whether an iteration prefetches what a later one reads.
    chunk : int
        How many tiles of rows go by all blocks before the next ones do; 0 where all do at once.
    """

    rows: int
    blocks: int
    unrolled: int
    lines: int = 0
    is_ahead: bool = False
    chunk: int = 0


@dataclass(frozen=True)
class _Dense:
    """A kernel around a product with a packed weight of shape (count, inner, width)."""

    found: SingleReduction
    weight: int
    count: int
    inner: int
    width: int
    bytes: int
    row_axis: int | None
    rows: Any

    @property
    def unrolled(self) -> int:
        return next((u for u in (_UNROLLED, 2) if self.inner % u == 0), 1)

    @property
    def known_rows(self) -> int | None:
        return self.rows if isinstance(self.rows, int) else None

    @property
    def is_from_memory(self) -> bool:
        return self.count * self.inner * self.width * self.bytes >= _FROM_MEMORY


def schedule(sch: s_tir.Schedule, target: Target) -> bool:
    """Schedule a product of a known number of rows with a packed weight."""
    dense = _dense(sch)
    if dense is None or dense.known_rows is None:
        return False
    _apply(sch, dense, tile_of(dense.known_rows, dense, vector_unit(target)))
    return True


def schedule_by_rows(sch: s_tir.Schedule, target: Target) -> tirx.PrimFunc | None:
    """Return a kernel for any number of rows of a product with a packed weight; None for other kernels."""
    dense = _dense(sch)
    if dense is None or dense.known_rows is not None:
        return None
    unit, versions = vector_unit(target), []
    for least, rows in _sizes(dense, unit):
        version = sch.copy()
        again = _dense(version)
        assert again is not None
        _apply(version, again, tile_of(rows, dense, unit))
        versions.append((least, with_prefetches(with_chunks(with_overlaps(version.mod["main"], dense.rows)))))
    return by_size(sch.mod["main"], dense.rows, versions)


def _dense(sch: s_tir.Schedule) -> _Dense | None:
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
    size = tvm.DataType(str(region.source.ty.dtype)).bits // 8
    row_axis, rows = _rows(sch, found)
    return _Dense(found, at, count, inner, width, size, row_axis, rows)


def _is_packed(region: list[Any], column: Any, k: Any) -> bool:
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


def _rows(sch: s_tir.Schedule, found: SingleReduction) -> tuple[int | None, Any]:
    """Return the innermost output axis before the columns that has several positions, and how many it has."""
    loops = sch.get_loops(found.block)[: found.spatial - 1]
    for axis in reversed(range(len(loops))):
        size = extent(sch, loops[axis])
        if size != 1:
            return axis, sch.get(loops[axis]).extent if size is None else size
    return None, 1


def _most_rows(dense: _Dense, unit: VectorUnit) -> int:
    return max(1, unit.accumulators * unit.lanes // max(dense.width, unit.lanes))


def _sizes(dense: _Dense, unit: VectorUnit) -> list[tuple[int, int]]:
    """Return the least numbers of rows that versions are for, falling, each with the number that it is made for."""
    most = _most_rows(dense, unit)
    sizes = [(most, 2 * most)]
    while sizes[-1][0] > 1:
        fewer = sizes[-1][0] // 2
        sizes.append((fewer, fewer))
    # With more tiles each has less to prefetch.
    return [(7 * most + 1, 8 * most), (3 * most + 1, 4 * most), *sizes] if dense.is_from_memory else sizes


def tile_of(rows: int, dense: _Dense, unit: VectorUnit) -> DenseTile:
    """Return the tile for a number of rows."""
    most = _most_rows(dense, unit)
    tile = rows_of_tile(rows, most)
    if tile * 2 <= most:
        side_by_side = range(min(_STREAMS, most // tile), 0, -1)
        blocks = next(b for b in side_by_side if dense.count % b == 0)
        return DenseTile(tile, blocks, dense.unrolled, is_ahead=dense.is_from_memory and tile > 1)
    of_step = -(-dense.unrolled * dense.width * dense.bytes // LINE)
    tiles = max(2, -(-rows // tile))
    lines = -(-of_step // tiles) if dense.is_from_memory else 0
    is_near = _CHUNK * tile * dense.inner * dense.bytes <= _NEAR
    return DenseTile(tile, 1, dense.unrolled, lines, chunk=_CHUNK if is_near and tiles >= _CHUNK // 2 else 0)


def _apply(sch: s_tir.Schedule, dense: _Dense, tile: DenseTile) -> None:
    found, last = dense.found, dense.found.spatial - 1
    for other in found.others:
        schedule_spatial(sch, other)
    block, loops = found.block, sch.get_loops(found.block)
    size, outer, reduction = static_size(sch, loops), loops[: found.spatial], loops[-1]
    columns, side, lane = sch.split(outer[last], [None, tile.blocks, dense.width])
    tiles, inner = None, [side]
    if dense.row_axis is not None:
        tiles, row = overlap(sch, outer[dense.row_axis], dense.known_rows, tile.rows)
        outer[dense.row_axis] = tiles
        inner.insert(0, row)
    steps, step = sch.split(reduction, [None, tile.unrolled])
    # Blocks of the weight change slowly: one stays in the cache while all positions go by.
    order = [columns, *outer[:last]]
    sch.reorder(*order, steps, step, *inner, lane)
    for loop in (step, *inner):
        sch.unroll(loop)
    sch.vectorize(lane)
    if found.after is None:
        after = sch.cache_write(block, 0, "local")
    else:
        after = found.after
        sch.set_scope(block, 0, "local")
    sch.reverse_compute_at(after, order[-1], preserve_unit_loops=True)
    written = sch.get_loops(after)[len(order) :]
    side, lane = sch.split(written[last], [tile.blocks, dense.width])
    sch.unroll(side)
    sch.vectorize(lane)
    if dense.row_axis is not None:
        sch.unroll(written[dense.row_axis])
    if tile.chunk and dense.row_axis == last - 1:
        in_chunks(sch, columns, tile.chunk)
    if tile.lines and tiles is not None:
        prefetch_next_block(sch, (columns, tiles, steps), dense.weight, tile.lines)
    elif tile.is_ahead:
        prefetch_ahead(sch, (columns, steps), dense.weight, tile.blocks)
    if size >= PARALLEL_SIZE:
        sch.parallel(columns)
    sch.decompose_reduction(block, steps)
