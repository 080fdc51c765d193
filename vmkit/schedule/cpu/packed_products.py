"""Kernels whose products have loops of their own, with what follows computed on each row of sums.

Such a kernel is known by a mark on its sum. The loops of :mod:`vmkit.kernels.packed_product` take the place of the sum,
and of the elementwise blocks behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.target import Target

from ..._tvm import unchecked_schedule
from ...kernels.builder import T, integer, kernel, local
from ...kernels.packed_product.bfloat16_parts import BFLOAT16_PARTS
from ...kernels.packed_product.encodings import MARK, weight_from_json
from ...kernels.packed_product.loops import Finish, PackedProduct, Row
from ...kernels.packed_product.shape import BLOCK, ProductShape
from ...kernels.packed_product.sizes import known
from ...kernels.packed_product.weight import PackedWeight
from ..expressions import loads_in
from ..inlining import inline_rows
from .stages import block_of, is_chain, is_in, nests_of, value_of, with_nests

__all__ = ["for_many_rows", "with_packed_product"]

_MANY_PRODUCTS = 1 << 18  # of a row with a weight, for which a version of a kernel is worth its compilation


def with_packed_product(function: tirx.PrimFunc, target: Target, is_short: bool = False) -> tirx.PrimFunc | None:
    """Return a kernel with its marked sum computed by the loops written for it, in little code if `is_short`.

    None for a kernel without such a sum, and for a target without the instructions, where the sum is computed as it
    stands.
    """
    if not _is_marked(function):
        return None
    schedule = unchecked_schedule(function)
    inline_rows(schedule)
    function = schedule.mod["main"]
    blocks = [block_of(nest) for nest in nests_of(function)]
    at = next(i for i, block in enumerate(blocks) if MARK in block.annotations)
    operands, result = [region.source for region in blocks[at].reads], blocks[at].writes[0].source
    data = next(buffer for buffer in operands if len(buffer.shape))
    channels, units = known(data.shape[-1]), known(result.shape[-1])
    weight = weight_from_json(str(blocks[at].annotations[MARK]), channels, units)
    loops = weight.encoding.loops(weight, operands, list(result.shape), target)
    if loops is not None and is_short:
        loops = loops.short()
    return None if loops is None else _with_loops(function, at, loops)


def for_many_rows(function: tirx.PrimFunc, target: Target, weight: tirx.Var, inner: int) -> tirx.PrimFunc | None:
    """Return a dense kernel with a packed weight (blocks, inner, BLOCK) of float32, for rows that repay its cutting.

    None where that cannot be done, or would not be faster.
    """
    nests = nests_of(function)
    sums = [at for at, nest in enumerate(nests) if _is_sum(block_of(nest))]
    if len(sums) != 1 or inner % 2:
        return None
    product = block_of(nests[sums[0]])
    units = product.writes[0].source.shape[-1]
    sources = [region.source for region in product.reads if not region.source.same_as(weight)]
    if len(sources) != 1 or not isinstance(units, tirx.IntImm) or int(units) * inner < _MANY_PRODUCTS:
        return None
    if any(str(buffer.dtype) != "float32" for buffer in (weight, sources[0], product.writes[0].source)):
        return None
    shape = list(product.writes[0].source.shape)
    loops = BFLOAT16_PARTS.loops(
        PackedWeight(ProductShape(inner, int(units)), BFLOAT16_PARTS), (sources[0], weight), shape, target
    )
    return None if loops is None else _with_loops(function, sums[0], loops)


def _with_loops(function: tirx.PrimFunc, at: int, written: PackedProduct[Any]) -> tirx.PrimFunc:
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


def _is_sum(block: s_tir.SBlock) -> bool:
    return any(v.iter_type == tirx.IterVar.CommReduce for v in block.iter_vars)


def _is_marked(function: tirx.PrimFunc) -> bool:
    found: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, lambda b: found.append(b) if MARK in b.annotations else None))
    return bool(found)


def _loops(written: PackedProduct[Any], blocks: Sequence[s_tir.SBlock], inner: Sequence[tirx.Buffer]) -> tirx.Stmt:
    """Return the loops of a product and the stages that follow it; the buffers `inner` need not be written."""
    product, *stages = blocks
    made = [product.writes[0].source, *(stage.body.buffer for stage in stages)]

    def finish(row: Row) -> None:
        dtypes = [str(stage.body.buffer.dtype) for stage in stages[:-1]]
        kept = [local(BLOCK, dtype=dtype) for dtype in dtypes]
        sources = [row.sums, *(_reader(buffer) for buffer in kept)]
        for number, buffer in enumerate(made):
            is_last = number == len(made) - 1
            if number == 0 and not is_last and is_in(buffer, inner):
                continue
            with T.vectorized(integer(row.lanes)) as lane:
                at = [*row.index, row.first + lane]
                value = value_of(stages[number - 1], at, made, [s(lane) for s in sources]) if number else row.sums(lane)
                if number and not is_last:
                    T.buffer_store(kept[number - 1], value, [lane])
                    value = kept[number - 1][lane]
                if not is_in(buffer, inner):
                    T.buffer_store(buffer, value, at)

    with kernel() as builder:
        results = [buffer for buffer in made if not is_in(buffer, inner)]
        written.emit(Finish(finish, _beside(stages, made), results))
    return builder.get().body


def _beside(stages: Sequence[s_tir.SBlock], made: Sequence[tirx.Buffer]) -> list[tirx.Buffer]:
    """Return the tensors whose elements stages read at their own places, but for those that the kernel makes."""
    found: list[tirx.Buffer] = []
    for stage in stages:
        places = [v.var for v in stage.iter_vars]
        for load in loads_in(stage.body.value):
            is_there = len(load.indices) == len(places)
            is_there = is_there and all(i.same_as(v) for i, v in zip(load.indices, places, strict=True))
            if is_there and not is_in(load.source, [*made, *found]):
                found.append(load.source)
    return found


def _reader(buffer: tirx.Buffer) -> Callable[[tirx.Expr], tirx.Expr]:
    return lambda lane: buffer[lane]
