"""What schedule rules ask about a kernel: its blocks, which of them reduce, what reads what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isinf, prod
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Range
from tvm.s_tir.schedule import LoopRV as Loop
from tvm.s_tir.schedule import SBlockRV as Block

from .._dataclasses import dataclass
from .._tvm import register_reducer
from .._tvm.nodes import TensorLoad
from ..kernels.builder import FEWEST_ELEMENTS, with_fields
from ..relay.op.ordering import first_largest, first_smallest
from .expressions import known, loads_in

__all__ = [
    "STACK",
    "Block",
    "Loop",
    "SingleReduction",
    "accesses",
    "computed_once",
    "extent",
    "is_empty",
    "is_reduction",
    "keep_on_stack",
    "kernel_blocks",
    "loops_of_results",
    "mark_loops",
    "marked_loops",
    "partial_results",
    "share_among_cores",
    "single_reduction",
    "static_size",
    "unmarked",
]

STACK = 8192
"""Bytes of what a kernel makes that are kept on the stack."""


def kernel_blocks(schedule: s_tir.Schedule) -> list[Block]:
    """Return the blocks of a kernel in order of computation; none of one that is loops within a single block."""
    root = schedule.mod["main"].body.block.name_hint
    return list(schedule.get_child_blocks(schedule.get_sblock(root)))


def is_reduction(schedule: s_tir.Schedule, block: Block) -> bool:
    """Say whether a block reduces."""
    return any(v.iter_type == tirx.IterVar.CommReduce for v in schedule.get(block).iter_vars)


def extent(schedule: s_tir.Schedule, loop: Loop) -> int | None:
    """Return the trip count of a loop; None where it is symbolic."""
    return known(schedule.get(loop).extent)


def share_among_cores(schedule: s_tir.Schedule, loops: Sequence[Loop]) -> None:
    """Have cores share the iterations of loops that stand within one another.

    TVM does not get through each product of sizes that are sums, as ``b * (h - 5) * 3``: the innermost loops are left
    to each core then.
    """
    shared = list(loops)
    while len(shared) > 1:
        try:
            schedule.parallel(schedule.fuse(*shared))
            return
        except tvm.error.InternalError:
            shared.pop()
    schedule.parallel(shared[0])


def static_size(schedule: s_tir.Schedule, loops: list[Loop]) -> int:
    """Return the number of iterations of a loop nest, symbolic loops counted as one.

    Of a kernel for several sizes it is the elements of the smallest of these, if that is more.
    """
    sizes = [extent(schedule, loop) for loop in loops]
    fewest = 0 if None not in sizes else int(schedule.mod["main"].attrs.get(FEWEST_ELEMENTS, 0))
    return max(fewest, prod(1 if size is None else size for size in sizes))


def keep_on_stack(schedule: s_tir.Schedule, block: Block, loops: list[Loop]) -> None:
    """Keep what a block makes of a line on the stack if it fits; the loops go along the line.

    Within a loop that is shared, other memory is asked for in each step.
    """
    is_known = all(extent(schedule, loop) is not None for loop in loops)
    bits = tvm.DataType(str(schedule.get(block).writes[0].source.ty.dtype)).bits
    if is_known and static_size(schedule, loops) * bits <= STACK * 8:
        schedule.set_scope(block, 0, "local")


def is_empty(schedule: s_tir.Schedule) -> bool:
    """Say whether a loop of a kernel is known to have no step: primitives that tile or fuse it divide by its size."""
    return any(extent(schedule, loop) == 0 for block in kernel_blocks(schedule) for loop in schedule.get_loops(block))


@dataclass(frozen=True)
class SingleReduction:
    """A kernel around one reduction.

    Attributes
    ----------
    block : Block
        The reduction, its loops in the order of its iteration variables, those of the output first.
    spatial : int
        How many loops are of the output.
    after : Block or None
        The one block that reads the result and writes the kernel's output.
    others : list of Block
        What is computed before.
    """

    block: Block
    spatial: int
    after: Block | None
    others: list[Block]


def single_reduction(schedule: s_tir.Schedule) -> SingleReduction | None:
    """Return the structure of a kernel if it is that of a single reduction."""
    blocks = kernel_blocks(schedule)
    reductions = [b for b in blocks if is_reduction(schedule, b)]
    if len(reductions) != 1:
        return None
    block = reductions[0]
    after = list(schedule.get_consumers(block))
    if len(after) > 1 or (after and schedule.get_consumers(after[0])):
        return None
    kinds = [v.iter_type for v in schedule.get(block).iter_vars]
    spatial = kinds.count(tirx.IterVar.DataPar)
    if len(schedule.get_loops(block)) != len(kinds) or kinds[:spatial] != [tirx.IterVar.DataPar] * spatial:
        return None
    if spatial == 0:
        return None
    used = [block, *after]
    others = [b for b in blocks if not any(schedule.get(b).same_as(schedule.get(u)) for u in used)]
    return SingleReduction(block, spatial, after[0] if after else None, others)


# Reductions to an extreme that pass over NaN, which TVM does not know: the further element comes first.
register_reducer("first_largest", first_largest, tirx.min_value)
register_reducer("first_smallest", first_smallest, tirx.max_value)


def partial_results(schedule: s_tir.Schedule, block: Block, loop: Loop, axis: int) -> Block:
    """Cut a reduction in two, as ``rfactor`` does, also one to an extreme that starts from infinity.

    TVM knows the ones that start from the largest finite number only; meanwhile it sees that.
    """
    for other in kernel_blocks(schedule):
        if not schedule.get_loops(other):
            # A single number beside it that no loop computes would be an internal error of rfactor.
            schedule.add_unit_loop(other)
    start = getattr(schedule.get(block).init, "value", None)
    if not isinstance(start, tirx.FloatImm) or not isinf(start.value):
        return schedule.rfactor(loop, axis)
    dtype = str(start.ty.dtype)
    _start_from(schedule, block, tirx.max_value(dtype) if start.value > 0 else tirx.min_value(dtype))
    partial = schedule.rfactor(loop, axis)
    for each in (partial, block):
        _start_from(schedule, each, start)
    return partial


def _start_from(schedule: s_tir.Schedule, block: Block, value: tirx.Expr) -> None:
    """Let a reduction start from a value."""
    node = schedule.get(block)
    made = with_fields(node, init=tirx.BufferStore(node.init.buffer, value, node.init.indices))
    schedule.state.replace(schedule.get_sref(block), made, {node: made})


def mark_loops(schedule: s_tir.Schedule, key: str, loops: Mapping[str, Loop], *numbers: int) -> None:
    """Mark loops, which are given by the roles that they have in what is to be done, and say some numbers of it."""
    for role, loop in loops.items():
        schedule.annotate(loop, key, [role, *numbers])


def marked_loops(function: tirx.PrimFunc, key: str) -> dict[str, tirx.For]:
    """Return the loops that :func:`mark_loops` marked, in a scheduled kernel."""
    found: dict[str, tirx.For] = {}

    def note(loop: tirx.For) -> None:
        if key in loop.annotations:
            found[str(loop.annotations[key][0])] = loop

    tvm_ffi.structural_walk(function.body, (tirx.For, note))
    return found


def unmarked(loop: tirx.For, key: str) -> dict[str, Any]:
    """Return the annotations of a loop but for one, whose work is done."""
    return {k: v for k, v in loop.annotations.items() if k != key}


def loops_of_results(schedule: s_tir.Schedule, found: SingleReduction, outer: list[Loop]) -> list[Loop]:
    """Keep the results of a reduction's tile in registers, and return the loops that write them or what follows them.

    They run at the end of the innermost of the loops `outer`, which are over the tiles.
    """
    if found.after is None:
        after = schedule.cache_write(found.block, 0, "local")
    else:
        after = found.after
        schedule.set_scope(found.block, 0, "local")
    schedule.reverse_compute_at(after, outer[-1], preserve_unit_loops=True)
    return list(schedule.get_loops(after))[len(outer) :]


def computed_once(name: str, value: tirx.Expr) -> tuple[tirx.Var, list[tirx.Stmt]]:
    """Return a variable for a value, and the statements that compute it before those that use the variable.

    Simplifying puts what a variable stands for in its place, but not what is loaded.
    """
    var = tirx.Var(name, str(value.ty.dtype))
    place, zero = tirx.decl_buffer((1,), var.ty.dtype, f"{name}_place", scope="local"), tirx.IntImm("int64", 0)
    stored = tirx.BufferStore(place, value, [zero])
    return var, [tirx.AllocBuffer(place), stored, tirx.Bind(var, tirx.BufferLoad(place, [zero]))]


def accesses(body: tirx.Stmt) -> tuple[list[tirx.BufferRegion], list[tirx.BufferRegion]]:
    """Return which elements a statement reads, except those that it writes, and which it writes; each of them once."""
    stores: list[tirx.BufferStore] = []
    tvm_ffi.structural_walk(body, (tirx.BufferStore, stores.append))
    reads: list[TensorLoad] = []
    for load in loads_in(body):
        is_written = any(load.source.same_as(store.buffer) for store in stores)
        if not is_written and not any(tvm_ffi.structural_equal(load, read) for read in reads):
            reads.append(load)

    def region(buffer: tirx.Buffer, indices: Sequence[tirx.Expr]) -> tirx.BufferRegion:
        return tirx.BufferRegion(buffer, [Range.from_min_extent(index, 1) for index in indices])

    return [region(r.source, r.indices) for r in reads], [region(s.buffer, s.indices) for s in stores]
