"""Exponentials of what lies below a maximum: they are 1 at most, and need no bound that keeps them from overflow.

Softmax subtracts the largest element of a row from each of them. That a kernel does so is seen before it is scheduled,
while a block still says what a maximum is of.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ..._tvm.nodes import TensorLoad
from ...kernels.vector_math import exponential_up_to_one
from ..expressions import replaced

__all__ = ["with_exponents_below_maxima"]


def with_exponents_below_maxima(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel of blocks in which exponentials of ``x - max(x)`` are known to be 1 at most."""
    blocks: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, blocks.append))
    maxima = [block for block in blocks if _term_of_maximum(block) is not None]
    if not maxima:
        return function
    changed = {block: made for block in blocks if (made := _exponents_marked(block, maxima)) is not None}
    if not changed:
        return function
    bodies = {block.body: body for block, body in changed.items()}
    stores = (tirx.BufferStore, lambda store: bodies.get(store, store))
    return function.with_body(tvm_ffi.structural_map(function.body, stores))


def _term_of_maximum(block: s_tir.SBlock) -> tirx.Expr | None:
    """Return what a block finds the maximum of, along all of one axis for each place on the others; None of others."""
    store = block.body
    value = getattr(store, "value", None)
    if block.init is None or not isinstance(store, tirx.BufferStore) or not isinstance(value, tirx.Max):
        return None
    along = [v for v in block.iter_vars if v.iter_type == tirx.IterVar.CommReduce]
    places = [v.var for v in block.iter_vars if v.iter_type == tirx.IterVar.DataPar]
    if len(along) != 1 or len(places) + 1 != len(block.iter_vars) or len(places) != len(store.indices):
        return None
    if not all(index.same_as(place) for index, place in zip(store.indices, places, strict=True)):
        return None
    own, term = (value.a, value.b) if _is_load(value.a, store.buffer) else (value.b, value.a)
    is_own = _is_load(own, store.buffer) and tvm_ffi.structural_equal(list(own.indices), list(store.indices))
    return term if is_own and str(term.ty.dtype) == "float32" else None


def _is_load(expr: tirx.Expr, buffer: tirx.Buffer) -> bool:
    return isinstance(expr, TensorLoad) and bool(expr.source.same_as(buffer))


def _exponents_marked(block: s_tir.SBlock, maxima: list[s_tir.SBlock]) -> tirx.Stmt | None:
    """Return the body of a block with its exponentials below maxima marked; None where there are none."""
    found: list[tvm.ir.Call] = []

    def marked(call: tvm.ir.Call) -> tirx.Expr:
        if getattr(call.op, "name", "") != "tirx.exp" or not any(_is_below(call.args[0], m, block) for m in maxima):
            return call
        found.append(call)
        return exponential_up_to_one(call.args[0])

    body = tvm_ffi.structural_map(block.body, (tvm.ir.Call, marked))
    return body if found and isinstance(block.body, tirx.BufferStore) else None


def _is_below(argument: tirx.Expr, maximum: s_tir.SBlock, block: s_tir.SBlock) -> bool:
    """Say whether an argument is an element minus the maximum of a row that it is of."""
    store, term = maximum.body, _term_of_maximum(maximum)
    if not isinstance(argument, tirx.Sub) or not _is_load(argument.b, store.buffer):
        return False
    along = next(v for v in maximum.iter_vars if v.iter_type == tirx.IterVar.CommReduce)
    at = dict(zip(store.indices, argument.b.indices, strict=True))
    return any(
        tvm_ffi.structural_equal(replaced(term, {**at, along.var: v.var}), argument.a)
        for v in block.iter_vars
        if tvm_ffi.structural_equal(v.dom, along.dom)
    )
