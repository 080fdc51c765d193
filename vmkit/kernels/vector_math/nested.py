"""Functions of functions: what one is a function of is stored, so that the other is arithmetic as well.

TVM's analysis writes out what a name stands for wherever it is read: a function of a function of a function would grow
out of bounds. What is read from memory it leaves alone, and LLVM keeps a single number of it in a register.
"""

from __future__ import annotations

from collections.abc import Callable

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ..._tvm.nodes import is_choice
from ..builder import with_fields

__all__ = ["left_to_llvm", "with_stored_arguments"]

IsFunction = Callable[[tvm.ir.Call], bool]
"""Whether a call is of a function that is written out."""


def with_stored_arguments(body: tirx.Stmt, is_function: IsFunction) -> tirx.Stmt:
    """Return statements in which no block's one value that is always computed has a function of a function in it."""
    storing: set[s_tir.SBlock] = set()

    def stored(block: s_tir.SBlock) -> s_tir.SBlock:
        made = _stored(block, is_function)
        if not made.same_as(block):
            storing.add(made)
        return made

    return tvm_ffi.structural_map(body, [(s_tir.SBlock, stored), (tirx.For, lambda loop: left_to_llvm(loop, storing))])


def left_to_llvm(loop: tirx.For, storing: set[s_tir.SBlock]) -> tirx.For:
    """Return a loop that goes element by element if some blocks are in it, which store what they compute with.

    LLVM makes vectors of it; TVM would keep one number for all iterations.
    """
    found: list[s_tir.SBlock] = []
    if loop.kind == tirx.ForKind.VECTORIZED:
        tvm_ffi.structural_walk(loop.body, (s_tir.SBlock, found.append))
    if not storing.intersection(found):
        return loop
    return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body, None, loop.annotations)


def _stored(block: s_tir.SBlock, is_function: IsFunction) -> s_tir.SBlock:
    if not isinstance(block.body, tirx.BufferStore):
        return block
    buffers, stores, value = list(block.alloc_buffers), [], block.body.value
    zero = tirx.IntImm("int64", 0)
    while (outer := _first_outer(value, is_function)) is not None:
        arguments = list(outer.args)
        at = next(at for at, each in enumerate(arguments) if _functions_in(each, is_function))
        inner = tirx.decl_buffer([1], str(arguments[at].ty.dtype), "inner", scope="local")
        buffers.append(inner)
        stores.append(tirx.BufferStore(inner, arguments[at], [zero]))
        arguments[at] = inner[zero]
        made = tvm.ir.Call(outer.op, arguments, outer.attrs, ret_ty=outer.ty)
        value = tvm_ffi.structural_map(value, (tvm.ir.Call, lambda c, outer=outer, made=made: _if(c, outer, made)))
    if not stores:
        return block
    last = tirx.BufferStore(block.body.buffer, value, block.body.indices)
    return with_fields(block, alloc_buffers=buffers, body=tirx.SeqStmt([*stores, last]))


def _if(call: tvm.ir.Call, outer: tvm.ir.Call, made: tvm.ir.Call) -> tvm.ir.Call:
    return made if call.same_as(outer) else call


def _first_outer(value: tirx.Expr, is_function: IsFunction) -> tvm.ir.Call | None:
    """Return a function of a function in whose arguments there is no further one; None where there is none.

    What a choice computes may read what is there in one case alone, and names in an expression are known there alone.
    """
    found = [
        call for call in _functions_in(value, is_function) if any(_functions_in(a, is_function) for a in call.args)
    ]
    if not found:
        return None
    bound: set[tirx.Expr] = set()

    def note(node: tirx.Expr) -> None:
        if isinstance(node, tirx.Select | tirx.Let) or is_choice(node):
            bound.update(_functions_in(node, is_function))

    tvm_ffi.structural_walk(value, (tvm.ir.Expr, note))
    free = [call for call in found if call not in bound]
    return next((c for c in free if not any(set(free) & set(_functions_in(a, is_function)) for a in c.args)), None)


def _functions_in(value: tirx.Expr, is_function: IsFunction) -> list[tvm.ir.Call]:
    found: list[tvm.ir.Call] = []
    tvm_ffi.structural_walk(value, (tvm.ir.Call, lambda call: found.append(call) if is_function(call) else None))
    return found
