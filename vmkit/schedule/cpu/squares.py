"""Squares of elements that are transposed in registers: read as vectors along one axis, written along another.

Gathered one by one, an element takes a load and an insertion. A square of as many vectors as each has elements takes
as many loads and stores, and about half as many shuffles as it has elements, a quarter for elements of a byte.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from ..._tvm.nodes import TensorLoad
from ...kernels.builder import T, as_expr, integer, kernel, local, ramp, reinterpreted
from ...kernels.lanes import transposed
from ..blocks import Loop, unmarked
from ..expressions import conjuncts, known, loads_in, replaced, stride, uses

__all__ = ["mark_squares", "with_squares"]

_KEY = "vmkit.square"
_STORED = {"float16": "uint16", "bfloat16": "uint16", "bool": "uint8"}


def mark_squares(sch: s_tir.Schedule, row: Loop, side: int) -> None:
    """Mark a loop along a vector that is read, right within which is the vectorised one along what is written.

    Both have as many iterations as a square has sides, and go to the end of an axis by their block's predicate alone.
    """
    sch.annotate(row, _KEY, side)


def with_squares(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled kernel whose marked loops transpose in registers; one that chooses what it reads stays."""

    def square(loop: tirx.For) -> tirx.Stmt:
        mark = loop.annotations.get(_KEY)
        if mark is None:
            return loop
        plain = tirx.For(
            loop.loop_var, loop.min, loop.extent, loop.kind, loop.body, loop.thread_binding, unmarked(loop, _KEY)
        )
        return _square(plain, int(mark)) or plain

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, square)))


def _square(row: tirx.For, side: int) -> tirx.Stmt | None:
    """Return loops over a square as shuffles: where the sizes allow it, if these are known at run time only."""
    lane, realize = row.body, row.body.body
    block = realize.block
    values = {v.var: value for v, value in zip(block.iter_vars, realize.iter_values, strict=True)}
    tests = [_shifted(values, test, (row.loop_var, lane.loop_var), side) for test in conjuncts(realize.predicate)]
    store = replaced(block.body, values)
    loads = [load for load in loads_in(store.value) if _is_across(load, row.loop_var, lane.loop_var)]
    if not loads:
        return None
    whole = _shuffled(store, loads, (row.loop_var, lane.loop_var), side)
    unsure = [test for test in tests if not isinstance(test, tirx.IntImm)]
    return tirx.IfThenElse(reduce(tirx.And, unsure), whole, row) if unsure else whole


def _shifted(
    values: dict[tirx.Var, tirx.Expr], test: tirx.Expr, along: tuple[tirx.Var, tirx.Var], side: int
) -> tirx.Expr:
    """Let a square that would stick out of an axis end with it, and return whether the axis has room for one."""
    if not isinstance(test, tirx.LT):
        return test
    for var, place in values.items():
        if any(uses(place, each) for each in along) and Analyzer().can_prove_equal(place, test.a):
            dtype = str(place.ty.dtype)
            within = {each: tirx.IntImm(str(each.ty.dtype), 0) for each in along}
            begin = Analyzer().simplify(replaced(place, within))
            last = tirx.max(test.b - tirx.IntImm(dtype, side), tirx.IntImm(dtype, 0))
            values[var] = tirx.min(begin, last) + Analyzer().simplify(place - begin)
            return Analyzer().simplify(test.b >= tirx.IntImm(dtype, side))
    return test


def _is_across(load: TensorLoad, row: tirx.Var, lane: tirx.Var) -> bool:
    """Say whether a load goes along its tensor with the rows of a square, and from line to line with the lanes."""
    if not load.indices:
        return False
    *far, index = _places(load)
    return stride(index, row) == 1 and not uses(index, lane) and not any(uses(each, row) for each in far)


def _places(load: TensorLoad) -> list[tirx.Expr]:
    """Return the indices of a load up to the last axis that has more than one place."""
    pairs = zip(load.indices, load.source.ty.shape, strict=True)
    kept = [index for index, size in pairs if known(size) != 1]
    return kept or list(load.indices)


def _shuffled(
    store: tirx.BufferStore, loads: list[TensorLoad], along: tuple[tirx.Var, tirx.Var], side: int
) -> tirx.Stmt:
    """Return statements that read the vectors of a square, transpose it, and write what is made of its elements."""

    def at(value: tirx.Expr, i: int, j: tirx.Expr | int) -> tirx.Expr:
        return replaced(value, dict(zip(along, (integer(i), as_expr(j)), strict=True)))

    with kernel() as builder:
        squares = [_read(load, at, side) for load in loads]
        for i in range(side):
            with T.vectorized(integer(side)) as j:
                here = integer(i * side) + j

                def element(load: TensorLoad, here: tirx.Expr = here) -> tirx.Expr:
                    found = [s for s, each in zip(squares, loads, strict=True) if tvm_ffi.structural_equal(each, load)]
                    return tirx.BufferLoad(found[0], [here]) if found else load

                value = tvm_ffi.structural_map(store.value, (TensorLoad, element))
                T.buffer_store(store.buffer, at(value, i, j), [at(index, i, j) for index in store.indices])
    return builder.get().body


def _read(load: TensorLoad, at: Callable[[tirx.Expr, int, int], tirx.Expr], side: int) -> tirx.Buffer:
    """Write what reads a square, and return the transposed one: in memory, which LLVM makes registers."""
    dtype = str(load.ty.dtype)
    stored = _STORED.get(dtype, dtype)
    lines = []
    for j in range(side):
        *far, last = [at(index, 0, j) for index in load.indices]
        # Where the axes after the one that is read have one place, it continues in the last of them.
        line = tirx.BufferLoad(load.source, [*far, ramp(last, side)])
        lines.append(T.Bind(_as_type(line, stored, side)))
    square = local(side * side, dtype=dtype)
    for i, column in enumerate(transposed(lines, side, tvm.DataType(stored).bits)):
        T.buffer_store(square, _as_type(column, dtype, side), [ramp(i * side, side)])
    return square


def _as_type(vector: tirx.Expr, dtype: str, side: int) -> tirx.Expr:
    """Return a vector as one of what its elements are stored as, or back: LLVM shuffles no halves nor bits."""
    now = str(vector.ty.dtype)
    if now.partition("x")[0] == dtype:
        return vector
    if "bool" in (now.partition("x")[0], dtype):
        return vector.astype(f"{dtype}x{side}")
    return reinterpreted(f"{dtype}x{side}", vector)
