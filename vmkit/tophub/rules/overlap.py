"""Tiles that do not divide an axis: the last one begins earlier and computes some elements again.

That costs less than a bounds test in the innermost loops, or a second copy of them for what is left over, and every
tile is of one size. What is computed twice is the same both times.
"""

from __future__ import annotations

import tvm_ffi
from tvm import s_tir, tirx

from .blocks import Loop, extent
from .sizes import split_by_size

__all__ = ["tiles", "with_overlaps"]

_KEY = "vmkit.overlap"


def tiles(sch: s_tir.Schedule, loop: Loop, tile: int) -> list[Loop]:
    """Split a loop into tiles, and return the loop over them and the one within.

    Where the size is known, and no less than a tile, the last tile may overlap. Else the loop is written for several
    sizes.
    """
    size = extent(sch, loop)
    if size is None:
        return split_by_size(sch, loop, tile)
    parts = sch.split(loop, [None, tile], disable_predication=True)
    if size % tile:
        sch.annotate(parts[0], _KEY, [size, tile])
    return list(parts)


def with_overlaps(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled kernel whose last tiles begin where they end with their axis."""

    def shifted(loop: tirx.For) -> tirx.For:
        mark = loop.annotations.get(_KEY)
        if mark is None:
            return loop
        size, tile = (int(m) for m in mark)
        dtype = str(loop.loop_var.ty.dtype)

        def begin(product: tirx.Mul) -> tirx.PrimExpr:
            is_begin = product.a.same_as(loop.loop_var) and isinstance(product.b, tirx.IntImm)
            if not (is_begin and int(product.b.value) == tile):
                return product
            return tirx.Min(product, tirx.IntImm(dtype, size - tile))

        body = tvm_ffi.structural_map(loop.body, (tirx.Mul, begin))
        annotations = {k: v for k, v in loop.annotations.items() if k != _KEY}
        return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, annotations)

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, shifted)))
