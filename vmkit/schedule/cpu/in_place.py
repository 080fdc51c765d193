"""A stage that is written where the result goes, over which the last stage then writes.

Memory of the result that is not in the cache is fetched when it is first written. Behind a stage that computes much
nobody waits for that, while the last one, which may only scale, would wait for every line.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm_ffi
from tvm import s_tir, tirx

from ..._tvm import unchecked_schedule
from ..blocks import Block
from ..expressions import loads_in, replaced
from .stages import is_in, with_nests

__all__ = ["earlier_result", "in_place_of"]


def earlier_result(sch: s_tir.Schedule, stages: Sequence[Block]) -> tuple[tirx.Buffer, tirx.Buffer] | None:
    """Return what a stage before the last one computes that may lie where the last one's result does, and that.

    That is of the same form, and all that the last one reads of it for an element lies at the same place.
    """
    *before, last = (sch.get(stage) for stage in stages)
    if not isinstance(last.body, tirx.BufferStore):
        return None
    made, places = last.body.buffer, list(last.body.indices)
    read, inner = loads_in(last.body.value), sch.mod["main"].body.block.alloc_buffers
    for stage in reversed(before):
        own = stage.writes[0].source
        reads = [load for load in read if load.source.same_as(own)]
        is_like = tvm_ffi.structural_equal([own.ty.dtype, own.ty.shape], [made.ty.dtype, made.ty.shape])
        if reads and is_like and is_in(own, inner) and all(_are_same(load.indices, places) for load in reads):
            return own, made
    return None


def in_place_of(sch: s_tir.Schedule, earlier: tirx.Buffer, result: tirx.Buffer) -> s_tir.Schedule:
    """Return a scheduled kernel in which what a stage computes lies where the result does."""
    function = sch.mod["main"]
    root = function.body.block
    made = replaced(with_nests(root, [root.body], [earlier]), {earlier: result})
    return unchecked_schedule(function.with_body(s_tir.SBlockRealize([], True, made)))


def _are_same(indices: Sequence[tirx.Expr], places: Sequence[tirx.Expr]) -> bool:
    return len(indices) == len(places) and all(i.same_as(p) for i, p in zip(indices, places, strict=True))
