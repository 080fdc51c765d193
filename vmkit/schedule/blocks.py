"""What schedule rules ask about a kernel: its blocks, which of them reduce, what reads what."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from math import isinf
from operator import mul
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir.schedule import LoopRV as Loop
from tvm.s_tir.schedule import SBlockRV as Block
from tvm.sym import Analyzer

from .._tvm import register_reducer
from .._tvm.nodes import TensorLoad
from ..relay.op.ordering import first_largest, first_smallest
from .expressions import known, loads_in, stride, uses

__all__ = [
    "Block",
    "Loop",
    "SingleReduction",
    "extent",
    "inline_cheap_blocks",
    "inline_unless_large",
    "is_empty",
    "is_reduction",
    "kernel_blocks",
    "loops_of_results",
    "partial_results",
    "single_reduction",
    "static_size",
    "unmarked",
    "with_fields",
]

# TVM writes a function out with its argument several times over: functions of functions would grow out of bounds.
_CALLS = 6
# Within each other: TVM writes a tanh out with five copies of its argument, and that in the copies of another's.
_TANHS = 2
# Within each other: TVM writes the floor of a quotient of integers out with copies of the dividend, too.
_DIVISIONS = 2
# Of a block into which others are written. Each reshape writes the index that it is read at several times over.
_MOST_NODES = 2000
# Of a block.
_FIELDS = ("iter_vars", "reads", "writes", "name_hint", "body", "init", "alloc_buffers", "match_buffers", "annotations")


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


def static_size(schedule: s_tir.Schedule, loops: list[Loop]) -> int:
    """Return the number of iterations of a loop nest, symbolic loops counted as one."""
    size = 1
    for loop in loops:
        known_size = extent(schedule, loop)
        size *= 1 if known_size is None else known_size
    return size


def is_empty(schedule: s_tir.Schedule) -> bool:
    """Say whether a loop of a kernel is known to have no step: primitives that tile or fuse it divide by its size."""
    return any(extent(schedule, loop) == 0 for block in kernel_blocks(schedule) for loop in schedule.get_loops(block))


def inline_cheap_blocks(schedule: s_tir.Schedule) -> None:
    """Inline every block that maps elements to elements into its consumers where that repeats no work.

    A block is kept where a reduction reads it (it would be computed once for each step of the reduction), where
    several blocks read it, and where its one reader reads the same element many times.
    """
    for block in reversed(kernel_blocks(schedule)):
        if is_reduction(schedule, block):
            continue
        readers = list(schedule.get_consumers(block))
        if len(readers) != 1 or is_reduction(schedule, readers[0]) or _repeats(schedule, block, readers[0]):
            continue
        inline_unless_large(schedule, block, readers[0])


def inline_unless_large(schedule: s_tir.Schedule, block: Block, reader: Block) -> None:
    """Inline a block into its one reader, unless TVM refuses or would not be done with the result in good time."""
    if _would_be_large(schedule, block, reader):
        return
    with suppress(s_tir.ScheduleError):
        schedule.compute_inline(block)


def _repeats(schedule: s_tir.Schedule, block: Block, reader: Block) -> bool:
    """Say whether a block inlined into its reader would compute elements again and again."""
    made, read = schedule.get(block), schedule.get(reader)
    value = getattr(made.body, "value", None)
    while isinstance(value, tirx.Cast):
        value = value.value
    if isinstance(value, TensorLoad):
        return False
    written = made.writes[0].source
    loads = [load for load in loads_in(read.body) if load.source.same_as(written)]
    # One element may be read twice, as in x * sigmoid(x), where the compiler sees that it is the same; a sum or a
    # product also more often, as the biased value is in GELU by tanh.
    calls = _calls(made.body)
    if _most_divisions(made.body) + _most_divisions(read.body, loads) > _DIVISIONS:
        return True
    if not calls and not made.iter_vars:
        return False  # LLVM computes what does not change in a loop before it
    if calls and calls + _calls(read.body) > _CALLS:
        return True
    if calls and _most_tanhs(made.body) + _most_tanhs(read.body, loads) > _TANHS:
        return True
    if not calls and len(loads) == 1 and _is_one_to_one(loads[0], read):
        return False  # a part of a concatenation, which reads only some elements of it there
    return len(loads) > (2 if calls else 8) or not Analyzer().can_prove(_elements(read) <= _elements(made))


def _is_one_to_one(load: TensorLoad, block: s_tir.SBlock) -> bool:
    """Say whether a block reads no element twice by a load: each of its axes goes along an axis of the operand."""
    waiting = [v.var for v in block.iter_vars if not Analyzer().can_prove_equal(v.dom.extent, 1)]
    for index in load.indices:
        along = [var for var in waiting if uses(index, var)]
        if len(along) == 1 and stride(index, along[0]) == 1:
            waiting = [var for var in waiting if not var.same_as(along[0])]
    return not waiting


def _would_be_large(schedule: s_tir.Schedule, block: Block, reader: Block) -> bool:
    """Say whether a block inlined into its reader would make a statement of too many nodes."""
    made, read = schedule.get(block), schedule.get(reader)
    size, written = _nodes(made.body), made.writes[0].source
    loads = [load for load in loads_in(read.body) if load.source.same_as(written)]
    if _nodes(read.body) + size * len(loads) > _MOST_NODES:
        return True
    uses_of_axes = _nodes(made.body, tirx.Var)
    indices = sum(_nodes(index) for load in loads for index in load.indices)
    return _nodes(read.body) + size * len(loads) + uses_of_axes * indices > _MOST_NODES


def _nodes(node: tirx.Stmt | tirx.Expr, kind: type = tvm.ir.Expr) -> int:
    """Return how many expressions of a kind stand in a node, each as often as it stands there."""
    found: list[tvm.ir.Expr] = []
    tvm_ffi.structural_walk(node, (kind, found.append))
    return len(found)


def _most_tanhs(body: tirx.Stmt, around: Sequence[TensorLoad] | None = None) -> int:
    """Return how many tanhs stand within each other in a statement at most, or at most around some loads."""
    calls: list[tvm.ir.Call] = []
    tvm_ffi.structural_walk(body, (tvm.ir.Call, calls.append))
    return _most_nested([call for call in calls if getattr(call.op, "name", "") == "tirx.tanh"], around)


def _most_divisions(body: tirx.Stmt, around: Sequence[TensorLoad] | None = None) -> int:
    """Return how many quotients of elements of tensors stand within each other, or at most around some loads."""
    quotients = [each for each in _expressions_in(body) if isinstance(each, tirx.FloorDiv | tirx.FloorMod)]
    return _most_nested([each for each in quotients if loads_in(each)], around)


def _most_nested(kind: Sequence[tirx.Expr], around: Sequence[TensorLoad] | None) -> int:
    """Return how many of some expressions stand within each other at most, or at most around some loads."""
    inside = [_expressions_in(each) for each in kind]
    return max((sum(each in found for found in inside) for each in (kind if around is None else around)), default=0)


def _expressions_in(node: tirx.Expr | tirx.Stmt) -> set[tirx.Expr]:
    found: set[tirx.Expr] = set()
    tvm_ffi.structural_walk(node, (tvm.ir.Expr, found.add))
    return found


def _calls(body: tirx.Stmt) -> int:
    """Return how many functions are called."""
    calls: list[tvm.ir.Call] = []
    tvm_ffi.structural_walk(body, (tvm.ir.Call, calls.append))
    return len(calls)


def _elements(block: s_tir.SBlock) -> tirx.Expr:
    """Return how many times the body of a block runs."""
    return reduce(mul, [v.dom.extent for v in block.iter_vars], tirx.IntImm("int64", 1))


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


def unmarked(loop: tirx.For, key: str) -> dict[str, Any]:
    """Return the annotations of a loop but for one, whose work is done."""
    return {k: v for k, v in loop.annotations.items() if k != key}


def with_fields(block: s_tir.SBlock, **changed: Any) -> s_tir.SBlock:
    """Return a block with some fields changed."""
    return s_tir.SBlock(**{name: getattr(block, name) for name in _FIELDS} | changed)


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
