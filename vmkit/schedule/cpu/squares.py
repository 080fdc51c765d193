"""Squares of elements that are transposed in registers: read as vectors along one axis, written along another.

Gathered one by one, an element takes a load and an insertion. A square of as many vectors as each has elements takes
as many loads and stores, and about half as many shuffles as it has elements, a quarter for elements of a byte. Several
squares of narrow elements, side by side in a wide vector, take the shuffles of one, and are written a line at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import product

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from ..._tvm.nodes import TensorLoad
from ...kernels.builder import T, as_expr, integer, kernel, local, ramp, reinterpreted
from ...kernels.lanes import transposed, transposed_together
from ..blocks import Loop, unmarked
from ..expressions import choices_in, conjuncts, decided, known, loads_in, replaced, stride, uses

__all__ = ["mark_squares", "with_squares"]

_KEY = "vmkit.square"
_PARTS = 8  # of a concatenation, each of which has a square of its own
_STORED = {"float16": "uint16", "bfloat16": "uint16", "bool": "uint8"}

Along = tuple[tirx.Var, tirx.Var]  # what goes along the rows of a square, and along its lanes
Sides = tuple[int, int]  # of a square, or of several whose lanes lie side by side


def mark_squares(sch: s_tir.Schedule, row: Loop, side: int) -> None:
    """Mark a loop along a vector that is read, right within which is the vectorised one along what is written.

    Both have as many iterations as a square has sides, the one along what is written once for each square side by side.
    They go to the end of an axis by their block's predicate alone.
    """
    sch.annotate(row, _KEY, side)


def with_squares(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled kernel whose marked loops transpose in registers.

    Of what is chosen by place, as the parts of a concatenation are, a square that lies in one part reads that alone;
    elements of one that lies across a seam are read one by one.
    """

    def square(loop: tirx.For) -> tirx.Stmt:
        mark = loop.annotations.get(_KEY)
        if mark is None:
            return loop
        plain = tirx.For(
            loop.loop_var, loop.min, loop.extent, loop.kind, loop.body, loop.thread_binding, unmarked(loop, _KEY)
        )
        return _square(plain, (int(mark), int(loop.body.extent))) or plain

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, square)))


def _square(row: tirx.For, sides: Sides) -> tirx.Stmt | None:
    """Return loops over a square as shuffles: where the sizes allow it, if these are known at run time only."""
    lane, realize = row.body, row.body.body
    block = realize.block
    values = {v.var: value for v, value in zip(block.iter_vars, realize.iter_values, strict=True)}
    tests = [_shifted(values, test, (row.loop_var, lane.loop_var), sides) for test in conjuncts(realize.predicate)]
    store = replaced(block.body, values)
    along = (row.loop_var, lane.loop_var)
    parts = _parts(store.value, along, sides)
    found = [[load for load in _always_read(value) if _is_across(load, *along)] for _, value in parts]
    if not any(found):
        return None
    unsure = [test for test in tests if not isinstance(test, tirx.IntImm)]
    result: tirx.Stmt = row
    for (guards, value), loads in zip(reversed(parts), reversed(found), strict=True):
        whole = _shuffled(tirx.BufferStore(store.buffer, value, store.indices), loads, along, sides)
        needed = [*unsure, *guards]
        result = tirx.IfThenElse(reduce(tirx.And, needed), whole, result) if needed else whole
    return result


def _parts(value: tirx.Expr, along: Along, sides: Sides) -> list[tuple[list[tirx.Expr], tirx.Expr]]:
    """Return what a value is in squares that lie in one part of what it is chosen from, and when a square does.

    Both ways of a choice must not be read, since only the chosen one is within its tensor there. A choice that no
    comparison of places makes is left in the value.
    """
    parts: list[tuple[list[tirx.Expr], tirx.Expr]] = [([], value)]
    while (at := _first_choice(parts, along)) is not None and len(parts) < _PARTS:
        place, condition = at
        guards, chosen = parts[place]
        tests = [(test, _at_corners(test, along, sides)) for test in conjuncts(condition)]
        inside = [each for _, corners in tests for each in corners]
        outside = [reduce(tirx.And, map(_negated, corners)) for _, corners in tests]
        parts[place : place + 1] = [
            ([*guards, *inside], decided(chosen, condition, 1)),
            ([*guards, reduce(tirx.Or, outside)], decided(chosen, condition, 2)),
        ]
    return parts


def _first_choice(parts: list[tuple[list[tirx.Expr], tirx.Expr]], along: Along) -> tuple[int, tirx.Expr] | None:
    """Return a part that reads what a choice by places chooses, and the outermost such choice's condition."""
    for place, (_, value) in enumerate(parts):
        for choice in sorted(choices_in(value), key=lambda choice: -len(loads_in(choice))):
            is_read = any(_is_across(load, *along) for each in choice.args[1:] for load in loads_in(each))
            if is_read and all(_is_by_place(test, along) for test in conjuncts(choice.args[0])):
                return place, choice.args[0]
    return None


