"""Bytes that are looked up in a table of 256, by an instruction that picks any bytes of two vectors.

One by one, a byte takes two loads and an insertion. Of 64 bytes each half of the table gives what would be in it, and
the highest bit says which half it is.
"""

from __future__ import annotations

import tvm
from tvm import s_tir, tirx
from tvm.target import Target

from ..._tvm.nodes import TensorLoad
from ...kernels.builder import (
    Size,
    T,
    as_expr,
    in_one_axis,
    in_parallel,
    in_register,
    kernel,
    loop,
    ramp,
    reinterpreted,
    splat,
)
from ...relay.ir import dims
from ...target.integer_unit import integer_unit
from ..blocks import kernel_blocks
from ..expressions import known
from .elementwise import PARALLEL_SIZE
from .stages import nests_of, with_nests

__all__ = ["with_byte_table"]

_LANES = 64
_ENTRIES = 256
_WIDER = ("uint16", "int16", "uint32", "int32", "uint64", "int64")
_PERMUTATION = "llvm.x86.avx512.vpermi2var.qi.512"


def with_byte_table(plain: s_tir.Schedule, target: Target) -> tirx.PrimFunc | None:
    """Return a kernel that only looks up bytes, each at its own place; None for another, or another target."""
    unit = integer_unit(target)
    if unit is None or not unit.permutes_bytes:
        return None
    blocks, function = kernel_blocks(plain), plain.mod["main"]
    found = _looked_up(plain.get(blocks[0])) if len(blocks) == 1 else None
    if found is None or len(nests_of(function)) != 1:
        return None
    with kernel() as builder:
        _emit(*found)
    block = with_nests(function.body.block, [builder.get().body], ())
    return function.with_body(s_tir.SBlockRealize(function.body.iter_values, function.body.predicate, block))


def _looked_up(block: s_tir.SBlock) -> tuple[tirx.Buffer, tirx.Buffer, tirx.Buffer] | None:
    """Return the table, the data and the result of a block that looks up all of its data in their order."""
    store = block.body
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, TensorLoad):
        return None
    table, result = store.value.source, store.buffer
    if [known(size) for size in table.ty.shape] != [_ENTRIES] or not _is_of_bytes(table) or not _is_of_bytes(result):
        return None
    load = _place(store.value.indices[0])
    if not isinstance(load, TensorLoad):
        return None
    places = [v.var for v in block.iter_vars]
    sizes = zip(load.source.ty.shape, result.ty.shape, strict=False)
    is_whole = all(dims.equal(one, other) is True for one, other in sizes)
    if not (is_whole and _are(load.indices, places) and _are(store.indices, places)):
        return None
    return table, load.source, result


def _place(index: tirx.Expr) -> tirx.Expr | None:
    """Return the byte that an index is as uint8, which no limit changes; None where it is none."""
    if isinstance(index, tirx.Max) and known(index.b) == 0:
        return _place(index.a)
    if isinstance(index, tirx.Min) and known(index.b) == _ENTRIES - 1:
        return _place(index.a)
    if str(index.ty.dtype) != "uint8":
        return _place(index.value) if isinstance(index, tirx.Cast) and str(index.ty.dtype) in _WIDER else None
    is_signed = isinstance(index, tvm.ir.Call) and getattr(index.op, "name", "") == "tirx.reinterpret"
    return index.args[0] if is_signed and str(index.args[0].ty.dtype) == "int8" else index


def _is_of_bytes(buffer: tirx.Buffer) -> bool:
    return str(buffer.ty.dtype) in ("uint8", "int8")


def _are(indices: list[tirx.Expr], places: list[tirx.Var]) -> bool:
    return len(indices) == len(places) and all(i.same_as(v) for i, v in zip(indices, places, strict=True))


def _emit(table: tirx.Buffer, data: tirx.Buffer, result: tirx.Buffer) -> None:
    """Write the loops over all bytes, which cores share in parts where there are, or may be, many."""
    count = dims.product(list(result.ty.shape))
    source, target = in_one_axis(data), in_one_axis(result)
    if isinstance(count, int) and count < PARALLEL_SIZE:
        _emit_part(table, source, target, 0, count)
        return
    size = PARALLEL_SIZE // 2
    with in_parallel((count + (size - 1)) // size) as part:
        begin = in_register(part * size)
        _emit_part(table, source, target, begin, in_register(as_expr(tirx.min(size, count - begin))))


def _emit_part(table: tirx.Buffer, source: tirx.Buffer, target: tirx.Buffer, begin: Size, count: Size) -> None:
    quarters = [T.Bind(_of_type("int8", table[ramp(quarter, _LANES)])) for quarter in range(0, _ENTRIES, _LANES)]
    with loop(count // _LANES) as vector:
        at = ramp(in_register(as_expr(begin + vector * _LANES)), _LANES)
        places = T.Bind(_of_type("int8", source[at]))
        low, high = (
            T.call_llvm_pure_intrin(f"int8x{_LANES}", _PERMUTATION, quarters[half], places, quarters[half + 1])
            for half in (0, 2)
        )
        found = T.Bind(tirx.Select(places < splat(0, _LANES, "int8"), high, low))
        T.buffer_store(target, _of_type(str(target.dtype), found), [at])
    with loop(count % _LANES) as number:
        place = in_register(as_expr(begin + count // _LANES * _LANES + number))
        T.buffer_store(target, table[tirx.Cast("int32", reinterpreted("uint8", source[place]))], [place])


def _of_type(dtype: str, vector: tirx.Expr) -> tirx.Expr:
    """Return the bits of a vector as bytes of a type."""
    return vector if str(vector.ty.dtype).startswith(dtype) else reinterpreted(f"{dtype}x{_LANES}", vector)
