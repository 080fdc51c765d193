"""Boundary peeling: windows that stop at the edges of their data, in place of data padded with what adds nothing.

Once the padding is inlined, every element that a window reads is tested. Across the lines, a loop over the window runs
only where there is data. Along a line, the first tiles and the last ones are peeled off the loop and test each element,
with constants where sizes are known, and those between do not reach an edge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from ..._dataclasses import dataclass
from ..._tvm.nodes import TensorLoad, is_choice
from ...kernels.builder import with_fields
from ..blocks import Loop, SingleReduction, computed_once, unmarked
from ..expressions import conjuncts, is_one, replaced, stride, uses

__all__ = ["Boundaries", "adds_nothing", "boundaries_of", "copied", "mark_boundaries", "with_peeled_boundaries"]

_TILES, _ACROSS = "vmkit.boundaries.tiles", "vmkit.boundaries.across"

Values = Mapping[tirx.Var, "tirx.Expr"]
"""What the iteration variables of a block are."""


@dataclass(frozen=True)
class Boundaries:
    """How windows reach over the edges of their data.

    Attributes
    ----------
    before, after : int
        How far they reach over the beginning and the end of a line.
    stride : int
        How far apart the windows of a line begin.
    steps : tuple of int
        Which iteration variables of the reduction go along the windows across lines, where these have edges.
    """

    before: int
    after: int
    stride: int
    steps: tuple[int, ...]

    def tiles(self, rows: int) -> tuple[int, int]:
        """Return how many tiles at the beginning and at the end of a line may reach over an edge, at most."""
        of_tile = rows * self.stride
        if self.before == self.after == 0:
            return 0, 0
        # The last tile may begin early, and what is in it alone may be a single position.
        return -(-self.before // of_tile), 1 + max(0, -(-(self.after - self.stride) // of_tile))


def boundaries_of(sch: s_tir.Schedule, found: SingleReduction, row_axis: int) -> Boundaries | None:
    """Return the boundaries of a reduction whose one other stage pads its data with what adds nothing; else None."""
    if len(found.others) != 1:
        return None
    pad, node = sch.get(found.others[0]), sch.get(found.block)
    choice = getattr(pad.body, "value", None)
    stage = pad.writes[0].source
    regions = [region for region in node.reads if region.source.same_as(stage)]
    if not is_choice(choice) or not isinstance(choice.args[1], TensorLoad) or len(regions) != 1:
        return None
    if not adds_nothing(node, stage, choice.args[2]):
        return None
    over, step, steps = {1: 0, -1: 0}, 1, []
    for test in conjuncts(choice.args[0]):
        rest = _rest(test)
        axis = next((at for at, v in enumerate(pad.iter_vars) if rest is not None and uses(rest, v.var)), None)
        if rest is None or axis is None:
            return None
        index, side = regions[0].region[axis].min, stride(rest, pad.iter_vars[axis].var)
        along = {at: stride(index, v.var) for at, v in enumerate(node.iter_vars) if uses(index, v.var)}
        if len(along) != 2 or side not in over or not all(s is not None and s > 0 for s in along.values()):
            return None
        (line, _), (window, _) = along.items()
        # Vectors go along the last axis: their elements would stop at different places.
        if not line < found.spatial - 1 or window < found.spatial:
            return None
        if line != row_axis:
            steps.append(window)
            continue
        # Of the padded stage, what comes before the data, or where the data ends.
        limit = _at(rest, pad.iter_vars[axis].var, 0)
        beyond = Analyzer().simplify(-limit if side == 1 else stage.ty.shape[axis] - limit - 1)
        if not isinstance(beyond, tirx.IntImm):
            return None
        over[side], step = int(beyond), along[line] or 1
    return Boundaries(over[1], over[-1], step, tuple(dict.fromkeys(steps)))


def mark_boundaries(
    sch: s_tir.Schedule,
    across: list[Loop],
    tile: Loop | None,
    row_axis: int,
    counts: tuple[int, int],
    *,
    may_be_short: bool = False,
) -> None:
    """Mark the loops that :func:`with_peeled_boundaries` changes.

    Parameters
    ----------
    sch : Schedule
        The schedule of the kernel, in which the padding is inlined.
    across : list of LoopRV
        The loops over the window across lines.
    tile : LoopRV or None
        The loop over the tiles of a line; None where all of them test what they read.
    row_axis : int
        Which iteration variable of the reduction goes along a line.
    counts : tuple of int
        How many tiles at the beginning and at the end test what they read.
    may_be_short : bool
        Whether a line may have fewer positions than a tile. Those that are not there are not written then.
    """
    for loop in across:
        sch.annotate(loop, _ACROSS, 1)
    if tile is not None:
        sch.annotate(tile, _TILES, [row_axis, *counts, int(may_be_short)])


def with_peeled_boundaries(function: tirx.PrimFunc, facts: Analyzer | None = None) -> tirx.PrimFunc:
    """Return a scheduled kernel in which the marked loops stop at the edges.

    The facts are what is known of its sizes wherever it runs: of a few tiles none may be free of tests.
    """
    simplify, more = (facts or Analyzer()).simplify, list[tirx.Buffer]()
    registers = [each for each in function.body.block.alloc_buffers if str(each.ty.storage_scope) == "local"]

    def bounded(loop: tirx.For) -> tirx.Stmt:
        return _bounded(loop) if _ACROSS in loop.annotations else loop

    def cut(loop: tirx.For) -> tirx.Stmt:
        if _TILES not in loop.annotations:
            return loop
        before, parts = _cut(loop, simplify, *map(int, loop.annotations[_TILES]))
        made = [*before, *_apart(parts, registers, more)]
        return tirx.SeqStmt(made) if len(made) > 1 else made[0]

    body = tvm_ffi.structural_map(function.body, (tirx.For, bounded))
    body = tvm_ffi.structural_map(body, (tirx.For, cut))
    if more:
        changed = with_fields(body.block, alloc_buffers=[*body.block.alloc_buffers, *more])
        body = s_tir.SBlockRealize(body.iter_values, body.predicate, changed)
    return function.with_body(body)


def _apart(parts: list[tirx.For], registers: Sequence[tirx.Buffer], more: list[tirx.Buffer]) -> list[tirx.Stmt]:
    """Return loops over tiles one after the other, each with registers of its own, and add these to `more`.

    What two loops use TVM takes for memory that both see: all tiles have a place there, which is written and read back
    in every step.
    """
    first, *others = parts
    made: list[tirx.Stmt] = [first]
    for part in others:
        own = {each: tirx.Var(each.name, each.ty) for each in registers if uses(part, each)}
        made.append(replaced(part, own))
        more += own.values()
    return made


def _bounded(loop: tirx.For) -> tirx.Stmt:
    """Return a loop over a window that runs only where there is data."""
    dtype, var, simplify = str(loop.loop_var.ty.dtype), loop.loop_var, Analyzer().simplify
    low, high = tirx.IntImm(dtype, 0), loop.extent
    rests: list[tirx.Expr] = []

    def is_kept(test: tirx.Expr, values: Values) -> bool:
        rest = _rest(replaced(test, values))
        if rest is None or not uses(rest, var):
            return True
        if not any(tvm_ffi.structural_equal(rest, other) for other in rests):
            rests.append(rest)
        return False

    body = _with_tests(loop.body, is_kept)
    for rest in rests:
        step, at_first = stride(rest, var) or 1, _at(rest, var, 0)
        if step > 0:
            low = tirx.max(low, tirx.floordiv(step - 1 - at_first, tirx.IntImm(dtype, step)))
        else:
            high = tirx.min(high, tirx.floordiv(at_first, tirx.IntImm(dtype, -step)) + 1)
    # What is read may be indexed by larger integers than the loop has.
    low, count = (each.astype(dtype) for each in (simplify(low), simplify(high - low)))
    here, begin = (tirx.Var(f"{loop.loop_var.name}{role}", dtype) for role in ("", "_begin"))
    # TVM sets a sum aside outside of all loops that its steps are counted by, and those over lines are none.
    return tirx.SeqStmt([tirx.Bind(begin, low), _part(loop, _ACROSS, here, begin + here, count, body)])


def _cut(
    loop: tirx.For, simplify: Callable[[tirx.Expr], tirx.Expr], row_axis: int, first: int, last: int, may_be_short: int
) -> tuple[list[tirx.Stmt], list[tirx.For]]:
    """Return a loop over tiles as loops over those at the ends and over those between, which test nothing.

    Before them stands what their places are computed from where sizes are known at run time only: in each index TVM
    would simplify it again and again.
    """

    steps: list[tirx.Var] = []  # of windows along a line

    def is_kept(test: tirx.Expr, values: Values) -> bool:
        used = {at: value for at, (var, value) in enumerate(values.items()) if uses(test, var)}
        if row_axis not in used:
            return True
        steps.extend(value for at, value in used.items() if at != row_axis and isinstance(value, tirx.Var))
        return False

    def rolled(each: tirx.For) -> tirx.For:
        if each.kind != tirx.ForKind.UNROLLED or not any(each.loop_var.same_as(step) for step in steps):
            return each
        serial = tirx.ForKind.SERIAL
        return tirx.For(each.loop_var, each.min, each.extent, serial, each.body, None, each.annotations)

    dtype, most = str(loop.loop_var.ty.dtype), loop.extent
    begin = simplify(tirx.min(tirx.IntImm(dtype, first), most))
    end = simplify(tirx.max(begin, most - tirx.IntImm(dtype, last)))
    free, zero, between = _with_tests(loop.body, is_kept), tirx.IntImm(dtype, 0), simplify(end - begin)
    is_known = isinstance(most, tirx.IntImm)
    parts = [(zero, begin, loop.body), (begin, between, free), (end, simplify(most - end), loop.body)]
    if not is_known and tvm_ffi.structural_equal(between, zero):
        here = tirx.Var(loop.loop_var.name, dtype)
        return [], [_part(loop, _TILES, here, here, most, loop.body)]
    before: list[tirx.Stmt] = []
    if not is_known:
        between, before = computed_once("between", between)
        # Nothing is known of where tiles with tests are, so one copy of them is enough, and each test stands there once
        # for all steps of the windows.
        tested = tvm_ffi.structural_map(loop.body, (tirx.For, rolled))
        if may_be_short:
            tested = tvm_ffi.structural_map(tested, (s_tir.SBlockRealize, partial(_written_if_there, axis=row_axis)))
        parts = [(zero, most - between, tested), (begin, between, free)]
    made = []
    for origin, count, body in parts:
        here = tirx.Var(loop.loop_var.name, dtype)
        place = origin + here if is_known or body is free else here + tirx.Select(here < begin, zero, between)
        made.append(_part(loop, _TILES, here, place, count, body))
    return before, [each for each in made if not (isinstance(each.extent, tirx.IntImm) and int(each.extent) == 0)]


def _written_if_there(realize: s_tir.SBlockRealize, axis: int) -> s_tir.SBlockRealize:
    """Return a block that writes positions of a line, along one of its axes, as one that leaves out what is none."""
    if any(str(region.source.ty.storage_scope) == "local" for region in realize.block.writes):
        return realize
    is_there = realize.iter_values[axis] < _size_along(realize.block, axis)
    predicate = is_there if is_one(realize.predicate) else tirx.all(realize.predicate, is_there)
    return s_tir.SBlockRealize(realize.iter_values, predicate, realize.block)


def _size_along(block: s_tir.SBlock, axis: int) -> tirx.Expr:
    """Return how many positions a block's results have along one of its axes: those of its tiles may be more."""
    var = block.iter_vars[axis].var
    for region in block.writes:
        for place, size in zip(region.region, region.source.ty.shape, strict=True):
            if place.min.same_as(var):
                return size
    return block.iter_vars[axis].dom.extent


