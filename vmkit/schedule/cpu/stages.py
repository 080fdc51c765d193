"""A kernel taken apart: loops of another kind in the place of one nest, and what follows it within them."""

from __future__ import annotations

from collections.abc import Sequence

import tvm_ffi
from tvm import s_tir, tirx
from tvm_ffi import Object

from ..._tvm.nodes import TensorLoad
from ...kernels.builder import with_fields
from ..expressions import loads_in, replaced

__all__ = ["block_of", "is_chain", "is_in", "nests_of", "value_of", "with_nests"]


def nests_of(function: tirx.PrimFunc) -> list[tirx.Stmt]:
    """Return the loop nests of a kernel."""
    body = function.body.block.body
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def block_of(nest: tirx.Stmt) -> s_tir.SBlock:
    """Return the block within loops."""
    while isinstance(nest, tirx.For):
        nest = nest.body
    return nest.block


def with_nests(
    root: s_tir.SBlock,
    nests: Sequence[tirx.Stmt],
    gone: Sequence[tirx.Buffer] = (),
    more: Sequence[tirx.Buffer] = (),
) -> s_tir.SBlock:
    """Return a kernel's root block with other loop nests, without the buffers that are gone, and with more of them."""
    kept = [*(buffer for buffer in root.alloc_buffers if not is_in(buffer, gone)), *more]
    body = tirx.SeqStmt(list(nests)) if len(nests) > 1 else nests[0]
    return with_fields(root, body=body, alloc_buffers=kept)


def is_chain(product: s_tir.SBlock, followers: Sequence[s_tir.SBlock]) -> bool:
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
        own = [load.indices for load in loads_in(store.value) if any(load.source.same_as(b) for b in inner)]
        for index in (store.indices, *own):
            if len(index) != len(places) or not all(i.same_as(v) for i, v in zip(index, places, strict=True)):
                return False
        inner.append(store.buffer)
    return True


def is_in(node: Object, nodes: Sequence[Object]) -> bool:
    """Say whether a node, such as a buffer, is one of several."""
    return any(node.same_as(each) for each in nodes)


def value_of(
    stage: s_tir.SBlock,
    at: Sequence[tirx.Expr | int],
    made: Sequence[tirx.Buffer],
    values: Sequence[tirx.Expr],
) -> tirx.Expr:
    """Return what a stage computes for an element, given the elements that were computed before."""

    def read(load: TensorLoad) -> tirx.Expr:
        return next((v for b, v in zip(made, values, strict=False) if load.source.same_as(b)), load)

    places = {v.var: index for v, index in zip(stage.iter_vars, at, strict=True)}
    return tvm_ffi.structural_map(replaced(stage.body.value, places), (TensorLoad, read))
