"""Reductions along rows in vectors, where what whole vectors leave over is a loop of its own."""

from __future__ import annotations

import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from ..blocks import Loop
from ..expressions import known, replaced

__all__ = ["copied", "parts_of", "stop_at", "whole_or_rest"]


def stop_at(sch: s_tir.Schedule, steps: Loop, sums: int, width: tirx.Expr, of_vectors: bool = False) -> None:
    """Let partial sums end where the row does, which a block forgets when it is computed at another's loop.

    Right within the steps, or within loops over several rows there, is the loop along a vector; or, if `of_vectors`,
    one over the vectors of as many sums, which goes around it.
    """
    loop = sch.get(steps)
    dtype = str(loop.loop_var.ty.dtype)
    zero, count = tirx.IntImm(dtype, 0), Analyzer().simplify(width // sums)
    rest = Analyzer().simplify(width - count * sums)
    lanes = loop.body
    while isinstance(lanes.body, tirx.For):
        lanes = lanes.body
    realize = lanes.body
    nest = loop.body
    if of_vectors:  # what is left goes along the first one, and on beyond it
        values = [replaced(value, {nest.loop_var: zero}) for value in realize.iter_values]
        along = s_tir.SBlockRealize(values, True, realize.block)
        nest = tirx.For(lanes.loop_var, zero, lanes.extent, tirx.ForKind.SERIAL, along)
    left = [_rest(nest, count, begin, size, loop.loop_var) for begin, size in parts_of(rest)]
    within = _with_innermost(loop.body, s_tir.SBlockRealize(realize.iter_values, True, realize.block))
    whole = tirx.For(loop.loop_var, zero, count, loop.kind, within)
    # A row of a symbolic size, as 8 * n, may be known to leave nothing.
    both = tirx.SeqStmt([whole, *left]) if left else whole
    once = tirx.For(tirx.Var("once", dtype), zero, tirx.IntImm(dtype, 1), tirx.ForKind.SERIAL, both)
    sch.state.replace(sch.get_sref(steps), once, {realize.block: realize.block})


def whole_or_rest(sch: s_tir.Schedule, line: Loop) -> None:
    """Have a line that an axis may end in tested for that as a whole: either loop has a known number of iterations.

    Of what is tested for each element LLVM makes no vectors, or those of more elements than there are.
    """
    loop = sch.get(line)
    realize, size = loop.body, known(loop.extent)
    test = realize.predicate if isinstance(realize, s_tir.SBlockRealize) else None
    if not isinstance(test, tirx.LT) or size is None:
        return
    var, end, dtype = loop.loop_var, known(test.b), str(loop.loop_var.ty.dtype)
    zero = tirx.IntImm(dtype, 0)
    first, last = (replaced(test.a, {var: tirx.IntImm(dtype, at)}) for at in (0, size - 1))
    if not end or not end % size or not Analyzer().can_prove_equal(Analyzer().simplify(test.a - var), first):
        return
    fresh = tirx.Var(var.name, dtype)
    values = [replaced(value, {var: fresh}) for value in realize.iter_values]
    whole = tirx.For(var, zero, loop.extent, loop.kind, s_tir.SBlockRealize(realize.iter_values, True, realize.block))
    along = s_tir.SBlockRealize(values, True, copied(realize.block))
    rest = tirx.For(fresh, zero, tirx.IntImm(dtype, end % size), loop.kind, along)
    either = tirx.IfThenElse(last < test.b, whole, rest)
    once = tirx.For(tirx.Var("once", dtype), zero, tirx.IntImm(dtype, 1), tirx.ForKind.SERIAL, either)
    sch.state.replace(sch.get_sref(line), once, {realize.block: realize.block})


def parts_of(rest: tirx.Expr) -> list[tuple[tirx.Expr, tirx.Expr]]:
    """Return where parts of what is left begin, and their sizes: powers of 2, which vectors have, where it is known."""
    dtype, size, begin = str(rest.ty.dtype), known(rest), 0
    parts: list[tuple[tirx.Expr, tirx.Expr]] = []
    if size is None:
        return [(tirx.IntImm(dtype, 0), rest)]
    while begin < size:
        part = 1 << (size - begin).bit_length() - 1
        parts.append((tirx.IntImm(dtype, begin), tirx.IntImm(dtype, part)))
        begin += part
    return parts


def _rest(nest: tirx.For, count: tirx.Expr, begin: tirx.Expr, size: tirx.Expr, step: tirx.Var) -> tirx.For:
    """Return loops over a part of what is left after so many whole vectors, with a block of their own."""
    var = tirx.Var(nest.loop_var.name, str(nest.loop_var.ty.dtype))
    if isinstance(nest.body, tirx.For):
        inner = replaced(_rest(nest.body, count, begin, size, step), {nest.loop_var: var})
        return tirx.For(var, nest.min, nest.extent, nest.kind, inner)
    realize = nest.body
    values = [replaced(value, {step: count, nest.loop_var: begin + var}) for value in realize.iter_values]
    kind = nest.kind if (known(size) or 0) > 1 else tirx.ForKind.SERIAL
    return tirx.For(var, nest.min, size, kind, s_tir.SBlockRealize(values, True, copied(realize.block)))


def _with_innermost(nest: tirx.For, body: tirx.Stmt) -> tirx.For:
    inner = _with_innermost(nest.body, body) if isinstance(nest.body, tirx.For) else body
    return tirx.For(nest.loop_var, nest.min, nest.extent, nest.kind, inner)


def copied(block: s_tir.SBlock) -> s_tir.SBlock:
    """Return a block with variables of its own."""
    bound: list[tirx.Bind] = []
    tvm_ffi.structural_walk(block.body, (tirx.Bind, bound.append))
    own = [*(v.var for v in block.iter_vars), *(each.var for each in bound)]
    fresh = {var: tirx.Var(var.name, str(var.ty.dtype)) for var in own}
    variables = [tirx.IterVar(v.dom, fresh[v.var], v.iter_type) for v in block.iter_vars]
    regions = [replaced(list(regions), fresh) for regions in (block.reads, block.writes)]
    return s_tir.SBlock(variables, *regions, f"{block.name_hint}_rest", replaced(block.body, fresh))
