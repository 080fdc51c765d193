"""Tiles that do not divide an axis: the last one begins earlier and computes some elements again.

That costs less than a bounds test in the innermost loops, or a second copy of them for what is left over, and every
tile is of one size. What is computed twice is the same both times.
"""

from __future__ import annotations

from functools import reduce

import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from ..blocks import Loop, extent, unmarked
from ..expressions import conjuncts, uses

__all__ = ["tiles", "tiles_of_any", "with_overlaps"]

_KEY = "vmkit.overlap"


def tiles(sch: s_tir.Schedule, loop: Loop, tile: int) -> list[Loop]:
    """Split a loop of no fewer iterations than a tile has into tiles, of which the last may overlap.

    Returns
    -------
    list of Loop
        The loop over the tiles and the one within. A size that is known at run time only is given to
        :func:`with_overlaps`.
    """
    size = extent(sch, loop)
    parts = sch.split(loop, [None, tile], disable_predication=True)
    if tile > 1 and (size is None or size % tile):
        sch.annotate(parts[0], _KEY, [size or 0, tile])
    return list(parts)


def tiles_of_any(sch: s_tir.Schedule, loop: Loop, tile: int) -> list[Loop]:
    """Split a loop into tiles as :func:`tiles` does, or, of a size that is known at run time only, of any size.

    There the part of a tile at the end becomes a loop of its own, so that no other tests its bounds.
    """
    if extent(sch, loop) is not None:
        return tiles(sch, loop, tile)
    parts = sch.split(loop, [None, tile])
    sch.annotate(parts[0], "pragma_loop_partition_hint", True)
    return list(parts)


def with_overlaps(function: tirx.PrimFunc, size: tirx.Expr | None = None, least: int | None = None) -> tirx.PrimFunc:
    """Return a scheduled kernel whose last tiles begin where they end with their axis.

    Loops of a size that is known at run time only are over the one given, which is not below `least`. A tile of more
    elements than that begins with the axis where that is shorter, and what is beyond is for the rule to leave out.
    """

    def shifted(loop: tirx.For) -> tirx.For:
        mark = loop.annotations.get(_KEY)
        if mark is None:
            return loop
        known, tile = int(mark[0]), int(mark[1])
        dtype = str(loop.loop_var.ty.dtype)
        end = tirx.IntImm(dtype, known) if known else size
        assert end is not None, "a size that is known at run time only has to be given"

        def begin(product: tirx.Mul) -> tirx.Expr:
            is_begin = product.a.same_as(loop.loop_var) and isinstance(product.b, tirx.IntImm)
            if not (is_begin and int(product.b.value) == tile):
                return product
            last = end - tirx.IntImm(dtype, tile)
            may_be_short = not known and least is not None and least < tile
            return tirx.Max(tirx.Min(product, last), tirx.IntImm(dtype, 0)) if may_be_short else tirx.Min(product, last)

        def within(block: s_tir.SBlockRealize) -> s_tir.SBlockRealize:
            tests = [t for t in conjuncts(block.predicate) if not _is_end(t, loop.loop_var, end)]
            predicate = reduce(tirx.And, tests) if tests else tirx.IntImm("bool", 1)
            return s_tir.SBlockRealize(block.iter_values, predicate, block.block)

        body = tvm_ffi.structural_map(loop.body, ((tirx.Mul, begin), (s_tir.SBlockRealize, within)))
        annotations = unmarked(loop, _KEY)
        return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, annotations)

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, shifted)))


def _is_end(condition: tirx.Expr, var: tirx.Var, end: tirx.Expr) -> bool:
    """Say whether a condition is that a tile does not stick out, which those that overlap never do."""
    is_test = isinstance(condition, tirx.LT) and uses(condition.a, var)
    return is_test and Analyzer().can_prove_equal(condition.b, end)
