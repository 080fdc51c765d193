"""Elements that are copied as they lie, in long runs: parts of a tensor, joined tensors, whole rows that are looked up.

How a run is copied best is the C library's to know, which looks at the processor that it runs on: one with fast string
instructions copies by these a fifth faster than by vectors, as soon as a run is no longer in the first cache. Runs that
are known to be short are left to the rules, which copy them by vectors; so do few of them beside long ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from operator import mul

import tvm
from tvm import s_tir, tirx
from tvm.sym import Analyzer
from tvm.target import Target

from ..._dataclasses import dataclass
from ..._tvm.nodes import TensorLoad, is_choice
from ...kernels.builder import PARALLEL_SIZE, T, either, in_one_axis, in_parallel, integer, kernel, loop
from ...target.processor import CACHES
from ..blocks import kernel_blocks
from ..expressions import conjuncts, known, loads_in, replaced, uses
from .stages import nests_of, with_nests

__all__ = ["with_contiguous_copies"]

_LONG = CACHES.first // 2  # bytes of a run that the C library copies at least as fast as vectors do
_CHUNK = 2 * CACHES.first  # bytes that are worth a core's turn
_SHARED = 64  # turns that can be shared evenly among the cores of most machines


_Places = tuple[tirx.Expr, tirx.Expr]


@dataclass(frozen=True)
class _Piece:
    """What is copied to the elements between two places on the axis that runs begin with: a read, or a number."""

    value: tirx.Expr
    begin: tirx.Expr
    end: tirx.Expr


@dataclass(frozen=True)
class _Copy:
    """A copy by runs, which go along the axes of the result from the `first` one on."""

    result: tirx.Buffer
    axes: Sequence[tirx.Var]
    sizes: Sequence[tirx.Expr]
    first: int
    pieces: Sequence[_Piece]

    @property
    def unit(self) -> int:
        """The bytes of an element."""
        return _bits(self.result) // 8

    def length(self, piece: _Piece) -> tirx.Expr:
        """Return how many elements a run of a piece has."""
        places = tirx.max(piece.end - piece.begin, integer(0))
        return Analyzer().simplify(_product([places, *self.sizes[self.first + 1 :]]))


def with_contiguous_copies(plain: s_tir.Schedule, target: Target) -> tirx.PrimFunc | None:
    """Return a kernel that only copies runs, of which some are long or may be; None for another, or not for LLVM."""
    blocks, function = kernel_blocks(plain), plain.mod["main"]
    if target.kind.name != "llvm" or len(blocks) != 1 or len(nests_of(function)) != 1:
        return None
    copy = _copy_of(plain.get(blocks[0]))
    if copy is None or not any(_may_be_long(copy, piece) for piece in copy.pieces):
        return None
    with kernel() as builder:
        _emit(copy)
    block = with_nests(function.body.block, [builder.get().body], ())
    return function.with_body(s_tir.SBlockRealize(function.body.iter_values, function.body.predicate, block))


def _may_be_long(copy: _Copy, piece: _Piece) -> bool:
    length = known(copy.length(piece)) if isinstance(piece.value, TensorLoad) else 0
    return length is None or length * copy.unit >= _LONG


# -- what is copied


def _copy_of(node: s_tir.SBlock) -> _Copy | None:
    """Return the runs that a block copies; None where it does anything else."""
    store, axes = node.body, [v.var for v in node.iter_vars]
    if not isinstance(store, tirx.BufferStore) or not axes or not _are(store.indices, axes):
        return None
    if not _is_whole(store.buffer) or any(known(v.dom.min) != 0 for v in node.iter_vars):
        return None
    sizes = [v.dom.extent.astype("int64") for v in node.iter_vars]
    if is_choice(store.value):
        at = next((at for at, axis in enumerate(axes) if uses(store.value.args[0], axis)), None)
    else:
        at = _first(store.value, axes, sizes)
    if at is None:
        return None
    pieces = _pieces(store.value, axes, at, (integer(0), sizes[at]))
    starts = [_first(piece.value, axes, sizes) for piece in pieces or () if isinstance(piece.value, TensorLoad)]
    is_along = bool(starts) and all(first is not None and first <= at for first in starts)
    return _Copy(store.buffer, axes, sizes, at, pieces) if pieces and is_along else None


def _pieces(value: tirx.Expr, axes: Sequence[tirx.Var], at: int, places: _Places) -> list[_Piece] | None:
    """Return what is copied to elements between two places on an axis; None where elements are not copied."""
    begin, end = places
    if Analyzer().can_prove(begin >= end):
        return []
    if isinstance(value, TensorLoad | tirx.FloatImm | tirx.IntImm):
        return [_Piece(value, begin, end)]
    inside = _inside(value.args[0], axes, at) if is_choice(value) else None
    if inside is None:
        return None
    simplified, (low, high) = Analyzer().simplify, inside
    first = begin if low is None else simplified(tirx.max(begin, low))
    last = end if high is None else simplified(tirx.min(end, high))
    found = [_pieces(value.args[1], axes, at, (first, last))]
    if low is not None:
        found.insert(0, _pieces(value.args[2], axes, at, (begin, simplified(tirx.min(end, low)))))
    if high is not None:
        found.append(_pieces(value.args[2], axes, at, (simplified(tirx.max(begin, high)), end)))
    return None if None in found else [piece for pieces in found for piece in pieces or ()]


def _inside(test: tirx.Expr, axes: Sequence[tirx.Var], at: int) -> tuple[tirx.Expr | None, tirx.Expr | None] | None:
    """Return from where on an axis a test holds, and where no longer, with no limit None; None of another test."""
    limits: list[list[tirx.Expr]] = [[], []]
    for each in conjuncts(test):
        if isinstance(each, tirx.LE) and each.b.same_as(axes[at]):
            limits[0].append(each.a.astype("int64"))
        elif isinstance(each, tirx.LT) and each.a.same_as(axes[at]):
            limits[1].append(each.b.astype("int64"))
        else:
            return None
    if any(loads_in(limit) or any(uses(limit, axis) for axis in axes) for limit in (*limits[0], *limits[1])):
        return None
    low, high = (reduce(of, each) if each else None for of, each in zip((tirx.max, tirx.min), limits, strict=True))
    return low, high


def _first(load: tirx.Expr, axes: Sequence[tirx.Var], sizes: Sequence[tirx.Expr]) -> int | None:
    """Return the first of the last axes that a read goes along in memory; None where it goes along none."""
    if not isinstance(load, TensorLoad) or not _is_whole(load.source):
        return None
    indices, shape, found = list(load.indices), list(load.source.ty.shape), None
    for back in range(1, min(len(indices), len(axes)) + 1):
        axis, rest = axes[-back], Analyzer().simplify(indices[-back] - axes[-back])
        if any(uses(each, axis) for each in (*indices[:-back], rest)):
            break
        found = len(axes) - back
        if known(rest) != 0 or not Analyzer().can_prove_equal(shape[-back], sizes[-back]):
            break
    return found


def _is_whole(buffer: tirx.Buffer) -> bool:
    """Say whether elements of whole bytes lie in memory one after the other, from its beginning on."""
    return _bits(buffer) % 8 == 0 and not buffer.strides and known(buffer.elem_offset) == 0


def _are(indices: Sequence[tirx.Expr], axes: Sequence[tirx.Var]) -> bool:
    return len(indices) == len(axes) and all(i.same_as(v) for i, v in zip(indices, axes, strict=True))


# -- how it is written


def _emit(copy: _Copy) -> None:
    """Write the loops over runs, which cores share where there are many elements."""
    is_large = Analyzer().simplify(_product(copy.sizes) >= integer(PARALLEL_SIZE))
    either(is_large, lambda: _emit_shared(copy), lambda: _emit_runs(copy, {}))


def _emit_shared(copy: _Copy) -> None:
    """Write a loop that cores share, over places on some axes before runs, or on all and chunks of the runs there."""
    outer, turns = 0, 1
    while outer < copy.first and turns < _SHARED:
        # An axis of unknown size, if not the first, is taken for a long one.
        turns *= known(copy.sizes[outer]) or (_SHARED if outer else 1)
        outer += 1
    chunk = _CHUNK // copy.unit
    chunks = [(copy.length(piece) + (chunk - 1)) // chunk for piece in copy.pieces]
    ends = [Analyzer().simplify(end) for end in accumulate(chunks)] if outer == copy.first else [integer(1)]
    with in_parallel(_product([*copy.sizes[:outer], ends[-1]])) as turn:
        at, place = {}, turn // ends[-1]
        for axis in reversed(range(outer)):
            at[copy.axes[axis]] = place % copy.sizes[axis] if axis else place
            place = place // copy.sizes[axis]
        if outer < copy.first:
            _emit_runs(copy, at)
        else:
            _emit_chunk(copy, at, T.Bind(turn % ends[-1]), ends)


def _emit_runs(copy: _Copy, at: dict[tirx.Var, tirx.Expr]) -> None:
    """Write the copies of all runs at places on the first axes."""
    if len(at) < copy.first:
        with loop(copy.sizes[len(at)]) as place:
            _emit_runs(copy, {**at, copy.axes[len(at)]: place})
        return
    for piece in copy.pieces:
        _emit_run(copy, piece, at, integer(0), copy.length(piece))


def _emit_chunk(copy: _Copy, at: dict[tirx.Var, tirx.Expr], number: tirx.Expr, ends: Sequence[tirx.Expr]) -> None:
    """Write the copy of a chunk of the runs at a place, which are counted through to the `ends` of pieces."""
    piece, begin = copy.pieces[len(ends) - 1], ends[-2] if len(ends) > 1 else integer(0)

    chunk = _CHUNK // copy.unit

    def one() -> None:
        first = T.Bind((number - begin) * chunk)
        _emit_run(copy, piece, at, first, tirx.min(copy.length(piece) - first, integer(chunk)))

    if len(ends) == 1:
        one()
    else:
        either(number >= begin, one, lambda: _emit_chunk(copy, at, number, ends[:-1]))


def _emit_run(copy: _Copy, piece: _Piece, at: dict[tirx.Var, tirx.Expr], first: tirx.Expr, count: tirx.Expr) -> None:
    """Write the copy of some elements of a run, from the `first` one on."""
    places = {**dict.fromkeys(copy.axes, integer(0)), **at, copy.axes[copy.first]: piece.begin}

    def begin(buffer: tirx.Buffer, indices: Sequence[tirx.Expr]) -> tirx.Expr:
        return _offset(buffer, [replaced(index, places) for index in indices]) + first

    written, result = begin(copy.result, copy.axes), in_one_axis(copy.result)
    if not isinstance(piece.value, TensorLoad):
        with loop(count) as element:
            T.buffer_store(result, piece.value, [written + element])
        return
    read = in_one_axis(piece.value.source)[begin(piece.value.source, piece.value.indices)]
    ends, size = (tirx.address_of(result[written]), tirx.address_of(read)), Analyzer().simplify(count * copy.unit)
    T.evaluate(tirx.call_llvm_intrin("void", "llvm.memcpy", *ends, size, tirx.const(False, "bool")))


def _offset(buffer: tirx.Buffer, indices: Sequence[tirx.Expr]) -> tirx.Expr:
    """Return how many elements of a buffer lie before one."""
    offset: tirx.Expr = integer(0)
    for index, size in zip(indices, buffer.ty.shape, strict=True):
        offset = offset * size.astype("int64") + index.astype("int64")
    return Analyzer().simplify(offset)


def _bits(buffer: tirx.Buffer) -> int:
    dtype = tvm.DataType(str(buffer.ty.dtype))
    return dtype.bits * dtype.lanes if str(dtype) != "bool" else 8


def _product(sizes: Sequence[tirx.Expr]) -> tirx.Expr:
    return reduce(mul, sizes, integer(1))
