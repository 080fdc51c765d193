"""Rows in chunks that stay in the cache while all blocks of a weight go by."""

from __future__ import annotations

import tvm_ffi
from tvm import s_tir, tirx

from ..blocks import Loop, computed_once, unmarked
from ..expressions import known, replaced

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

    def chunked(block: tirx.For) -> tirx.Stmt:
        mark, tile = block.annotations.get(_KEY), block.body
        if mark is None:
            return block
        dtype = str(tile.loop_var.ty.dtype)
        zero, one = tirx.IntImm(dtype, 0), tirx.IntImm(dtype, 1)
        before: list[tirx.Stmt] = []

        def once(name: str, value: tirx.Expr) -> tirx.Expr:
            if known(tile.extent) is not None:
                return value
            var, computed = computed_once(name, value)
            before.extend(computed)
            return var

        tiles = once("tiles", tile.extent)
        chunks = tirx.max(tirx.floordiv(tiles, tirx.IntImm(dtype, int(mark))), one)
        size = once("size", tirx.max(tirx.ceildiv(tiles, chunks), one))  # also of no tiles
        chunk, part = (tirx.Var(f"{tile.loop_var.name}_{role}", dtype) for role in ("chunk", "part"))
        body = replaced(tile.body, {tile.loop_var: chunk * size + part})
        count = tirx.min(size, tiles - chunk * size)
        parts = tirx.For(part, zero, count, tile.kind, body, tile.thread_binding, tile.annotations)
        annotations = unmarked(block, _KEY)
        within = tirx.For(block.loop_var, block.min, block.extent, block.kind, parts, block.thread_binding, annotations)
        made = tirx.For(chunk, zero, tirx.ceildiv(tiles, size), tirx.ForKind.SERIAL, within)
        return tirx.SeqStmt([*before, made]) if before else made

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, chunked)))
