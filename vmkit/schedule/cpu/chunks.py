"""Rows in chunks that stay in the cache while all blocks of a weight go by."""

from __future__ import annotations

import tvm_ffi
from tvm import s_tir, tirx

from ..blocks import Loop, unmarked
from ..expressions import replaced

__all__ = ["in_chunks", "with_chunks"]

_KEY = "vmkit.chunk"


def in_chunks(sch: s_tir.Schedule, block: Loop, tiles: int) -> None:
    """Mark a loop over blocks of a weight, right within which tiles of rows go by, to do about so many tiles at a time.

    Chunks have at least so many tiles and less than twice as many: the last one is no smaller than the others, for
    which the weight would come again in vain.
    """
    sch.annotate(block, _KEY, tiles)


def with_chunks(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled kernel in which marked loops are within loops over chunks of their tiles.

    The number of tiles may be known at run time only.
    """

    def chunked(block: tirx.For) -> tirx.For:
        mark, tile = block.annotations.get(_KEY), block.body
        if mark is None:
            return block
        dtype = str(tile.loop_var.ty.dtype)
        zero, one = tirx.IntImm(dtype, 0), tirx.IntImm(dtype, 1)
        chunks = tirx.max(tirx.floordiv(tile.extent, tirx.IntImm(dtype, int(mark))), one)
        size = tirx.max(tirx.ceildiv(tile.extent, chunks), one)  # also of no tiles
        chunk, part = (tirx.Var(f"{tile.loop_var.name}_{role}", dtype) for role in ("chunk", "part"))
        here = chunk * size + part
        body = replaced(tile.body, {tile.loop_var: here})
        count = tirx.min(size, tile.extent - chunk * size)
        parts = tirx.For(part, zero, count, tile.kind, body, tile.thread_binding, tile.annotations)
        annotations = unmarked(block, _KEY)
        within = tirx.For(block.loop_var, block.min, block.extent, block.kind, parts, block.thread_binding, annotations)
        return tirx.For(chunk, zero, tirx.ceildiv(tile.extent, size), tirx.ForKind.SERIAL, within)

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, chunked)))
