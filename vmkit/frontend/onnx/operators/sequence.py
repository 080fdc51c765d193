"""Sequences of tensors: worked on while the model is imported where the elements are known, else at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from .... import relay
from ....relay.ir import Expr, SequenceType
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

__all__ = ["length_of", "require_sequence"]


def require_sequence(ctx: Context, value: Expr, name: str) -> SequenceType:
    """Return the type of a sequence; ModelError for an input of another type."""
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
    require_sequence(ctx, sequence, "input_sequence")
    return length_of(ctx, sequence)


def length_of(ctx: Context, sequence: Expr) -> Expr:
    """Return the number of elements of a sequence."""
    elements = known_elements(sequence)
    return typed(build("sequence.length", sequence)) if elements is None else ctx.constant(len(elements), "int64")


@converter("SequenceAt", since=11)
def sequence_at(ctx: Context, sequence: Expr, position: Expr) -> Any:
    require_sequence(ctx, sequence, "input_sequence")
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
    require_sequence(ctx, sequence, "input_sequence")
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
    require_sequence(ctx, sequence, "input_sequence")
    elements = known_elements(sequence)
    at = None if elements is None else _place(ctx, position, len(elements), -1)
    if elements is not None and at is not None:
        return sequence_of([*elements[:at], *elements[at + 1 :]], sequence)
    index = ctx.constant(-1, "int64") if position is None else scalar(ctx, position)
    return build("sequence.erase", sequence, index)


# -- a graph for every element


@converter("SequenceMap", since=17)
def sequence_map(ctx: Context, sequence: Expr, *others: Expr, body: onnx.GraphProto) -> list[Expr]:
    """The other inputs are sequences of the same length, or tensors that every call gets."""
    require_sequence(ctx, sequence, "input_sequence")
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