def _part(loop: tirx.For, key: str, var: tirx.Var, place: tirx.Expr, count: tirx.Expr, body: tirx.Stmt) -> tirx.For:
    """Return a loop by a variable over some places of a marked loop, with definitions of its own."""
    dtype = str(loop.loop_var.ty.dtype)
    moved = replaced(body, {loop.loop_var: place})
    annotations = unmarked(loop, key)
    return tirx.For(var, tirx.IntImm(dtype, 0), count, loop.kind, copied(moved), loop.thread_binding, annotations)


def copied(body: tirx.Stmt) -> tirx.Stmt:
    """Return statements with loops, blocks and names of their own, over the same buffers."""
    fresh: dict[tirx.Var, tirx.Var] = {}

    def note(var: tirx.Var) -> None:
        fresh[var] = tirx.Var(var.name, var.ty)

    def note_axes(block: s_tir.SBlock) -> None:
        for each in block.iter_vars:
            note(each.var)

    tvm_ffi.structural_walk(body, (tirx.For, lambda loop: note(loop.loop_var)))
    tvm_ffi.structural_walk(body, (tirx.Bind, lambda bind: note(bind.var)))
    tvm_ffi.structural_walk(body, (s_tir.SBlock, note_axes))
    return replaced(body, fresh)


def _with_tests(body: tirx.Stmt, is_kept: Callable[[tirx.Expr, Values], bool]) -> tirx.Stmt:
    """Return statements whose blocks test only some of what they did."""

    def realize(node: s_tir.SBlockRealize) -> s_tir.SBlockRealize:
        block = node.block
        values = {v.var: value for v, value in zip(block.iter_vars, node.iter_values, strict=True)}

        def choice(call: tvm.ir.Call) -> tirx.Expr:
            if not is_choice(call):
                return call
            tests = [test for test in conjuncts(call.args[0]) if is_kept(test, values)]
            return tirx.if_then_else(reduce(tirx.And, tests), *call.args[1:]) if tests else call.args[1]

        made = with_fields(block, body=tvm_ffi.structural_map(block.body, (tvm.ir.Call, choice)))
        return s_tir.SBlockRealize(node.iter_values, node.predicate, made)

    return tvm_ffi.structural_map(body, (s_tir.SBlockRealize, realize))


