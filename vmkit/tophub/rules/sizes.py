"""Tiles along an axis whose size is known at run time only: one copy of the loop for each power of two.

A tile that may stick out tests its bounds in the innermost loops, and its accumulators cannot live in registers. So the
loop is written once with whole tiles, of which the last begins earlier where they do not divide the axis, and again
with smaller tiles for an axis shorter than that; the program chooses when it knows the size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer
from tvm.target import Target

from .blocks import uses

__all__ = ["split_by_size", "with_sizes"]

_KEY = "vmkit.tile"


def split_by_size(sch: s_tir.Schedule, loop: s_tir.schedule.LoopRV, tile: int) -> list[s_tir.schedule.LoopRV]:
    """Split a loop of unknown size into tiles; :func:`with_sizes` makes copies of it for small sizes."""
    parts = sch.split(loop, [None, tile])
    if tile > 1:
        sch.annotate(parts[0], _KEY, tile)
    return list(parts)


def with_sizes(function: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    """Return a scheduled kernel with its loops over tiles of unknown count written once for each size of a tile."""
    if not _marked(function.body):
        return function
    lowered = _without_blocks(function, target)
    body = tvm_ffi.structural_map(lowered.body, (tirx.For, _chosen))
    if _marked(body):
        return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, _partitioned)))
    unique = tirx.transform.ConvertSSA()(tvm.IRModule({"main": lowered.with_body(body)}))["main"]
    # Passes of Relax expect a block around the loops.
    root = s_tir.SBlock([], [], [], "root", unique.body)
    return unique.with_body(s_tir.SBlockRealize([], True, root))


def _marked(body: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(body, (tirx.For, lambda loop: found.append(loop) if _KEY in loop.annotations else None))
    return bool(found)


def _partitioned(loop: tirx.For) -> tirx.For:
    """Return a marked loop as one whose last tile becomes a loop of its own: what is left where there are no copies."""
    if _KEY not in loop.annotations:
        return loop
    annotations = {k: v for k, v in loop.annotations.items() if k != _KEY} | {"pragma_loop_partition_hint": True}
    return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, loop.body, loop.thread_binding, annotations)


def _without_blocks(function: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    """Return a kernel as plain loops, with buffers allocated in the loop that they are used in."""
    passes = s_tir.transform
    steps = [
        passes.CanonicalizeLoop(),
        passes.LowerInitBlock(),
        passes.PlanAndUpdateBufferAllocationLocation(),
        passes.ConvertBlocksToOpaque(),
        passes.CompactBufferAllocation(),
        passes.LowerMatchBuffer(),
        passes.LowerOpaqueBlock(),
    ]
    with target:
        return tvm.transform.Sequential(steps)(tvm.IRModule({"main": function}))["main"]


def _chosen(loop: tirx.For) -> Any:
    """Return a marked loop as copies with tiles of several sizes; the loop itself where that cannot be done."""
    if _KEY not in loop.annotations:
        return loop
    tiles = _Tiles.of(loop, int(loop.annotations[_KEY]))
    if tiles is None:
        return loop
    sizes = [tiles.tile]
    while sizes[-1] > 1:
        sizes.append(1 << ((sizes[-1] - 1).bit_length() - 1))
    made = [tiles.with_tile(size) for size in sizes]
    if any(each is None for each in made):
        return loop
    result = made[-1]
    for size, copy in zip(reversed(sizes[:-1]), reversed(made[:-1]), strict=True):
        result = tirx.IfThenElse(tiles.size >= tirx.IntImm(tiles.dtype, size), copy, result)
    return result


@dataclass
class _Tiles:
    """A loop over tiles.

    Attributes
    ----------
    size : Expr
        How many positions the axis has.
    rows : list of Var
        The loops over the positions of a tile.
    local : dict
        The buffers that hold a tile, allocated in the loop, each with the axis of the positions.
    """

    loop: tirx.For
    tile: int
    size: Any
    rows: list[Any]
    local: dict[Any, int]
    dtype: str

    @staticmethod
    def of(loop: tirx.For, tile: int) -> _Tiles | None:
        tiles = _Tiles(loop, tile, None, [], {}, str(loop.loop_var.ty.dtype))
        allocated: list[Any] = []
        tests: list[Any] = []

        def add(expr: tirx.Add) -> None:
            if tiles._is_begin(expr.a) and not any(expr.b.same_as(v) for v in tiles.rows):
                tiles.rows.append(expr.b)

        tvm_ffi.structural_walk(
            loop.body,
            (
                (tirx.Add, add),
                (tirx.AllocBuffer, allocated.append),
                (tirx.IfThenElse, lambda node: tests.extend(_conditions(node.condition))),
            ),
        )
        if not all(isinstance(row, tvm.ir.Var) for row in tiles.rows):
            return None
        sizes = [size for size in map(tiles._size_tested, tests) if size is not None]
        if not sizes or not all(Analyzer().can_prove_equal(size, sizes[0]) for size in sizes):
            return None
        tiles.size = sizes[0]
        for each in allocated:
            unknown = [axis for axis, d in enumerate(each.buffer.ty.shape) if not isinstance(d, tirx.IntImm)]
            if len(unknown) > 1:
                return None
            if unknown:
                tiles.local[each.buffer] = unknown[0]
        return tiles

    def with_tile(self, tile: int) -> Any:
        """Return the loop with tiles of another size, the last of which ends with the axis; None if that fails."""
        begin = tirx.Var("begin", self.dtype)
        zero = tirx.IntImm(self.dtype, 0)
        buffers = {old: self._smaller(old, axis, tile) for old, axis in self.local.items()}

        def place(source: Any, indices: Any) -> list[Any]:
            axis = self.local[source]
            first = tvm_ffi.structural_map(indices[axis], (tvm.ir.Var, lambda v: zero if v.same_as(begin) else v))
            return [first if at == axis else index for at, index in enumerate(indices)]

        def load(node: TensorLoad) -> Any:
            if node.source not in buffers:
                return node
            return buffers[node.source].vload(place(node.source, node.indices))

        def store(node: tirx.BufferStore) -> Any:
            if node.buffer not in buffers:
                return node
            return tirx.BufferStore(buffers[node.buffer], node.value, place(node.buffer, node.indices))

        def inner(node: tirx.For) -> Any:
            if not any(node.loop_var.same_as(row) for row in self.rows):
                return node
            extent = tirx.IntImm(str(node.loop_var.ty.dtype), tile)
            return tirx.For(node.loop_var, node.min, extent, node.kind, node.body, None, node.annotations)

        def allocate(node: tirx.AllocBuffer) -> Any:
            return tirx.AllocBuffer(buffers[node.buffer], node.annotations) if node.buffer in buffers else node

        body = tvm_ffi.structural_map(
            self._unguarded(self.loop.body),
            (
                (tirx.Mul, lambda node: begin if self._is_begin(node) else node),
                (TensorLoad, load),
                (tirx.BufferStore, store),
                (tirx.For, inner),
                (tirx.AllocBuffer, allocate),
            ),
        )
        left: list[Any] = []
        tvm_ffi.structural_walk(body, (tvm.ir.Var, lambda v: left.append(v) if v.same_as(self.loop.loop_var) else None))
        if left:
            return None
        at = tirx.Var("tile", self.dtype)
        count = tirx.FloorDiv(self.size + tirx.IntImm(self.dtype, tile - 1), tirx.IntImm(self.dtype, tile))
        start = tirx.Min(at * tirx.IntImm(self.dtype, tile), self.size - tirx.IntImm(self.dtype, tile))
        body = tvm_ffi.structural_map(body, (tvm.ir.Var, lambda v: start if v.same_as(begin) else v))
        return tirx.For(at, zero, count, self.loop.kind, body, None, {})

    def _is_begin(self, node: Any) -> bool:
        return (
            isinstance(node, tirx.Mul)
            and node.a.same_as(self.loop.loop_var)
            and isinstance(node.b, tirx.IntImm)
            and int(node.b.value) == self.tile
        )

    def _smaller(self, buffer: Any, axis: int, tile: int) -> Any:
        shape = [tile if at == axis else d for at, d in enumerate(buffer.ty.shape)]
        return tirx.decl_buffer(shape, buffer.ty.dtype, buffer.name, scope=buffer.ty.storage_scope, layout=None)

    def _unguarded(self, body: Any) -> Any:
        """Return a body without its tests of whether a position is one of the axis."""

        def guard(node: tirx.IfThenElse) -> Any:
            rest = [c for c in _conditions(node.condition) if self._size_tested(c) is None and not self._is_idle(c)]
            if len(rest) == len(_conditions(node.condition)):
                return node
            if not rest:
                return node.then_case
            condition = rest[0]
            for each in rest[1:]:
                condition = tirx.And(condition, each)
            return tirx.IfThenElse(condition, node.then_case, node.else_case)

        return tvm_ffi.structural_map(body, (tirx.IfThenElse, guard))

    def _is_idle(self, condition: Any) -> bool:
        """Say whether a condition only tells that a tile is one of those that there are."""
        if not isinstance(condition, tirx.LT):
            return False
        return Analyzer().can_prove_equal(condition.b - condition.a, self.loop.extent - self.loop.loop_var)

    def _size_tested(self, condition: Any) -> Any:
        """Return the size that a position of a tile is compared with; None where a condition is about another thing."""
        if not isinstance(condition, tirx.LT | tirx.LE) or not uses(condition, self.loop.loop_var):
            return None
        begin = self.loop.loop_var * tirx.IntImm(self.dtype, self.tile)
        over = condition.b - condition.a + begin + (1 if isinstance(condition, tirx.LE) else 0)
        within = [*self.rows, self.loop.loop_var]
        sizes = (Analyzer().simplify(over + row) for row in self.rows)
        return next((size for size in sizes if not any(uses(size, v) for v in within)), None)


def _conditions(condition: Any) -> list[Any]:
    if isinstance(condition, tirx.And):
        return [*_conditions(condition.a), *_conditions(condition.b)]
    return [condition]
