"""A stage along a row and the sum of what it computes, in one pass over the row.

One after the other, the sum reads again what was just written, and waits for its own additions meanwhile. Right behind
the stage's vectors, the additions cost next to nothing.
"""

from __future__ import annotations

import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from ..._tvm import unchecked_schedule
from ..blocks import Block
from ..expressions import known, loads_in, replaced
from .rests import copied, parts_of

__all__ = ["joined"]


def joined(sch: s_tir.Schedule, stage: Block, partial: Block, lanes: int) -> s_tir.Schedule | None:
    """Return a scheduled kernel in which a stage is computed where partial sums of it are; None where it cannot be.

    Parameters
    ----------
    sch : Schedule
        The schedule, in which both are in loops of their own.
    stage, partial : Block
        The stage that maps elements to elements, and what sums vectors of it.
    lanes : int
        How many elements of the stage go together.
    """
    made, node = sch.get(stage), sch.get(partial)
    own, total = made.writes[0].source, node.writes[0].source
    loads = [load for load in loads_in(node.body) if load.source.same_as(own)]
    places = [v.var for v in made.iter_vars]
    is_plain = len(loads) == 1 and isinstance(made.body, tirx.BufferStore)
    if not is_plain or len(places) != len(made.body.indices):
        return None
    if not all(i.same_as(v) for i, v in zip(made.body.indices, places, strict=True)):
        return None

    def with_stage(loop: tirx.For) -> tirx.Stmt:
        realize = loop.body
        if not isinstance(realize, s_tir.SBlockRealize) or not realize.block.writes[0].source.same_as(total):
            return loop
        found = [load for load in loads_in(realize.block.body) if load.source.same_as(own)]
        if len(found) != 1:
            return loop  # what the sums begin with
        bound = {v.var: value for v, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
        at = [replaced(index, bound) for index in found[0].indices]
        return tirx.SeqStmt([*_vectors(made, at, loop, lanes), loop])

    def without_stage(statements: tirx.SeqStmt) -> tirx.Stmt:
        kept = [each for each in statements.seq if not _is_of(each, made)]
        if len(kept) == len(statements.seq):
            return statements
        return tirx.SeqStmt(kept) if len(kept) > 1 else kept[0]

    function = sch.mod["main"]
    body = tvm_ffi.structural_map(function.body, (tirx.SeqStmt, without_stage))
    body = tvm_ffi.structural_map(body, (tirx.For, with_stage))
    return unchecked_schedule(function.with_body(body))


def _vectors(made: s_tir.SBlock, at: list[tirx.Expr], loop: tirx.For, lanes: int) -> list[tirx.For]:
    """Return loops over a stage's elements at the places of a loop: whole vectors of them, and what these leave."""
    dtype, simplify = str(loop.loop_var.ty.dtype), Analyzer().simplify
    zero, width = tirx.IntImm(dtype, 0), tirx.IntImm(dtype, lanes)
    count = simplify(loop.extent // lanes)
    rest = simplify(loop.extent - count * lanes)

    def lane(begin: tirx.Expr, extent: tirx.Expr, kind: tirx.ForKind) -> tirx.For:
        var = tirx.Var("lane", dtype)
        values = [replaced(index, {loop.loop_var: begin + var}) for index in at]
        return tirx.For(var, zero, extent, kind, s_tir.SBlockRealize(values, True, copied(made)))

    found, vector = [], tirx.Var("vector", dtype)
    if known(count) != 0:
        inner = lane(vector * width, width, tirx.ForKind.VECTORIZED)
        found.append(tirx.For(vector, zero, count, tirx.ForKind.SERIAL, inner))
    for begin, size in parts_of(rest):
        kind = tirx.ForKind.VECTORIZED if (known(size) or 0) > 1 else tirx.ForKind.SERIAL
        found.append(lane(simplify(count * width + begin), size, kind))
    return found


def _is_of(statement: tirx.Stmt, made: s_tir.SBlock) -> bool:
    """Say whether a statement computes a stage and nothing else."""
    found: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(statement, (s_tir.SBlock, found.append))
    return len(found) == 1 and bool(found[0].same_as(made))
