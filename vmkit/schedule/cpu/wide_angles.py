"""Sines and cosines of float64: in vectors where a part of a loop has no large angle, else by the C library.

Taking whole turns off an angle takes the more digits of pi the larger it is, so for large ones there is no arithmetic
that is as good for vectors. Parts of a loop look at their angles first; nearly all have none.
"""

from __future__ import annotations

from functools import reduce

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ...kernels.builder import with_fields
from ...kernels.vector_math import doubles
from ..expressions import replaced
from .boundary_peeling import copied

__all__ = ["with_wide_angles"]

_FUNCTIONS = {"tirx.cos": doubles.cos, "tirx.sin": doubles.sin}
_PART = 256  # elements that are looked at together: they stay in the nearest cache
_KINDS = (tirx.ForKind.SERIAL, tirx.ForKind.PARALLEL, tirx.ForKind.VECTORIZED)


def with_wide_angles(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled kernel in which innermost loops over sines or cosines of float64 have two forms."""
    flags: list[tirx.Buffer] = []

    def twofold(loop: tirx.For) -> tirx.Stmt:
        angles = _angles(loop)
        if not angles:
            return loop
        flags.append(tirx.decl_buffer([1], "int32", "is_large", scope="local"))
        return _parts(loop, angles, flags[-1])

    if not isinstance(function.body, s_tir.SBlockRealize):
        return function
    body = tvm_ffi.structural_map(function.body, (tirx.For, twofold))
    if not flags:
        return function
    block = with_fields(body.block, alloc_buffers=[*body.block.alloc_buffers, *flags])
    return function.with_body(s_tir.SBlockRealize(body.iter_values, body.predicate, block))


def _angles(loop: tirx.For) -> list[tirx.Expr]:
    """Return the angles of an iteration of a loop over a single store; none where they take more than arithmetic."""
    realize = loop.body
    if loop.kind not in _KINDS or not isinstance(realize, s_tir.SBlockRealize):
        return []
    block = realize.block
    if not isinstance(block.body, tirx.BufferStore) or block.init is not None:
        return []
    found: list[tirx.Expr] = []
    tvm_ffi.structural_walk(block.body, (tvm.ir.Call, lambda c: found.append(c.args[0]) if _is_wave(c) else None))
    calls: list[tvm.ir.Call | tirx.Let] = []
    tvm_ffi.structural_walk(found, [(tvm.ir.Call, calls.append), (tirx.Let, calls.append)])
    values = {v.var: value for v, value in zip(block.iter_vars, realize.iter_values, strict=True)}
    return [] if calls else [replaced(angle, values) for angle in found]


def _is_wave(call: tvm.ir.Call) -> bool:
    return getattr(call.op, "name", "") in _FUNCTIONS and str(getattr(call.ty, "dtype", "")) == "float64"


def _parts(loop: tirx.For, angles: list[tirx.Expr], flag: tirx.Buffer) -> tirx.Stmt:
    """Return a loop over parts of a loop, each of which looks at its angles and then goes one way or the other."""
    dtype = str(loop.loop_var.ty.dtype)
    zero, most, size = tirx.IntImm(dtype, 0), tirx.IntImm(dtype, _PART), loop.extent
    is_one = loop.kind == tirx.ForKind.VECTORIZED or (isinstance(size, tirx.IntImm) and int(size) <= _PART)
    part = tirx.Var(f"{loop.loop_var.name}_part", dtype)
    begin = loop.min if is_one else loop.min + part * most
    count = size if is_one else tirx.min(most, size - part * most)

    def over(body: tirx.Stmt, kind: int) -> tirx.For:
        here = tirx.Var(loop.loop_var.name, dtype)
        moved = copied(replaced(body, {loop.loop_var: begin + here}))
        return tirx.For(here, zero, count, kind, moved, loop.thread_binding, loop.annotations)

    def in_vectors(call: tvm.ir.Call) -> tirx.Expr:
        return _FUNCTIONS[call.op.name](call.args[0]) if _is_wave(call) else call

    first, limit = [tirx.IntImm("int32", 0)], tirx.const(doubles.LARGEST_ANGLE, "float64")
    is_large = reduce(tirx.Or, [tirx.abs(angle) > limit for angle in angles])
    noted = tirx.BufferLoad(flag, first) | is_large.astype("int32")
    fast = tvm_ffi.structural_map(loop.body, (tvm.ir.Call, in_vectors))
    kind = tirx.ForKind.SERIAL if loop.kind == tirx.ForKind.PARALLEL else loop.kind
    whole = tirx.SeqStmt(
        [
            tirx.BufferStore(flag, tirx.IntImm("int32", 0), first),
            over(tirx.BufferStore(flag, noted, first), tirx.ForKind.SERIAL),
            tirx.IfThenElse(
                tirx.BufferLoad(flag, first) == tirx.IntImm("int32", 0),
                over(fast, kind),
                over(loop.body, tirx.ForKind.SERIAL),
            ),
        ]
    )
    if is_one:
        return whole
    outer = loop.kind if loop.kind == tirx.ForKind.PARALLEL else tirx.ForKind.SERIAL
    return tirx.For(part, zero, tirx.ceildiv(size, most), outer, whole)
