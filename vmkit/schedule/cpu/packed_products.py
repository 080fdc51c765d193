"""Kernels whose products have loops of their own, with what follows computed on each row of sums.

Such a kernel is known by a mark on its sum. The loops of :mod:`..kernels.tiles`, for a matrix unit, or of
:mod:`..kernels.integers` take the place of the sum, and of the elementwise blocks behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from ...kernels.integer_weight import INTEGER_MARK, IntegerWeight
from ...kernels.integers import IntegerProduct
from ...kernels.tiled_weight import BLOCK, MARK, TiledWeight
from ...kernels.tiles import Row, TiledProduct
from ...target.integer_unit import integer_unit
from ...target.matrix_unit import has_matrix_unit
from .stages import block_of, is_chain, is_in, nests_of, value_of, with_nests

__all__ = ["for_many_rows", "with_tiles"]

_MANY_PRODUCTS = 1 << 18  # of a row with a weight, for which a version of a kernel is worth its compilation


def with_tiles(function: tirx.PrimFunc, target: Target) -> tirx.PrimFunc | None:
    """Return a kernel with its marked sum computed by the loops written for it.

    None for a kernel without such a sum, and for a target without the instructions, where the sum is computed as it
    stands.
    """
    if not _is_marked(function):
        return None
    blocks = [block_of(nest) for nest in nests_of(function)]
    at = next(i for i, block in enumerate(blocks) if _mark(block))
    regions, shape = [region.source for region in blocks[at].reads], list(blocks[at].writes[0].source.shape)
    if MARK in blocks[at].annotations:
        if not has_matrix_unit(target):
            return None
        tiled = TiledWeight.from_json(str(blocks[at].annotations[MARK]))
        return _with_loops(function, at, TiledProduct(tiled, regions[0], regions[1], shape, _cores(target)))
    unit, window = integer_unit(target), IntegerWeight.from_json(str(blocks[at].annotations[INTEGER_MARK]))
    if unit is None or (unit.group, unit.depth) != (window.group, window.multiple):
        return None
    filler = next((buffer for buffer in regions if len(buffer.shape) == 0), None)
    data, weight = (buffer for buffer in regions if buffer is not filler)
    return _with_loops(function, at, IntegerProduct(unit, window, data, weight, filler, shape))


def for_many_rows(function: tirx.PrimFunc, target: Target, weight: Any, inner: int) -> tirx.PrimFunc | None:
    """Return a dense kernel with a packed weight (blocks, inner, BLOCK) of float32, for rows that repay its cutting.

    None where that cannot be done, or would not be faster.
    """
    nests = nests_of(function)
    sums = [at for at, nest in enumerate(nests) if _is_sum(block_of(nest))]
    if not has_matrix_unit(target) or len(sums) != 1 or inner % 2:
        return None
    product = block_of(nests[sums[0]])
    units = product.writes[0].source.shape[-1]
    sources = [region.source for region in product.reads if not region.source.same_as(weight)]
    if len(sources) != 1 or not isinstance(units, tirx.IntImm) or int(units) * inner < _MANY_PRODUCTS:
        return None
    if any(str(buffer.dtype) != "float32" for buffer in (weight, sources[0], product.writes[0].source)):
        return None
    shape = list(product.writes[0].source.shape)
    loops = TiledProduct(TiledWeight(inner, int(units)), sources[0], weight, shape, _cores(target))
    return _with_loops(function, sums[0], loops)


def _with_loops(function: tirx.PrimFunc, at: int, written: TiledProduct | IntegerProduct) -> tirx.PrimFunc:
    """Return a kernel with written loops in the place of a sum, and of the elementwise blocks behind it."""
    root, nests = function.body.block, nests_of(function)
    product, *followers = (block_of(nest) for nest in nests[at:])
    is_fused = is_chain(product, followers)
    stages = followers if is_fused else []
    inner = list(root.alloc_buffers) if is_fused else []
    loops = _loops(written, [product, *stages], inner)
    body = [*nests[:at], loops, *([] if is_fused else nests[at + 1 :])]
    results = [block.writes[0].source for block in [product, *stages]]
    block = with_nests(root, body, results if is_fused else ())
    return function.with_body(s_tir.SBlockRealize(function.body.iter_values, function.body.predicate, block))


def _cores(target: Target) -> int:
    return int(target.attrs.get("num-cores", 1))


def _is_sum(block: Any) -> bool:
    return any(v.iter_type == tirx.IterVar.CommReduce for v in block.iter_vars)


def _is_marked(function: tirx.PrimFunc) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, lambda b: found.append(b) if _mark(b) else None))
    return bool(found)


def _mark(block: Any) -> str | None:
    return next((mark for mark in (MARK, INTEGER_MARK) if mark in block.annotations), None)


def _loops(written: TiledProduct | IntegerProduct, blocks: Sequence[Any], inner: Sequence[Any]) -> tirx.Stmt:
    """Return the loops of a product and the stages that follow it; the buffers `inner` need not be written."""
    product, *stages = blocks
    made = [product.writes[0].source, *(stage.body.buffer for stage in stages)]

    def finish(row: Row) -> None:
        dtypes = [str(stage.body.buffer.dtype) for stage in stages[:-1]]
        kept = [T.alloc_buffer((BLOCK,), dtype, scope="local", layout=None) for dtype in dtypes]
        sources = [row.sums, *(_reader(buffer) for buffer in kept)]
        for number, buffer in enumerate(made):
            is_last = number == len(made) - 1
            if number == 0 and not is_last and is_in(buffer, inner):
                continue
            with T.vectorized(tirx.IntImm("int64", row.lanes)) as lane:
                at = [*row.index, row.first + lane]
                value = value_of(stages[number - 1], at, made, [s(lane) for s in sources]) if number else row.sums(lane)
                if number and not is_last:
                    T.buffer_store(kept[number - 1], value, [lane])
                    value = kept[number - 1][lane]
                if not is_in(buffer, inner):
                    T.buffer_store(buffer, value, at)

    with IRBuilder() as builder, T.prim_func():
        written.emit(finish)
    return builder.get().body


def _reader(buffer: Any) -> Any:
    return lambda lane: buffer[lane]
