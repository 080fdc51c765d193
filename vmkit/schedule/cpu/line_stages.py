"""Windows reduced in two stages, line by line: over all axes but the last one, and over what that leaves along it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from math import prod

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Range
from tvm.sym import Analyzer

from ..._dataclasses import dataclass
from ..._tvm.nodes import TensorLoad, is_choice
from ..blocks import STACK, SingleReduction, accesses, single_reduction
from ..expressions import conjuncts, known, loads_in, replaced, stride, uses
from .boundary_peeling import adds_nothing
from .stages import block_of, is_chain, nests_of, with_nests

__all__ = ["AFTER", "LINES", "LONG", "PADDED", "RESULTS", "Window", "window_of"]

LINES, PADDED, RESULTS, AFTER, _ENDS = "lines", "padded", "results", "after", "ends"
"""The names of the blocks: what a window leaves of lines, that with what pads its ends, the results, these mapped; what
pads the ends alone."""

LONG = 16
"""Results of a line that are worth vectors of their own."""

_WRITTEN_OUT = 27  # the most steps of a window that are terms of one expression

Read = Callable[["tirx.Expr"], "tirx.Expr"]
"""Returns what is reduced at a place on the last axis, by the axes of the reduction."""


@dataclass(frozen=True)
class _Padding:
    """The data of a padded operand, which is read where tests hold."""

    axes: list[tirx.Var]
    data: TensorLoad
    across: list[tirx.Expr]
    ends: list[tirx.Expr]  # tests of the last axis


@dataclass(frozen=True)
class _Around:
    """The loops around all stages, the last of which goes over the lines by so many rows."""

    loops: list[tirx.Var]
    rows: int


@dataclass(frozen=True)
class Window:
    """A reduction of one operand over a window that goes along the last axis of both.

    Attributes
    ----------
    found : SingleReduction
        Its blocks.
    node : SBlock
        The reduction.
    lines, across : list of IterVar
        The axes of the results but the last one, and those of the window but the one along it.
    last, along : IterVar
        The last axis of the results, and the axis of the window along it.
    step : int
        How far apart windows begin along it.
    term : expression
        What is reduced: of an element, which it reads.
    load : TensorLoad
        That read.
    padding : _Padding or None
        How the operand is padded, where it is.
    """

    found: SingleReduction
    node: s_tir.SBlock
    lines: list[tirx.IterVar]
    across: list[tirx.IterVar]
    last: tirx.IterVar
    along: tirx.IterVar
    step: int
    term: tirx.Expr
    load: TensorLoad
    padding: _Padding | None

    @property
    def width(self) -> tirx.Expr:
        """The size of the data along the last axis."""
        return (self.load if self.padding is None else self.padding.data).source.ty.shape[-1]

    @property
    def rows(self) -> int:
        """How many lines of results go through a stage before the next one; 1 of an unknown number or length.

        What is read across two vectors that were just stored waits until both have come to the cache.
        """
        count, width = known(self.lines[-1].dom.extent), known(self.load.source.ty.shape[-1])
        if not count or not width or (known(self.last.dom.extent) or 0) < LONG:
            return 1
        bits = tvm.DataType(str(self.node.writes[0].source.ty.dtype)).bits
        most = STACK * 8 // (bits * width)
        return next((n for n in range(min(count, most), 1, -1) if count % n == 0), 1)

    def written(self, function: tirx.PrimFunc) -> tirx.PrimFunc:
        """Return the kernel with loops over lines of results, within which the stages of some lines follow each other.

        Each stage has a loop over these lines, where they are more than one.
        """
        root, nests, buffers = function.body.block, list[tirx.Stmt](), list[tirx.Buffer]()
        around = _Around([tirx.Var(v.var.name, str(v.var.ty.dtype)) for v in self.lines], self.rows)
        outer, results = [v.dom.extent for v in self.lines], self.node.writes[0].source
        dtype, init = str(results.ty.dtype), self.node.init.value

        def stage(name: str, size: tirx.Expr) -> tirx.Buffer:
            buffers.append(tirx.decl_buffer([*outer, size], dtype, name))
            return buffers[-1]

        def read_of(buffer: tirx.Buffer) -> Read:
            return lambda at: tirx.BufferLoad(buffer, [*(v.var for v in self.lines), at])

        read: Read = self._element
        place, steps = self._place(self.last.var, self.along.var), self.across
        is_padded = self.padding is not None and bool(self.padding.ends)
        ends = self._ends() if around.rows > 1 else None
        has_lines = any(known(v.dom.extent) != 1 for v in steps)
        if has_lines:
            made = stage(PADDED if ends else LINES, self.load.source.ty.shape[-1] if ends else self.width)
            x = _axis("x", self.width)
            at = x.var if ends is None else x.var + ends[0]
            nests.append(self._reduced(LINES, made, around, x, steps, read(x.var), at))
            read, steps = read_of(made), []
        if has_lines and ends:
            for begin, size in ((0, ends[0]), (ends[0] + ends[1], ends[2])):
                x = _axis("x", tirx.IntImm(str(self.last.var.ty.dtype), size))
                store = tirx.BufferStore(made, init, [*(v.var for v in self.lines), x.var + begin])
                nests += [_nest(_ENDS, store, around, [*self.lines, x])] if size else []
            place = self.load.indices[-1]
        elif is_padded:
            width = self.load.source.ty.shape[-1]
            made, x = stage(PADDED, width), _axis("x", width)
            axes = [*self.lines, x]
            store = tirx.BufferStore(made, self._end(x.var, read, init), [v.var for v in axes])
            nests.append(_nest(PADDED, store, around, axes))
            read, place, steps = read_of(made), self.load.indices[-1], []
        nests.append(self._reduced(RESULTS, results, around, self.last, [*steps, self.along], read(place)))
        if self.found.after is not None:
            after = block_of(nests_of(function)[-1])
            nests.append(_nest(AFTER, after.body, around, list(after.iter_vars)))
        body: tirx.Stmt = tirx.SeqStmt(nests) if len(nests) > 1 else nests[0]
        *_, count = outer
        sizes = [*outer[:-1], count // around.rows]
        for var, size in zip(reversed(around.loops), reversed(sizes), strict=True):
            body = tirx.For(var, tirx.IntImm(str(var.ty.dtype), 0), size, tirx.ForKind.SERIAL, body)
        changed = with_nests(root, [body], [] if self.padding is None else [self.load.source], buffers)
        return function.with_body(s_tir.SBlockRealize([], True, changed))

    def _reduced(
        self,
        name: str,
        buffer: tirx.Buffer,
        around: _Around,
        axis: tirx.IterVar,
        steps: list[tirx.IterVar],
        element: tirx.Expr,
        place: tirx.Expr | None = None,
    ) -> tirx.Stmt:
        """Return loops that reduce elements over some axes of the window, for each place on an axis.

        What that makes is stored at each of these places, or at the one given. Few steps are written out: LLVM makes
        vectors of a line whose elements are written once.
        """
        axes, init, combine = [*self.lines, axis], self.node.init.value, type(self.node.body.value)
        at = [*(v.var for v in self.lines), axis.var if place is None else place]
        sizes = [known(v.dom.extent) for v in steps]
        if prod(size or _WRITTEN_OUT + 1 for size in sizes) > _WRITTEN_OUT:
            value, start = combine(tirx.BufferLoad(buffer, at), element), tirx.BufferStore(buffer, init, at)
            return _nest(name, tirx.BufferStore(buffer, value, at), around, [*axes, *steps], start)
        value = init
        for index in product(*(range(size or 0) for size in sizes)):
            here = {v.var: tirx.IntImm(str(v.var.ty.dtype), i) for v, i in zip(steps, index, strict=True)}
            value = combine(value, replaced(element, here))
        return _nest(name, tirx.BufferStore(buffer, value, at), around, axes)

    def _place(self, at: tirx.Expr, along: tirx.Expr) -> tirx.Expr:
        """Return where a window reads the data along the last axis, given its place and an index of it."""
        place = replaced(self.load.indices[-1], {self.last.var: at, self.along.var: along})
        if self.padding is None or self.padding.ends:
            return place
        return replaced(self.padding.data.indices[-1], {self.padding.axes[-1]: place})

    def _ends(self) -> tuple[int, int, int] | None:
        """Return how long a padded line is before the data, in it and behind it; None of what is not known or cut."""
        if self.padding is None or not self.padding.ends:
            return None
        last = self.padding.axes[-1]
        begin = replaced(self.padding.data.indices[-1], {last: tirx.IntImm(str(last.ty.dtype), 0)})
        first = known(Analyzer().simplify(begin))
        width, whole = known(self.width), known(self.load.source.ty.shape[-1])
        if first is None or width is None or whole is None or first > 0 or whole < width - first:
            return None
        return -first, width, whole - width + first

    def _element(self, at: tirx.Expr) -> tirx.Expr:
        """Return what is reduced of the data at a place along it; what adds nothing where lines are padded."""
        if self.padding is None:
            return self._term(tirx.BufferLoad(self.load.source, [*self.load.indices[:-1], at]))
        *axes, _ = self.padding.axes
        places = dict(zip(axes, self.load.indices[:-1], strict=True))
        data = self.padding.data
        value = self._term(tirx.BufferLoad(data.source, [*(replaced(i, places) for i in data.indices[:-1]), at]))
        tests = [replaced(test, places) for test in self.padding.across]
        return tirx.if_then_else(reduce(tirx.And, tests), value, self.node.init.value) if tests else value

    def _end(self, at: tirx.Expr, read: Read, nothing: tirx.Expr) -> tirx.Expr:
        """Return what is at a place of a padded line."""
        assert self.padding is not None
        places = {self.padding.axes[-1]: at}
        # What goes across lines has been reduced, or is a single step.
        first = {v.var: v.dom.min for v in self.across}
        value = replaced(read(replaced(self.padding.data.indices[-1], places)), first)
        return tirx.if_then_else(reduce(tirx.And, [replaced(t, places) for t in self.padding.ends]), value, nothing)

    def _term(self, element: tirx.Expr) -> tirx.Expr:
        return tvm_ffi.structural_map(self.term, (TensorLoad, lambda _: element))


def window_of(sch: s_tir.Schedule) -> Window | None:
    """Return the window of a kernel that reduces one operand, whose last axis goes along that of the results."""
    found = single_reduction(sch)
    if found is None or found.spatial < 2 or len(found.others) > 1:
        return None
    node = sch.get(found.block)
    value, buffer = getattr(node.body, "value", None), node.writes[0].source  # of two results there is a sequence
    if not isinstance(value, tirx.Max | tirx.Min | tirx.Add) or not isinstance(node.init, tirx.BufferStore):
        return None
    *lines, last = list(node.iter_vars)[: found.spatial]
    at, term = [v.var for v in (*lines, last)], value.b
    is_own = isinstance(value.a, TensorLoad) and value.a.source.same_as(buffer)
    if not is_own or not all(i.same_as(v) for i, v in zip(node.body.indices, at, strict=True)):
        return None
    loads = loads_in(term)
    if len(loads) != 1 or loads[0].source.same_as(buffer):
        return None
    *others, place = loads[0].indices
    step, steps = stride(place, last.var), list(node.iter_vars)[found.spatial :]
    along = [v for v in steps if uses(place, v.var)]
    if step is None or step < 1 or len(along) != 1 or not (stride(place, along[0].var) or 0) > 0:
        return None
    if any(uses(place, v.var) for v in lines) or any(uses(i, v.var) for i in others for v in (last, along[0])):
        return None
    beside = tvm_ffi.structural_map(term, (TensorLoad, lambda load: tirx.const(0, load.ty.dtype)))
    if any(uses(beside, v.var) for v in (last, along[0])):  # such as a test of where the element is
        return None
    after = None if found.after is None else sch.get(found.after)
    if after is not None and not is_chain(node, [after]):
        return None
    padding = None
    if found.others:
        padding = _padding(sch.get(found.others[0]), node, loads[0])
        if padding is None:
            return None
    across = [v for v in steps if not v.same_as(along[0])]
    return Window(found, node, lines, across, last, along[0], step, term, loads[0], padding)


def _padding(pad: s_tir.SBlock, node: s_tir.SBlock, load: TensorLoad) -> _Padding | None:
    """Return how a stage pads an operand, where what it adds counts for nothing; else None."""
    choice, stage = getattr(pad.body, "value", None), pad.writes[0].source
    if not is_choice(choice) or not isinstance(choice.args[1], TensorLoad) or not load.source.same_as(stage):
        return None
    if not adds_nothing(node, stage, choice.args[2]):
        return None
    axes, data = [v.var for v in pad.iter_vars], choice.args[1]
    sides: dict[bool, list[tirx.Expr]] = {False: [], True: []}
    for test in conjuncts(choice.args[0]):
        used = [v for v in axes if uses(test, v)]
        if len(used) != 1:
            return None
        sides[used[0].same_as(axes[-1])].append(test)
    *others, last = data.indices
    if any(uses(index, axes[-1]) for index in others) or any(uses(last, v) for v in axes[:-1]):
        return None
    return _Padding(axes, data, sides[False], sides[True]) if stride(last, axes[-1]) == 1 else None


def _axis(name: str, size: tirx.Expr) -> tirx.IterVar:
    dtype = str(size.ty.dtype)
    return tirx.IterVar(Range(tirx.IntImm(dtype, 0), size), tirx.Var(name, dtype), tirx.IterVar.DataPar)


def _nest(
    name: str,
    store: tirx.BufferStore,
    around: _Around,
    axes: Sequence[tirx.IterVar],
    init: tirx.BufferStore | None = None,
) -> tirx.Stmt:
    """Return a block within loops over rows and over all axes but the first ones, whose loops are around it."""
    fresh = {v.var: tirx.Var(v.var.name, str(v.var.ty.dtype)) for v in axes}
    own = [tirx.IterVar(v.dom, fresh[v.var], v.iter_type) for v in axes]
    body = replaced(store, fresh)
    start = None if init is None else replaced(init, fresh)
    loops = [tirx.Var(v.var.name, str(v.var.ty.dtype)) for v in axes[len(around.loops) :]]
    block = s_tir.SBlock(own, *accesses(body), name, body, start)
    *outer, line = around.loops
    row = tirx.Var("row", str(line.ty.dtype))
    place = line if around.rows == 1 else line * around.rows + row
    made: tirx.Stmt = s_tir.SBlockRealize([*outer, place, *loops], True, block)
    for var, axis in zip(reversed(loops), reversed(axes), strict=False):
        made = tirx.For(var, axis.dom.min, axis.dom.extent, tirx.ForKind.SERIAL, made)
    if around.rows == 1:
        return made
    begin, size = (tirx.IntImm(str(line.ty.dtype), n) for n in (0, around.rows))
    return tirx.For(row, begin, size, tirx.ForKind.SERIAL, made)
