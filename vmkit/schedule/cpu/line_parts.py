"""Lines of unknown size that read their data otherwise at their borders: a loop for each border, and one between.

A line that is padded with its own elements asks of each whether it lies outside, and where it is read from then. In
one loop with these tests LLVM makes no vectors; between the borders, without them, the line is copied.
"""

from __future__ import annotations

from collections.abc import Callable

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from ...kernels.builder import with_fields
from ..blocks import Block, Loop, extent, unmarked
from ..expressions import choices_in, decided, loads_in, replaced, uses
from .boundary_peeling import copied

__all__ = ["mark_line_parts", "with_line_parts"]

_KEY = "vmkit.line_parts"
_MOST = 3  # tests, each of which is one loop more


def mark_line_parts(sch: s_tir.Schedule, block: Block, line: Loop) -> None:
    """Mark the innermost loop of a block if it is of unknown size, and reads one tensor by choices of place alone."""
    node = sch.get(block)
    if extent(sch, line) is not None or not isinstance(node.body, tirx.BufferStore):
        return
    place, found = node.iter_vars[-1].var, choices_in(node.body.value)
    is_of_one = len({load.source for choice in found for load in loads_in(choice)}) == 1
    if (
        is_of_one
        and len(found) <= _MOST
        and all(_begin(each, place) is not None for each in found)
        and sch.get(line).loop_var.same_as(_bound(sch, line))
    ):
        sch.annotate(line, _KEY, 1)


def with_line_parts(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled kernel in which marked loops are cut where what they read changes."""

    def cut(loop: tirx.For) -> tirx.Stmt:
        if _KEY not in loop.annotations:
            return loop
        block, zero = loop.body.block, tirx.IntImm(str(loop.loop_var.ty.dtype), 0)
        parts = _parts(zero, loop.extent, block.body.value, block.iter_vars[-1].var, _sizes(loop.extent).simplify)
        return tirx.SeqStmt([_part(loop, *part) for part in parts])

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, cut)))


def _bound(sch: s_tir.Schedule, line: Loop) -> tirx.Expr | None:
    """Return the last place of the block right within a loop; None where another statement is there."""
    body = sch.get(line).body
    return body.iter_values[-1] if isinstance(body, s_tir.SBlockRealize) else None


def _begin(choice: tvm.ir.Call, place: tirx.Var) -> tirx.Expr | None:
    """Return the place from which a choice is for its first value; None of one by anything else."""
    test = choice.args[0]
    if not isinstance(test, tirx.LE | tirx.LT) or not test.b.same_as(place):
        return None
    if uses(test.a, place) or loads_in(test.a):
        return None
    return test.a if isinstance(test, tirx.LE) else test.a + 1


def _parts(
    first: tirx.Expr,
    end: tirx.Expr,
    value: tirx.Expr,
    place: tirx.Var,
    simplify: Callable[[tirx.Expr], tirx.Expr],
) -> list[tuple[tirx.Expr, tirx.Expr, tirx.Expr]]:
    """Return the places from which and to which each value is read, in order."""
    found = choices_in(value)
    begin = _begin(found[-1], place) if found else None
    if begin is None:
        return [(first, end, value)]
    at = simplify(tirx.max(first, tirx.min(begin, end)))
    test = found[-1].args[0]
    parts = ((first, at, decided(value, test, 2)), (at, end, decided(value, test, 1)))
    return [each for part in parts for each in _parts(*part, place, simplify)]


def _sizes(extent: tirx.Expr) -> Analyzer:
    """Return what is known of the sizes in an extent: that none is below 0."""
    known = Analyzer()
    found: list[tirx.Var] = []
    tvm_ffi.structural_walk(extent, (tvm.ir.Var, found.append))
    for size in found:
        dtype = str(size.ty.dtype)
        known.bind(size, tvm.ir.Range(tirx.IntImm(dtype, 0), tirx.max_value(dtype)))
    return known


def _part(loop: tirx.For, first: tirx.Expr, end: tirx.Expr, value: tirx.Expr) -> tirx.For:
    """Return the loop over a part of a line, in which one value is read."""
    var = tirx.Var(loop.loop_var.name, str(loop.loop_var.ty.dtype))
    realize, store = loop.body, loop.body.block.body
    block = with_fields(realize.block, body=tirx.BufferStore(store.buffer, value, store.indices))
    own = s_tir.SBlockRealize(realize.iter_values, realize.predicate, block)
    body = copied(replaced(own, {loop.loop_var: first + var}))
    zero = tirx.IntImm(str(var.ty.dtype), 0)
    count = Analyzer().simplify(end - first)
    return tirx.For(var, zero, count, loop.kind, body, loop.thread_binding, unmarked(loop, _KEY))
