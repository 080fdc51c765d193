"""Tiles of results as small buffers, and places of tiles that are computed once.

A schedule keeps the results of a tile in a buffer as large as all results, by their indices. TVM finds out what part of
it a tile is, from every index of every statement, and simplifies these again and again: of sizes that are known at run
time only they are long, since tiles begin where a minimum or a choice says. Here the buffer is made the size of the
tile, indexed by the loops within it, and where a tile begins is a variable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import reduce
from operator import add
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ..._dataclasses import dataclass
from ..._tvm.nodes import TensorLoad
from ...kernels.builder import with_fields
from ..blocks import computed_once
from ..expressions import known, replaced
from .tile_index import TileIndex, tile_index, variables_of

__all__ = ["with_registers"]

Chain = tuple[tirx.For, ...]
"""The loops around a statement, the outermost first."""

Access: TypeAlias = "TensorLoad | tirx.BufferStore"


@dataclass
class _Tile:
    """A buffer as it is used: the loops around all uses, the indices of each, whether the first is a store alone."""

    chain: Chain
    begins_with_store: bool
    uses: list[list[TileIndex]] = field(default_factory=list)

    def shape(self, within: Mapping[tirx.Var, int], loops: set[tirx.Var]) -> list[int] | None:
        """Return how large the tile is; None where not all uses are of one that is written before it is read."""
        first, *others = self.uses
        if not self.begins_with_store:
            return None
        if not all(a.begins_as(b) for use in others for a, b in zip(first, use, strict=True)):
            return None
        elsewhere = loops - {loop.loop_var for loop in self.chain}
        if any(var in elsewhere for index in first for term in index.begin for var in variables_of(term)):
            return None
        sizes = [[index.size(within) for index in use] for use in self.uses]
        most = [max(axis) for axis in zip(*sizes, strict=True)]
        return most if sizes[0] == most else None


@dataclass(frozen=True)
class _Start:
    """Where a tile begins along an axis, as a variable that is bound within the innermost of the loops around it."""

    loop: tirx.For
    terms: tuple[tirx.Expr, ...]
    var: tirx.Var
    statements: Sequence[tirx.Stmt]


def with_registers(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled kernel in which buffers of scope ``local`` are as large as the tiles that they hold.

    One whose uses are not all of one tile stays as it is.
    """
    outer, root = function.body, function.body.block
    registers = [each for each in root.alloc_buffers if str(each.ty.storage_scope) == "local"]
    blocks = list(_blocks(root.body, ())) if registers else []
    extents = {loop.loop_var: loop for _, chain in blocks for loop in chain}
    within = {var: known(loop.extent) or 0 for var, loop in extents.items() if _is_within(loop)}
    tiles = _tiles(blocks, registers, within, len(_accesses(root.body, registers)))
    small: dict[tirx.Var, tirx.Buffer] = {}
    for buffer, tile in tiles.items():
        shape = tile.shape(within, set(extents))
        if shape is not None:
            small[buffer] = tirx.decl_buffer(shape, str(buffer.ty.dtype), buffer.name, scope="local")
    if not small:
        return function
    others = [each for each in root.alloc_buffers if each not in small]
    starts = _starts([tiles[buffer] for buffer in small], set(extents), others)
    body = _Rewriting(small, within, starts).statement(root.body, ())
    made = with_fields(root, body=body, alloc_buffers=[small.get(each, each) for each in root.alloc_buffers])
    return function.with_body(s_tir.SBlockRealize(outer.iter_values, outer.predicate, made))


def _blocks(statement: tirx.Stmt, chain: Chain) -> Iterator[tuple[s_tir.SBlockRealize, Chain]]:
    """Yield the blocks of a kernel that have none within them, in their order, with the loops around them."""
    match statement:
        case tirx.For():
            yield from _blocks(statement.body, (*chain, statement))
        case tirx.SeqStmt():
            for each in statement.seq:
                yield from _blocks(each, chain)
        case s_tir.SBlockRealize():
            yield statement, chain
        case tirx.AttrStmt():
            yield from _blocks(statement.body, chain)


def _is_within(loop: tirx.For) -> bool:
    """Say whether a loop is one of those within a tile, or none at all."""
    extent = known(loop.extent)
    is_written_out = loop.kind in (tirx.ForKind.UNROLLED, tirx.ForKind.VECTORIZED)
    return known(loop.min) == 0 and extent is not None and extent > 0 and (is_written_out or extent == 1)


def _accesses(node: tirx.Stmt, buffers: Sequence[tirx.Buffer]) -> list[Access]:
    found: list[Access] = []
    tvm_ffi.structural_walk(node, ((TensorLoad, tirx.BufferStore), found.append))
    return [each for each in found if any(_buffer(each).same_as(buffer) for buffer in buffers)]


def _buffer(access: Access) -> tirx.Buffer:
    return access.source if isinstance(access, TensorLoad) else access.buffer