def _rest(test: tirx.Expr) -> tirx.Expr | None:
    """Return what is not negative where a comparison of integers holds; None of another test."""
    match test:
        case tirx.LE():
            return test.b - test.a
        case tirx.LT():
            return test.b - test.a - 1
        case tirx.GE():
            return test.a - test.b
        case tirx.GT():
            return test.a - test.b - 1
    return None


def adds_nothing(node: s_tir.SBlock, stage: tirx.Buffer, padding: tirx.Expr) -> bool:
    """Say whether a reduction is the same without the steps that read the padding of a stage."""
    value, start = node.body.value, getattr(node.init, "value", None)
    if isinstance(value, tirx.Max | tirx.Min):
        plain = [each for each in (value.a, value.b) if isinstance(each, TensorLoad)]
        return len(plain) == 2 and start is not None and tvm_ffi.structural_equal(padding, start)
    is_zero = getattr(padding, "value", None) == 0
    return is_zero and isinstance(value, tirx.Add) and any(_is_zero(each, stage) for each in (value.a, value.b))


def _is_zero(term: tirx.Expr, stage: tirx.Buffer) -> bool:
    """Say whether a term is zero where a stage is."""
    match term:
        case TensorLoad():
            return bool(term.source.same_as(stage))
        case tirx.Cast():
            return _is_zero(term.value, stage)
        case tirx.Mul():
            return _is_zero(term.a, stage) or _is_zero(term.b, stage)
    return False


def _at(expr: tirx.Expr, var: tirx.Var, value: int) -> tirx.Expr:
    return replaced(expr, {var: tirx.IntImm(str(var.ty.dtype), value)})
