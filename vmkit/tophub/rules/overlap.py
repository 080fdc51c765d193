"""Tiles that do not divide an axis: the last one begins earlier and computes some elements again.

That costs less than a bounds test in the innermost loops, or a second copy of them for what is left over, and every
tile is of one size. What is computed twice is the same both times.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

__all__ = ["overlap", "with_overlaps"]

_KEY = "vmkit.overlap"


def overlap(
    sch: s_tir.Schedule, loop: s_tir.schedule.LoopRV, size: int | None, tile: int
) -> list[s_tir.schedule.LoopRV]:
    """Split a loop of `size` iterations, at least as many as a tile has, into tiles of which the last may overlap.

    A size that is known at run time only is None here, and given to :func:`with_overlaps`.
    """
    parts = sch.split(loop, [None, tile], disable_predication=True)
    if size is None or size % tile:
        sch.annotate(parts[0], _KEY, [size or 0, tile])
    return list(parts)


def with_overlaps(function: tirx.PrimFunc, size: Any = None) -> tirx.PrimFunc:
    """Return a scheduled kernel whose last tiles begin where they end with their axis.

    Loops that were split without a size are over the one given.
    """

    def shifted(loop: tirx.For) -> tirx.For:
        mark = loop.annotations.get(_KEY)
        if mark is None:
            return loop
        known, tile = int(mark[0]), int(mark[1])
        dtype = str(loop.loop_var.ty.dtype)

        end = tirx.IntImm(dtype, known) if known else size

        def begin(product: tirx.Mul) -> tirx.PrimExpr:
            is_begin = product.a.same_as(loop.loop_var) and isinstance(product.b, tirx.IntImm)
            if not (is_begin and int(product.b.value) == tile):
                return product
            return tirx.Min(product, end - tirx.IntImm(dtype, tile))

        body = tvm_ffi.structural_map(loop.body, (tirx.Mul, begin))
        annotations = {k: v for k, v in loop.annotations.items() if k != _KEY}
        return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, annotations)

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, shifted)))