def _is_by_place(test: tirx.Expr, along: Along) -> bool:
    """Say whether a test compares places that move evenly along a square: then its corners tell of all of it."""
    if not isinstance(test, tirx.LT | tirx.LE | tirx.GT | tirx.GE) or loads_in(test):
        return False
    return all(stride(test.a - test.b, var) is not None for var in along)


def _at_corners(test: tirx.Expr, along: Along, sides: Sides) -> list[tirx.Expr]:
    """Return a test at the corners of a square, each of them once."""
    ends = [[0, n - 1] if stride(test.a - test.b, var) else [0] for var, n in zip(along, sides, strict=True)]
    corners = product(*ends)
    return [replaced(test, dict(zip(along, map(integer, corner), strict=True))) for corner in corners]


def _negated(test: tirx.Expr) -> tirx.Expr:
    return Analyzer().simplify(tirx.Not(test))


def _always_read(value: tirx.Expr) -> list[TensorLoad]:
    """Return the reads of a value that are not one way of a choice."""
    chosen = [load for choice in choices_in(value) for each in choice.args[1:] for load in loads_in(each)]
    return [load for load in loads_in(value) if not any(load.same_as(each) for each in chosen)]


def _shifted(values: dict[tirx.Var, tirx.Expr], test: tirx.Expr, along: Along, sides: Sides) -> tirx.Expr:
    """Let a square that would stick out of an axis end with it, and return whether the axis has room for one."""
    if not isinstance(test, tirx.LT):
        return test
    for var, place in values.items():
        if any(uses(place, each) for each in along) and Analyzer().can_prove_equal(place, test.a):
            dtype = str(place.ty.dtype)
            within = {each: tirx.IntImm(str(each.ty.dtype), 0) for each in along}
            begin = Analyzer().simplify(replaced(place, within))
            side = next(n for each, n in zip(along, sides, strict=True) if uses(place, each))
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


def _shuffled(store: tirx.BufferStore, loads: list[TensorLoad], along: Along, sides: Sides) -> tirx.Stmt:
    """Return statements that read the vectors of a square, transpose it, and write what is made of its elements."""

    def at(value: tirx.Expr, i: int, j: tirx.Expr | int) -> tirx.Expr:
        return replaced(value, dict(zip(along, (integer(i), as_expr(j)), strict=True)))

    with kernel() as builder:
        side, lanes = sides
        squares = [_read(load, at, sides) for load in loads]
        for i in range(side):
            with T.vectorized(integer(lanes)) as j:
                here = integer(i * lanes) + j

                def element(load: TensorLoad, here: tirx.Expr = here) -> tirx.Expr:
                    found = [s for s, each in zip(squares, loads, strict=True) if tvm_ffi.structural_equal(each, load)]
                    return tirx.BufferLoad(found[0], [here]) if found else load

                value = tvm_ffi.structural_map(store.value, (TensorLoad, element))
                T.buffer_store(store.buffer, at(value, i, j), [at(index, i, j) for index in store.indices])
    return builder.get().body


def _read(load: TensorLoad, at: Callable[[tirx.Expr, int, int], tirx.Expr], sides: Sides) -> tirx.Buffer:
    """Write what reads a square, and return the transposed one: in memory, which LLVM makes registers."""
    dtype, (side, lanes) = str(load.ty.dtype), sides
    stored = _STORED.get(dtype, dtype)
    lines = []
    for j in range(lanes):
        *far, last = [at(index, 0, j) for index in load.indices]
        # Where the axes after the one that is read have one place, it continues in the last of them.
        line = tirx.BufferLoad(load.source, [*far, ramp(last, side)])
        lines.append(T.Bind(_as_type(line, stored, side)))
    square, bits = local(side * lanes, dtype=dtype), tvm.DataType(stored).bits
    columns = transposed(lines, side, bits) if lanes == side else transposed_together(lines, side)
    for i, column in enumerate(columns):
        T.buffer_store(square, _as_type(column, dtype, lanes), [ramp(i * lanes, lanes)])
    return square


def _as_type(vector: tirx.Expr, dtype: str, side: int) -> tirx.Expr:
    """Return a vector as one of what its elements are stored as, or back: LLVM shuffles no halves nor bits."""
    now = str(vector.ty.dtype)
    if now.partition("x")[0] == dtype:
        return vector
    if "bool" in (now.partition("x")[0], dtype):
        return vector.astype(f"{dtype}x{side}")
    return reinterpreted(f"{dtype}x{side}", vector)
