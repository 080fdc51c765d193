"""The rule for kernels written as loops: those whose iterations are independent are shared among threads.

An iteration is independent of the others if it reads and writes what is written at its own place alone: in every
access of a buffer that the loop writes, the loop's variable is the index of one and the same dimension. Loops of that
kind may be moved outwards, past those whose order matters. Where there is none, as in a running sum of a vector, one
thread does all: slow, and right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import mul
from typing import TypeVar

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Range
from tvm.target import Target

from ..._tvm.nodes import TensorLoad
from ...kernels.builder import with_fields
from ..expressions import replaced, uses

__all__ = ["launch_loops"]

N = TypeVar("N")

_THREADS = 256
_DECLARED = (tirx.ForKind.PARALLEL, tirx.ForKind.VECTORIZED)


def launch_loops(function: tirx.PrimFunc, target: Target) -> tirx.PrimFunc | None:
    """Return a kernel of one block of loops with each nest launched; None for a kernel of several blocks."""
    realize = function.body
    if not isinstance(realize, s_tir.SBlockRealize) or _has_blocks(realize.block.body):
        return None
    made = with_fields(realize.block, body=_launched(realize.block.body))
    return function.with_body(s_tir.SBlockRealize(realize.iter_values, realize.predicate, made))


def _has_blocks(body: tirx.Stmt) -> bool:
    return bool(_found(body, s_tir.SBlock))


def _launched(stmt: tirx.Stmt) -> tirx.Stmt:
    if isinstance(stmt, tirx.SeqStmt) and not any(isinstance(s, tirx.Bind | tirx.AllocBuffer) for s in stmt.seq):
        return tirx.SeqStmt([_launched(s) for s in stmt.seq])
    nest, body = _nest(stmt)
    shared = [loop for loop in nest if _is_free(loop, nest, body)]
    if not shared:
        return _on_threads(tirx.IntImm("int64", 1), 1, lambda _: stmt)
    rest = [loop for loop in nest if not any(loop.same_as(s) for s in shared)]
    count = reduce(mul, [loop.extent.astype("int64") for loop in shared])
    threads = min(_THREADS, int(count)) if isinstance(count, tirx.IntImm) else _THREADS
    return _on_threads(count, max(threads, 1), lambda index: _iteration(index, shared, rest, body))


def _nest(stmt: tirx.Stmt) -> tuple[list[tirx.For], tirx.Stmt]:
    """Return the loops of a perfect nest, and what is inside."""
    loops = []
    while isinstance(stmt, tirx.For):
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def _is_free(loop: tirx.For, nest: Sequence[tirx.For], body: tirx.Stmt) -> bool:
    """Say whether the iterations of a loop may run in any order, and its extent be known before all of the nest."""
    bounds = [loop.min, loop.extent]
    if any(_found(b, TensorLoad) or uses(b, other.loop_var) for b in bounds for other in nest):
        return False
    if int(loop.kind) in _DECLARED:
        return True
    own = [node.buffer for node in _found(body, tirx.AllocBuffer)]
    whole = [body, *(bound for other in nest for bound in (other.min, other.extent))]
    accesses = [(s.buffer, s.indices) for s in _found(body, tirx.BufferStore)]
    written = [buffer for buffer, _ in accesses if not any(buffer.same_as(o) for o in own)]
    accesses += [(load.source, load.indices) for part in whole for load in _found(part, TensorLoad)]
    if _found(body, tirx.Evaluate):
        return False  # a call may do anything
    return all(
        _at_own_place(loop.loop_var, [indices for other, indices in accesses if other.same_as(buffer)])
        for buffer in written
    )


def _at_own_place(variable: tirx.Var, accesses: Sequence[Sequence[tirx.Expr]]) -> bool:
    """Say whether the variable is the index of one dimension in all accesses."""
    return any(all(indices[d].same_as(variable) for indices in accesses) for d in range(len(accesses[0])))


def _found(node: tirx.Stmt | tirx.Expr, kind: type[N]) -> list[N]:
    found: list[N] = []
    tvm_ffi.structural_walk(node, (kind, found.append))
    return found


def _on_threads(count: tirx.Expr, threads: int, iteration: Callable[[tirx.Expr], tirx.Stmt]) -> tirx.Stmt:
    """Return a launch of `count` threads; `iteration(index)` is what each of them does."""
    blocks = tirx.floordiv(count + (threads - 1), threads)
    block, thread = tirx.Var("block", "int64"), tirx.Var("thread", "int64")
    index = block * threads + thread
    is_whole = isinstance(count, tirx.IntImm) and math.fmod(int(count), threads) == 0
    body = iteration(index) if is_whole else tirx.IfThenElse(index < count, iteration(index), None)
    for variable, size, tag in ((thread, tirx.IntImm("int64", threads), "threadIdx.x"), (block, blocks, "blockIdx.x")):
        zero = tirx.IntImm("int64", 0)
        binding = tirx.IterVar(Range(zero, size), variable, tirx.IterVar.ThreadIndex, tag)
        body = tirx.For(variable, zero, size, tirx.ForKind.THREAD_BINDING, body, binding)
    return body


def _iteration(index: tirx.Expr, shared: Sequence[tirx.For], rest: Sequence[tirx.For], body: tirx.Stmt) -> tirx.Stmt:
    """Return what one thread does: its place among the shared loops, and the other loops in their order."""
    for loop in reversed(rest):
        kind = tirx.ForKind.SERIAL
        body = tirx.For(loop.loop_var, loop.min, loop.extent, kind, body, None, loop.annotations)
    places = {}
    for position, loop in reversed(list(enumerate(shared))):
        place = tirx.floormod(index, loop.extent.astype("int64")) if position > 0 else index
        index = tirx.floordiv(index, loop.extent.astype("int64"))
        places[loop.loop_var] = (loop.min + place).astype(str(loop.loop_var.ty.dtype))
    return replaced(body, places)
