"""Sequences of tensors: worked on while the model is imported where the elements are known, else at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from .... import relay
from ....relay.ir import Any as AnyDim
from ....relay.ir import Dim, Expr, SequenceType, TensorType, UnrankedType
from ....relay.op import build
from ..capture import Capture
from ..context import Context
from ..dtype import dtype_name
from ..elements import known_elements, sequence_of, tensor_dtype
from ..iteration import Loop, Step, iterate
from ..outcome import Condition, Fork
from ..registry import converter
from ..scope import Scope
from ..typing import typed
from .control_flow import one_outcome, scalar
from .slicing import slice_by_inputs
from .layout import to_shape

__all__ = ["length_of"]


def _require_sequence(ctx: Context, value: Expr, name: str) -> SequenceType:
    ty = typed(value).checked_type_
    if not isinstance(ty, SequenceType):
        ctx.fail(f"the input {name!r} must be a sequence, not {ty}")
    return ty


def _place(ctx: Context, position: Expr | None, length: int, default: int) -> int | None:
    """Return the position of an element counted from the front, None if it is not known."""
    at = default if position is None else ctx.scalar(position)
    if at is None:
        return None
    if not -length <= at < length:
        ctx.fail(f"position {at} lies outside the sequence")
    return int(at) % length


@converter("SequenceEmpty", since=11)
def sequence_empty(ctx: Context, *, dtype: int = onnx.TensorProto.FLOAT) -> Expr:
    return sequence_of([], dtype_name(dtype, "SequenceEmpty"))


@converter("SequenceConstruct", since=11)
def sequence_construct(ctx: Context, *inputs: Expr) -> Expr:
    return sequence_of(inputs, inputs[0])


@converter("SequenceLength", since=11)
def sequence_length(ctx: Context, sequence: Expr) -> Expr:
    _require_sequence(ctx, sequence, "input_sequence")
    return length_of(ctx, sequence)


def length_of(ctx: Context, sequence: Expr) -> Expr:
    """Return the number of elements of a sequence."""
    elements = known_elements(sequence)
    return typed(build("sequence.length", sequence)) if elements is None else ctx.constant(len(elements), "int64")


@converter("SequenceAt", since=11)
def sequence_at(ctx: Context, sequence: Expr, position: Expr) -> Any:
    _require_sequence(ctx, sequence, "input_sequence")
    elements = known_elements(sequence)
    if elements is None:
        return build("sequence.at", sequence, scalar(ctx, position))
    at = _place(ctx, position, len(elements), 0)
    if at is not None:
        return elements[at]
    if len({ctx.rank(e) for e in elements}) == 1:
        return build("sequence.at", sequence, scalar(ctx, position))
    return _chosen(ctx, elements, scalar(ctx, position))


def _chosen(ctx: Context, elements: Sequence[Expr], position: Expr) -> Any:
    """Return one of several tensors of different ranks: what follows is imported for each."""
    count = ctx.constant(len(elements), ctx.dtype(position))
    zero = ctx.constant(0, ctx.dtype(position))
    at = typed(relay.where(relay.less(position, zero), relay.add(position, count), position))
    name = repr(ctx.node.input[1])
    inside = relay.logical_and(relay.greater_equal(at, zero), relay.less(at, count))
    check = Condition.of(typed(inside), f"{name} within the sequence")
    outcome: Any = [check.guard(elements[-1], "SequenceAt: the position lies outside the sequence")]
    for index, element in enumerate(elements[:-1]):
        this = typed(relay.equal(at, ctx.constant(index, ctx.dtype(position))))
        outcome = Fork(Condition.of(this, f"{name} = {index}"), [element], outcome)
    return outcome


@converter("SequenceInsert", since=11)
def sequence_insert(ctx: Context, sequence: Expr, tensor: Expr, position: Expr | None = None) -> Expr:
    _require_sequence(ctx, sequence, "input_sequence")
    elements = known_elements(sequence)
    if elements is not None:
        if position is None:
            return sequence_of([*elements, tensor], sequence)
        # The place after the last element is one too, but from the end one counts elements.
        at = ctx.scalar(position)
        if at is not None:
            if not -len(elements) <= at <= len(elements):
                ctx.fail(f"position {at} lies outside the sequence of {len(elements)}")
            place = int(at) + len(elements) if at < 0 else int(at)
            return sequence_of([*elements[:place], tensor, *elements[place:]], sequence)
    _require_dtype(ctx, sequence, tensor)
    if position is None:
        return build("sequence.append", sequence, tensor, in_place=sequence in ctx.importer.own_sequences)
    return build("sequence.insert", sequence, tensor, scalar(ctx, position))


def _require_dtype(ctx: Context, sequence: Expr, tensor: Expr) -> None:
    have, given = tensor_dtype(typed(sequence).checked_type_), ctx.dtype(tensor)
    if have != given:
        ctx.fail(f"a sequence of {have} tensors cannot hold a tensor of {given}")


@converter("SequenceErase", since=11)
def sequence_erase(ctx: Context, sequence: Expr, position: Expr | None = None) -> Expr:
    _require_sequence(ctx, sequence, "input_sequence")
    elements = known_elements(sequence)
    at = None if elements is None else _place(ctx, position, len(elements), -1)
    if elements is not None and at is not None:
        return sequence_of([*elements[:at], *elements[at + 1 :]], sequence)
    index = ctx.constant(-1, "int64") if position is None else scalar(ctx, position)
    return build("sequence.erase", sequence, index)


# -- tensors to sequences and back


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


def _parts(ctx: Context, x: Expr, axis: int, count: Expr, part: Any, drops: bool) -> Expr:
    """Return the sequence of parts of a tensor, whose number or sizes are known only at run time."""
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
def concat_from_sequence(ctx: Context, sequence: Expr, *, axis: int, new_axis: int = 0) -> Expr:
    element = _require_sequence(ctx, sequence, "input_sequence").element
    elements = known_elements(sequence)
    if elements == []:
        ctx.fail("the sequence is empty: there is nothing to concatenate")
    if elements is not None:
        at = ctx.axis(axis, ctx.rank(elements[0]) + bool(new_axis))
        parts = [typed(relay.expand_dims(e, at)) for e in elements] if new_axis else elements
        return relay.concatenate(parts, at) if len(parts) > 1 else parts[0]
    if isinstance(element, UnrankedType):
        ctx.fail(f"the elements of {typed(sequence).checked_type_} are of no known rank")
    assert isinstance(element, TensorType)
    at = ctx.axis(axis, len(element.shape) + bool(new_axis))
    return _concatenated(ctx, sequence, element, at, bool(new_axis))


def _concatenated(ctx: Context, sequence: Expr, element: TensorType, axis: int, new_axis: bool) -> Expr:
    """Concatenate at run time: how much there is along the axis is counted first."""
    count = length_of(ctx, sequence)
    zero, one = ctx.constant(0, "int64"), ctx.constant(1, "int64")
    some = Condition.of(typed(relay.greater(count, zero)), "the sequence has elements")
    given = some.guard(sequence, "ConcatFromSequence: the sequence is empty")
    first = typed(build("sequence.at", given, zero))
    total = count if new_axis else _total(ctx, given, count, axis)
    shape = relay.shape_of(first, dtype="int64")
    rank = len(element.shape)
    parts = [relay.reshape(total, [1])]
    if axis > 0:
        parts.insert(0, relay.strided_slice(shape, [0], [axis], [1]))
    if axis + (not new_axis) < rank:
        parts.append(relay.strided_slice(shape, [axis + (not new_axis)], [rank], [1]))
    vector = relay.concatenate(parts, 0) if len(parts) > 1 else parts[0]
    inner: list[Dim] = [d if isinstance(d, int) else AnyDim() for d in element.shape]
    known = [*inner[:axis], AnyDim(), *inner[axis + (not new_axis) :]]
    buffer = typed(build("buffer.create", vector, shape=known, dtype=element.dtype))
    message = "ConcatFromSequence: the shapes of the elements do not agree"

    def step(scope: Scope, position: Expr, carried: list[Expr]) -> Step:
        start, whole = carried
        part = typed(build("sequence.at", scope.take(given, "sequence"), position))
        extent = one if new_axis else _extent(ctx, part, axis)
        wrote = build("buffer.write", whole, part, start, axis=axis, new_axis=new_axis, message=message)
        return Step([typed(relay.add(start, extent)), typed(wrote)])

    loop = Loop("ConcatFromSequence", count, None, [zero, buffer], ["start", "whole"], [], step)
    return iterate(ctx, loop)[0][1]


def _total(ctx: Context, sequence: Expr, count: Expr, axis: int) -> Expr:
    def step(scope: Scope, position: Expr, carried: list[Expr]) -> Step:
        part = typed(build("sequence.at", scope.take(sequence, "sequence"), position))
        return Step([typed(relay.add(carried[0], _extent(ctx, part, axis)))])

    zero = ctx.constant(0, "int64")
    return iterate(ctx, Loop("ConcatFromSequence", count, None, [zero], ["total"], [], step))[0][0]


# -- a graph for every element


@converter("SequenceMap", since=17)
def sequence_map(ctx: Context, sequence: Expr, *others: Expr, body: onnx.GraphProto) -> list[Expr]:
    """The other inputs are sequences of the same length, or tensors that every call gets."""
    _require_sequence(ctx, sequence, "input_sequence")
    given = [sequence, *others]
    is_sequence = [isinstance(typed(v).checked_type_, SequenceType) for v in given]
    names = [i.name for i in body.input]
    if len(names) != len(given):
        ctx.fail(f"the body has {len(names)} inputs, the node {len(given)}")
    known = [known_elements(v) for v in given]
    if all(k is not None for k, is_one in zip(known, is_sequence, strict=True) if is_one):
        return _mapped_elements(ctx, given, known, body)
    count = length_of(ctx, sequence)
    checked = [sequence, *(
        _of_length(ctx, v, count) if is_one else v for v, is_one in zip(others, is_sequence[1:], strict=True)
    )]  # fmt: skip

    def results(scope: Scope, position: Expr) -> list[Expr]:
        inside = [scope.take(v, n) for v, n in zip(checked, names, strict=True)]
        values = [
            typed(build("sequence.at", v, position)) if is_one else v
            for v, is_one in zip(inside, is_sequence, strict=True)
        ]
        outcome = ctx.importer.subgraph(body, scope, dict(zip(names, values, strict=True)))
        return one_outcome(outcome, "SequenceMap")

    def step(scope: Scope, position: Expr, carried: list[Expr]) -> Step:
        appended = zip(carried, results(scope, position), strict=True)
        return Step([typed(build("sequence.append", s, r, in_place=True)) for s, r in appended])

    # A first look at the body tells the data types, which a file need not.
    first = results(Capture(ctx.scope, ctx.importer.param_values), ctx.constant(0, "int64"))
    empty = [typed(build("sequence.copy", sequence_of([], r))) for r in first]
    return iterate(ctx, Loop("SequenceMap", count, None, empty, [o.name for o in body.output], [], step))[0]


def _of_length(ctx: Context, sequence: Expr, count: Expr) -> Expr:
    same = Condition.of(typed(relay.equal(length_of(ctx, sequence), count)), "the sequences are of one length")
    return same.guard(sequence, "SequenceMap: the sequences are of different lengths")


def _mapped_elements(
    ctx: Context, given: Sequence[Expr], known: Sequence[list[Expr] | None], body: onnx.GraphProto
) -> list[Expr]:
    lengths = {len(k) for k in known if k is not None}
    if len(lengths) != 1:
        ctx.fail(f"the sequences are of different lengths: {', '.join(map(str, sorted(lengths)))}")
    collected: list[list[Expr]] = [[] for _ in body.output]
    for index in range(lengths.pop()):
        values = [v if k is None else k[index] for v, k in zip(given, known, strict=True)]
        inputs = {i.name: v for i, v in zip(body.input, values, strict=True)}
        for into, result in zip(collected, one_outcome(ctx.subgraph(body, inputs), "SequenceMap"), strict=True):
            into.append(result)
    return [sequence_of(parts, _dtype_of(parts, o)) for parts, o in zip(collected, body.output, strict=True)]


def _dtype_of(parts: Sequence[Expr], output: onnx.ValueInfoProto) -> Expr | str:
    """Return what tells the data type of the results: the first of them, or what the file says."""
    if parts:
        return parts[0]
    return dtype_name(output.type.tensor_type.elem_type, f"the output {output.name!r} of the body")
