"""Blocks of a kernel that map elements to elements become parts of what reads them, where that repeats no work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import mul

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from .._tvm.nodes import TensorLoad, is_choice
from .blocks import Block, is_reduction, kernel_blocks
from .expressions import loads_in, stride, uses

__all__ = ["inline_cheap_blocks", "inline_rows", "inline_unless_large"]

# TVM writes a function out with its argument several times over: functions of functions would grow out of bounds.
_CALLS = 6
# Within each other: TVM writes a tanh out with five copies of its argument, and that in the copies of another's.
_TANHS = 2
# Within each other: TVM writes the floor of a quotient of integers out with copies of the dividend, too.
_DIVISIONS = 2
# Of a block into which others are written. Each reshape writes the index that it is read at several times over.
_MOST_NODES = 2000


def inline_cheap_blocks(schedule: s_tir.Schedule) -> None:
    """Inline every block that maps elements to elements into its consumers where that repeats no work.

    A block is kept where a reduction reads it (it would be computed once for each step of the reduction) unless that
    reads each element once, where several blocks read it, and where its one reader reads the same element many times.
    """
    for block in reversed(kernel_blocks(schedule)):
        if is_reduction(schedule, block):
            continue
        readers = list(schedule.get_consumers(block))
        if len(readers) != 1 or _repeats(schedule, block, readers[0]):
            continue
        if not is_reduction(schedule, readers[0]) or _is_summed_once(schedule.get(block), schedule.get(readers[0])):
            inline_unless_large(schedule, block, readers[0])


def inline_rows(schedule: s_tir.Schedule) -> None:
    """Inline what is computed for one row alone, by arithmetic, into its one reader of many rows that is no reduction.

    That is for loops in which rows go by some outputs at a time: what is the same for all rows is computed before them.
    """
    for block in reversed(kernel_blocks(schedule)):
        readers = list(schedule.get_consumers(block))
        if len(readers) != 1 or any(is_reduction(schedule, each) for each in (block, readers[0])):
            continue
        made, read = schedule.get(block), schedule.get(readers[0])
        if len(made.iter_vars) == 1 < len(read.iter_vars) and not _calls(made.body):
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
    if not calls and not len(written.shape):
        return False  # LLVM computes what does not change in a loop before it
    if calls and calls + _calls(read.body) > _CALLS and not _only_chooses(made.body, read.body):
        return True
    if calls and _most_tanhs(made.body) + _most_tanhs(read.body, loads) > _TANHS:
        return True
    if not calls and len(loads) == 1 and _is_one_to_one(loads[0], read):
        return False  # a part of a concatenation, which reads only some elements of it there
    return len(loads) > (2 if calls else 8) or not Analyzer().can_prove(_elements(read) <= _elements(made))


def _is_summed_once(made: s_tir.SBlock, read: s_tir.SBlock) -> bool:
    """Say whether a reduction reads each element of a block once, and the block neither pads nor moves them.

    Arithmetic may be written several times over, as a difference in the sum of its squares: it is computed once.
    """
    first, *others = [load for load in loads_in(read.body) if load.source.same_as(made.writes[0].source)]
    if others and (len(read.writes) > 1 or _calls(made.body)):
        return False  # a position beside the value: each is compared with what was stored, in its type
    if not all(tvm_ffi.structural_equal(first, other) for other in others):
        return False
    if not _is_one_to_one(first, read):
        return False
    is_padding = any(isinstance(value, tirx.Select) or is_choice(value) for value in _expressions_in(made.body))
    places: dict[tirx.Expr, int] = {v.var: at for at, v in enumerate(made.iter_vars)}
    return not is_padding and all(_are_in_order(load.indices, places) for load in loads_in(made.body))


def _are_in_order(indices: Sequence[tirx.Expr], places: Mapping[tirx.Expr, int]) -> bool:
    """Say whether an element is read at its own place, or one that is the same along some axes."""
    at = [places.get(index, -1) for index in indices if not isinstance(index, tirx.IntImm)]
    return -1 not in at and at == sorted(set(at))


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


def _only_chooses(*bodies: tirx.Stmt) -> bool:
    """Say whether all that is called are choices, which stand once in what they are written into.

    So does a concatenation of many tensors whose sum with a bias is clipped. A function would be written out around
    every choice, or with all of them in each of its copies.
    """
    calls: list[tvm.ir.Call] = []
    for body in bodies:
        tvm_ffi.structural_walk(body, (tvm.ir.Call, calls.append))
    return all(map(is_choice, calls))


def _elements(block: s_tir.SBlock) -> tirx.Expr:
    """Return how many times the body of a block runs."""
    return reduce(mul, [v.dom.extent for v in block.iter_vars], tirx.IntImm("int64", 1))
