"""Kernels for a matrix unit: loops written for the product, and what follows it computed on each row of sums.

Such a kernel is known by a mark on its sum. The loops of :mod:`..kernels.tiles` take the place of the sum, and of the
elementwise blocks behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from ...target.matrix_unit import has_matrix_unit
from ..kernels.tiled_weight import BLOCK, MARK, TiledWeight
from ..kernels.tiles import Row, TiledProduct

__all__ = ["with_tiles"]


def with_tiles(function: tirx.PrimFunc, target: Target) -> tirx.PrimFunc | None:
    """Return a kernel with its marked sum computed on the matrix unit.

    None for a kernel without such a sum, and for a target without the unit, where the sum is computed as it stands.
    """
    if not has_matrix_unit(target) or not _is_marked(function):
        return None
    root = function.body.block
    nests = list(root.body.seq) if isinstance(root.body, tirx.SeqStmt) else [root.body]
    blocks = [_block_of(nest) for nest in nests]
    at = next(i for i, block in enumerate(blocks) if MARK in block.annotations)
    product = blocks[at]
    followers = blocks[at + 1 :]
    is_fused = _is_chain(product, followers)
    stages = followers if is_fused else []
    inner = list(root.alloc_buffers) if is_fused else []
    body = [*nests[:at], _loops(product, stages, inner), *([] if is_fused else nests[at + 1 :])]
    written = [block.writes[0].source for block in [product, *stages]]
    kept = [buffer for buffer in root.alloc_buffers if not (is_fused and _is_in(buffer, written))]
    block = s_tir.SBlock(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        tirx.SeqStmt(body) if len(body) > 1 else body[0],
        root.init,
        kept,
        root.match_buffers,
        root.annotations,
    )
    return function.with_body(s_tir.SBlockRealize(function.body.iter_values, function.body.predicate, block))


def _is_marked(function: tirx.PrimFunc) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, lambda b: found.append(b) if MARK in b.annotations else None))
    return bool(found)


def _block_of(nest: Any) -> Any:
    """Return the block within loops."""
    while isinstance(nest, tirx.For):
        nest = nest.body
    return nest.block


def _is_chain(product: Any, followers: Sequence[Any]) -> bool:
    """Say whether each follower maps elements of the sums, and of followers before it, to elements at their places."""
    extents = [v.dom.extent for v in product.iter_vars if v.iter_type == tirx.IterVar.DataPar]
    inner = [product.writes[0].source]
    for block in followers:
        store, places = block.body, [v.var for v in block.iter_vars]
        if not isinstance(store, tirx.BufferStore) or any(v.iter_type != tirx.IterVar.DataPar for v in block.iter_vars):
            return False
        sizes = [v.dom.extent for v in block.iter_vars]
        if len(sizes) != len(extents) or not all(map(tvm_ffi.structural_equal, sizes, extents)):
            return False
        loads: list[Any] = []
        tvm_ffi.structural_walk(store.value, (TensorLoad, loads.append))
        own = [load.indices for load in loads if any(load.source.same_as(b) for b in inner)]
        for index in (store.indices, *own):
            if len(index) != len(places) or not all(i.same_as(v) for i, v in zip(index, places, strict=True)):
                return False
        inner.append(store.buffer)
    return True


def _loops(product: Any, stages: Sequence[Any], inner: Sequence[Any]) -> tirx.Stmt:
    """Return the loops of a product and the stages that follow it; the buffers `inner` need not be written."""
    weight = TiledWeight.from_json(str(product.annotations[MARK]))
    data, packed = (region.source for region in product.reads[:2])
    shape = list(product.writes[0].source.shape)
    made = [product.writes[0].source, *(stage.body.buffer for stage in stages)]

    def finish(row: Row) -> None:
        kept = [T.alloc_buffer((BLOCK,), "float32", scope="local", layout=None) for _ in stages[:-1]]
        sources = [row.sums, *(_reader(buffer) for buffer in kept)]
        for number, buffer in enumerate(made):
            is_last = number == len(made) - 1
            if number == 0 and not is_last and _is_in(buffer, inner):
                continue
            with T.vectorized(tirx.IntImm("int64", row.lanes)) as lane:
                at = [*row.index, row.first + lane]
                value = _value(stages[number - 1], at, made, [s(lane) for s in sources]) if number else row.sums(lane)
                if number and not is_last:
                    T.buffer_store(kept[number - 1], value, [lane])
                    value = kept[number - 1][lane]
                if not _is_in(buffer, inner):
                    T.buffer_store(buffer, value, at)

    with IRBuilder() as builder, T.prim_func():
        TiledProduct(weight, data, packed, shape).emit(finish)
    return builder.get().body


def _reader(buffer: Any) -> Any:
    return lambda lane: buffer[lane]


def _is_in(buffer: Any, buffers: Sequence[Any]) -> bool:
    return any(buffer.same_as(b) for b in buffers)


def _value(stage: Any, at: Sequence[Any], made: Sequence[Any], values: Sequence[Any]) -> Any:
    """Return what a stage computes for an element, given the elements that were computed before."""

    def read(load: Any) -> Any:
        return next((v for b, v in zip(made, values, strict=False) if load.source.same_as(b)), load)

    def place(var: Any) -> Any:
        return next((i for v, i in zip(stage.iter_vars, at, strict=True) if v.var.same_as(var)), var)

    value = tvm_ffi.structural_map(stage.body.value, (tvm.ir.Var, place))
    return tvm_ffi.structural_map(value, (TensorLoad, read))