def _tiles(
    blocks: Sequence[tuple[s_tir.SBlockRealize, Chain]],
    registers: Sequence[tirx.Buffer],
    within: Mapping[tirx.Var, int],
    count: int,
) -> dict[tirx.Var, _Tile]:
    """Return the buffers of which all uses are by places and steps; none if there are uses outside of the blocks."""
    tiles: dict[tirx.Var, _Tile] = {}
    others: set[tirx.Var] = set()
    for realize, chain in blocks:
        values = _values(realize)
        parts = [realize.block.body, *([] if realize.block.init is None else [realize.block.init])]
        found = [access for part in parts for access in _accesses(part, registers)]
        count -= len(found)
        loaded = {_buffer(access) for access in found if isinstance(access, TensorLoad)}
        for access in found:
            buffer = _buffer(access)
            indices = [tile_index(replaced(index, values), within) for index in access.indices]
            tile = tiles.setdefault(buffer, _Tile(chain, buffer not in loaded))
            tile.chain = tuple(a for a, b in zip(tile.chain, chain, strict=False) if a.same_as(b))
            tile.uses.append([index for index in indices if index is not None])
            if len(tile.uses[-1]) < len(indices):
                others.add(buffer)
    return {buffer: tile for buffer, tile in tiles.items() if buffer not in others and tile.chain} if count == 0 else {}


def _values(realize: s_tir.SBlockRealize) -> dict[tirx.Var, tirx.Expr]:
    return {v.var: value for v, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)}


def _starts(tiles: Sequence[_Tile], loops: set[tirx.Var], others: Sequence[tirx.Buffer]) -> list[_Start]:
    """Return the places of tiles that are chosen among several by sizes that are known at run time only.

    Of what parts the kernel's other buffers are used TVM finds out from the indices, so where these are used it has to
    see what a place is.
    """
    starts: list[_Start] = []
    for tile in tiles:
        for index in tile.uses[0]:
            if not any(_is_chosen(term, loops) for term in index.begin):
                continue
            used = [var for term in index.begin for var in variables_of(term)]
            loop = next(each for each in reversed(tile.chain) if any(each.loop_var.same_as(var) for var in used))
            if _accesses(loop, others):
                continue
            if any(start.loop.same_as(loop) and _is_start(start, index) for start in starts):
                continue
            starts.append(_Start(loop, index.begin, *computed_once("start", reduce(add, index.begin))))
    return starts


def _is_chosen(term: tirx.Expr, loops: set[tirx.Var]) -> bool:
    """Say whether a place is a choice; of another one TVM may have to know what divides it."""
    choices: list[tirx.Expr] = []
    tvm_ffi.structural_walk(term, ((tirx.Min, tirx.Max, tirx.Select), choices.append))
    variables = variables_of(term)
    return bool(choices) and any(v in loops for v in variables) and any(v not in loops for v in variables)


def _is_start(start: _Start, index: TileIndex) -> bool:
    return index.begins_as(TileIndex(start.terms, {}))


@dataclass(frozen=True)
class _Rewriting:
    """A kernel's statements over small buffers, with variables for where tiles begin."""

    small: Mapping[tirx.Var, tirx.Buffer]
    within: Mapping[tirx.Var, int]
    starts: Sequence[_Start]

    def statement(self, node: tirx.Stmt, here: Sequence[_Start]) -> tirx.Stmt:
        """Return a statement again, within the loops that have some starts."""
        match node:
            case tirx.For():
                own = [start for start in self.starts if start.loop.same_as(node)]
                body = self.statement(node.body, [*here, *own])
                if own:
                    body = tirx.SeqStmt([*(each for start in own for each in start.statements), body])
                rest = (node.thread_binding, node.annotations, node.step, node.span)
                return tirx.For(node.loop_var, node.min, node.extent, node.kind, body, *rest)
            case tirx.SeqStmt():
                return tirx.SeqStmt([self.statement(each, here) for each in node.seq])
            case tirx.AttrStmt():
                return tirx.AttrStmt(node.node, node.attr_key, node.value, self.statement(node.body, here))
            case s_tir.SBlockRealize():
                return self._block(node, here)
        return node

    def _block(self, realize: s_tir.SBlockRealize, here: Sequence[_Start]) -> s_tir.SBlockRealize:
        block, values = realize.block, _values(realize)

        def access(node: Access) -> Access:
            buffer = self.small.get(_buffer(node))
            if buffer is None:
                return node
            found = [tile_index(replaced(index, values), self.within) for index in node.indices]
            indices = [each.after(None, "int64") for each in found if each is not None]
            if isinstance(node, TensorLoad):
                return tirx.BufferLoad(buffer, indices)
            return tirx.BufferStore(buffer, node.value, indices)

        def mapped(part: tirx.Stmt) -> tirx.Stmt:
            return tvm_ffi.structural_map(part, ((TensorLoad, tirx.BufferStore), access))

        made = with_fields(
            block,
            body=mapped(block.body),
            init=None if block.init is None else mapped(block.init),
            reads=[self._region(each) for each in block.reads],
            writes=[self._region(each) for each in block.writes],
        )
        given = [self._value(each, here) for each in realize.iter_values]
        predicate = realize.predicate
        if isinstance(predicate, tirx.LT):  # that an element of the tile is there
            predicate = self._value(predicate.a, here) < predicate.b
        return s_tir.SBlockRealize(given, predicate, made)

    def _region(self, region: tirx.BufferRegion) -> tirx.BufferRegion:
        buffer = self.small.get(region.source)
        if buffer is None:
            return region
        return tirx.BufferRegion(buffer, [tvm.ir.Range(0, size) for size in buffer.ty.shape])

    def _value(self, given: tirx.Expr, here: Sequence[_Start]) -> tirx.Expr:
        index = tile_index(given, self.within) if here else None
        start = None if index is None else next((each for each in here if _is_start(each, index)), None)
        return given if start is None or index is None else index.after(start.var, str(given.ty.dtype))
