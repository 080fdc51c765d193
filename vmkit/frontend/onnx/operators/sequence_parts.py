"""Tensors split to sequences, and sequences concatenated to tensors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .... import relay
from ....relay.ir import Any as AnyDim
from ....relay.ir import Dim, Expr, TensorType, UnrankedType
from ....relay.op import build
from ..context import Context
from ..elements import known_elements, sequence_of
from ..iteration import Loop, Step, iterate
from ..outcome import Condition, Outcome
from ..ranks import by_size, is_unranked, ways_of
from ..registry import converter
from ..scope import Scope
from ..typing import typed
from .control_flow import scalar
from .layout import to_shape
from .sequence import length_of, require_sequence
from .slicing import slice_by_inputs


@converter("SplitToSequence", since=11)
def split_to_sequence(ctx: Context, x: Expr, split: Expr | None = None, *, axis: int = 0, keepdims: int = 1) -> Expr:
    """The parts have one size (the last may be smaller), the sizes given, or size 1 and, if asked for, no axis."""
    at = ctx.axis(axis, ctx.rank(x))
    extent = ctx.shape(x)[at]
    if split is not None and ctx.rank(split) == 1:
        return _parts_of_sizes(ctx, x, at, split)
    size = 1 if split is None else ctx.scalar(split)
    if size is not None and size <= 0:
        ctx.fail(f"the size of the parts is {size}; it must be positive")
    drops = split is None and not keepdims
    if size is not None and isinstance(extent, int):
        starts = range(0, extent, int(size))
        parts = [_slice(ctx, x, at, s, min(s + int(size), extent)) for s in starts]
        return sequence_of([_without(ctx, p, at, drops) for p in parts], x)
    return _parts_of_size(ctx, x, at, ctx.constant(1, "int64") if split is None else split, drops)


def _slice(ctx: Context, x: Expr, axis: int, start: int, stop: int) -> Expr:
    return typed(relay.strided_slice(x, [start], [stop], [1], axes=[axis]))


def _without(ctx: Context, part: Expr, axis: int, drops: bool) -> Expr:
    if not drops:
        return part
    shape = ctx.shape(part)
    return typed(
        relay.squeeze(part, [axis]) if shape[axis] == 1 else to_shape(part, [*shape[:axis], *shape[axis + 1 :]])
    )


def _extent(ctx: Context, x: Expr, axis: int) -> Expr:
    return relay.take(relay.shape_of(x, dtype="int64"), ctx.constant(axis, "int64"), axis=0)


def _parts_of_sizes(ctx: Context, x: Expr, axis: int, split: Expr) -> Expr:
    extent, sizes = ctx.shape(x)[axis], ctx.static(split)
    if sizes is not None:
        parts = [int(s) for s in sizes]
        if min(parts, default=0) < 0 or (isinstance(extent, int) and sum(parts) != extent):
            ctx.fail(f"the parts {parts} do not make up the {extent} of axis {axis}")
        stops = np.cumsum(parts).tolist()
        if isinstance(extent, int):
            return sequence_of([_slice(ctx, x, axis, e - p, e) for p, e in zip(parts, stops, strict=True)], x)
    lengths = relay.cast(split, "int64")
    total, zero = relay.sum(lengths), ctx.constant(0, "int64")
    fits = relay.logical_and(relay.equal(total, _extent(ctx, x, axis)), relay.all(relay.greater_equal(lengths, zero)))
    check = Condition.of(typed(fits), "the parts make up the axis")
    checked = check.guard(typed(lengths), f"SplitToSequence: the parts do not make up axis {axis}")
    count = typed(_extent(ctx, checked, 0))

    def part(scope: Scope, position: Expr, start: Expr) -> tuple[Expr, Expr]:
        size = relay.take(scope.take(checked, "lengths"), position, axis=0)
        return start, typed(relay.add(start, size))

    return _parts(ctx, x, axis, count, part, False)


def _parts_of_size(ctx: Context, x: Expr, axis: int, split: Expr, drops: bool) -> Expr:
    one = ctx.constant(1, "int64")
    size = typed(relay.cast(scalar(ctx, split), "int64"))
    if ctx.static(size) is None and ctx.static(split) is None:
        check = Condition.of(typed(relay.greater_equal(size, one)), "the size of the parts is positive")
        size = check.guard(size, "SplitToSequence: the size of the parts must be positive")
    extent = typed(_extent(ctx, x, axis))
    count = typed(relay.floor_divide(relay.subtract(relay.add(extent, size), one), size))

    def part(scope: Scope, position: Expr, start: Expr) -> tuple[Expr, Expr]:
        stop = relay.add(start, scope.take(size, "size"))
        return start, typed(relay.minimum(stop, scope.take(extent, "extent")))

    return _parts(ctx, x, axis, count, part, drops)


def _parts(
    ctx: Context,
    x: Expr,
    axis: int,
    count: Expr,
    part: Callable[[Scope, Expr, Expr], tuple[Expr, Expr]],
    drops: bool,
) -> Expr:
    """Return the sequence of parts of a tensor, whose number or sizes are known only at run time.

    `part` gives the bounds of a part by its position, and where the one before it ended.
    """
    axes = ctx.constant([axis], "int64")

    def step(scope: Scope, position: Expr, carried: list[Expr]) -> Step:
        start, sequence = carried
        begin, end = part(scope, position, start)
        first, last = (typed(to_shape(v, [1])) for v in (begin, end))
        piece = typed(slice_by_inputs(ctx, scope.take(x, "data"), first, last, axes))
        row = _without_any(ctx, piece, axis) if drops else piece
        return Step([end, typed(build("sequence.append", sequence, row, in_place=True))])

    states = [ctx.constant(0, "int64"), typed(build("sequence.copy", sequence_of([], x)))]
    loop = Loop("SplitToSequence", count, None, states, ["start", "parts"], [], step)
    return iterate(ctx, loop)[0][1]


def _without_any(ctx: Context, part: Expr, axis: int) -> Expr:
    return typed(relay.take(part, ctx.constant(0, "int64"), axis=axis))


@converter("ConcatFromSequence", since=11)
def concat_from_sequence(ctx: Context, sequence: Expr, *, axis: int, new_axis: int = 0) -> Expr | Outcome:
    element = require_sequence(ctx, sequence, "input_sequence").element
    elements = known_elements(sequence)
    if elements == []:
        ctx.fail("the sequence is empty: there is nothing to concatenate")
    if elements is not None:
        at = ctx.axis(axis, ctx.rank(elements[0]) + bool(new_axis))
        parts = [typed(relay.expand_dims(e, at)) for e in elements] if new_axis else elements
        return relay.concatenate(parts, at) if len(parts) > 1 else parts[0]

    def joined(each: TensorType) -> Expr:
        at = ctx.axis(axis, len(each.shape) + bool(new_axis))
        return _concatenated(ctx, sequence, each, at, bool(new_axis))

    if isinstance(element, TensorType):
        return joined(element)
    assert isinstance(element, UnrankedType)
    # All elements are of the rank of the first; what is no element, or of another rank, fails when the model runs.
    types = {len(way.shape): way for way in ways_of(element)}
    rank = build("unranked.rank", build("sequence.at", sequence, ctx.constant(0, "int64")))
    return by_size(typed(rank), sorted(types), "the rank of the elements", lambda number: joined(types[number]))


def _element(sequence: Expr, position: Expr, ty: TensorType) -> Expr:
    """Return an element of a sequence as of a type, which it has to have."""
    element = typed(build("sequence.at", sequence, position))
    return typed(build("unranked.as", element, shape=list(ty.shape))) if is_unranked(element) else element


def _concatenated(ctx: Context, sequence: Expr, element: TensorType, axis: int, new_axis: bool) -> Expr:
    """Concatenate at run time: how much there is along the axis is counted first."""
    count = length_of(ctx, sequence)
    zero, one = ctx.constant(0, "int64"), ctx.constant(1, "int64")
    some = Condition.of(typed(relay.greater(count, zero)), "the sequence has elements")
    given = some.guard(sequence, "ConcatFromSequence: the sequence is empty")
    first = _element(given, zero, element)
    total = count if new_axis else _total(ctx, given, count, element, axis)
    shape = relay.shape_of(first, dtype="int64")
    rank = len(element.shape)
    parts = [relay.reshape(total, [1])]
    if axis > 0:
        parts.insert(0, relay.strided_slice(shape, [0], [axis], [1]))
    if axis + (not new_axis) < rank:
        parts.append(relay.strided_slice(shape, [axis + (not new_axis)], [rank], [1]))
    vector = relay.concatenate(parts, 0) if len(parts) > 1 else parts[0]
    inner: list[Dim] = [d if isinstance(d, int) else AnyDim() for d in element.shape]
    each = TensorType(inner, element.dtype)
    known = [*inner[:axis], AnyDim(), *inner[axis + (not new_axis) :]]
    buffer = typed(build("buffer.create", vector, shape=known, dtype=element.dtype))
    message = "ConcatFromSequence: the shapes of the elements do not agree"

    def step(scope: Scope, position: Expr, carried: list[Expr]) -> Step:
        start, whole = carried
        part = _element(scope.take(given, "sequence"), position, each)
        extent = one if new_axis else _extent(ctx, part, axis)
        wrote = build("buffer.write", whole, part, start, axis=axis, new_axis=new_axis, message=message)
        return Step([typed(relay.add(start, extent)), typed(wrote)])

    loop = Loop("ConcatFromSequence", count, None, [zero, buffer], ["start", "whole"], [], step)
    return iterate(ctx, loop)[0][1]


def _total(ctx: Context, sequence: Expr, count: Expr, element: TensorType, axis: int) -> Expr:
    known = element.shape[axis]
    if isinstance(known, int):  # no loop has to look at the elements first
        return typed(relay.multiply(count, ctx.constant(known, "int64")))
    each = TensorType([d if isinstance(d, int) else AnyDim() for d in element.shape], element.dtype)

    def step(scope: Scope, position: Expr, carried: list[Expr]) -> Step:
        part = _element(scope.take(sequence, "sequence"), position, each)
        return Step([typed(relay.add(carried[0], _extent(ctx, part, axis)))])

    zero = ctx.constant(0, "int64")
    return iterate(ctx, Loop("ConcatFromSequence", count, None, [zero], ["total"], [], step))[0][0]
