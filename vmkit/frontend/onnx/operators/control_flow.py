"""Control flow: a graph in an attribute sees the values around its node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from ....errors import ModelError
from ....relay.ir import Expr, TensorType
from ....relay.op import build
from ..check import reads
from ..context import Context
from ..iteration import Loop, Step, iterate, unroll
from ..known import constant, sizes
from ..outcome import Condition, Failure, Outcome, attempt, join
from ..ranks import is_unranked, settled
from ..registry import converter
from ..scope import Scope
from ..typing import typed
from .layout import to_shape

__all__ = ["one_outcome", "run", "scalar"]

# What looks at a sequence, or at its elements, and keeps no sequence.
_READERS = frozenset({"ConcatFromSequence", "SequenceAt", "SequenceLength"})
_UNROLLED = 16  # iterations of which the types differ are written out, if they are no more than these


@converter("If")
def branch(ctx: Context, condition: Expr, *, then_branch: onnx.GraphProto, else_branch: onnx.GraphProto) -> Any:
    """A condition that is known takes its branch; the other one is not even imported."""
    known = ctx.scalar(condition)
    if known is not None:
        return ctx.subgraph(then_branch if known else else_branch)
    over_sizes = ctx.dims(condition)
    if over_sizes is not None:
        condition = sizes(np.array(over_sizes[0], dtype=object), "bool")
    elif ctx.rank(condition) != 0:
        condition = scalar(ctx, condition)
    decided = Condition.of(condition, repr(ctx.node.input[0]))
    return join(decided, attempt(lambda: ctx.subgraph(then_branch)), attempt(lambda: ctx.subgraph(else_branch)))


@converter("Loop")
def loop(ctx: Context, count: Expr | None = None, go: Expr | None = None, *states: Expr, body: onnx.GraphProto) -> Any:
    """The body runs while its condition holds, and at most `count` times."""
    if len(body.input) != len(states) + 2 or len(body.output) < len(states) + 1:
        ctx.fail(
            f"the body has {len(body.input)} inputs and {len(body.output)} outputs; for {len(states)} carried values "
            f"it needs {len(states) + 2} inputs and at least {len(states) + 1} outputs"
        )
    count = None if count is None else scalar(ctx, count)
    begins = True if go is None else ctx.scalar(go)
    if begins is not None:
        go = None
    if begins is False:
        count = constant(np.int64(0))
    names = [i.name for i in body.input]
    grown, kept = _only_appended(body, len(states)), _kept(body, states)
    changed = [i for i in range(len(states)) if i not in kept]

    def step(scope: Scope, position: Expr, carried: list[Expr]) -> Step:
        inside = {**dict(zip(changed, carried, strict=True)), **{i: scope.take(states[i], names[i + 2]) for i in kept}}
        ctx.importer.own_sequences.update(inside[i] for i in grown)
        # Where the body runs, its condition holds.
        inputs = [
            _as_declared(position, body.input[0]),
            _as_declared(constant(np.array(True)), body.input[1]),
            *(inside[i] for i in range(len(states))),
        ]
        results = one_outcome(ctx.importer.subgraph(body, scope, dict(zip(names, inputs, strict=True))), "Loop")
        goes_on = ctx.scalar(results[0])
        if goes_on is False:
            further: Expr | None = constant(np.array(False))
        else:
            further = None if goes_on else scalar(ctx, results[0])
        return Step([results[1 + i] for i in changed], results[1 + len(states) :], further)

    made = Loop(
        "Loop",
        count,
        None if go is None else scalar(ctx, go),
        [typed(build("sequence.copy", states[i])) if i in grown else states[i] for i in changed],
        [names[i + 2] for i in changed],
        [o.name for o in body.output[1 + len(states) :]],
        step,
    )
    results = run(ctx, made)
    after = {**dict(zip(changed, results[: len(changed)], strict=True)), **{i: states[i] for i in kept}}
    return [*(after[i] for i in range(len(states))), *results[len(changed) :]]


def _kept(body: onnx.GraphProto, states: Sequence[Expr]) -> set[int]:
    """Return which carried tensors no iteration changes, so that its body may know what they are: weights, say."""
    named = {n.output[0]: n.input[0] for n in body.node if n.op_type == "Identity" and not n.domain}
    found = set()
    for index, state in enumerate(states):
        name, result = body.input[index + 2].name, body.output[index + 1].name
        for _ in named:
            result = named.get(result, result)
        if result == name and isinstance(typed(state).checked_type_, TensorType):
            found.add(index)
    return found


def _only_appended(body: onnx.GraphProto, carried: int) -> set[int]:
    """Return which carried values are sequences that an iteration only appends to, so that it may do so in place.

    Nothing but one SequenceInsert reads such a sequence, and nothing keeps the longer one but the next iteration.
    """
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in body.node:
        for name in reads(node):
            readers.setdefault(name, []).append(node)
    results = [o.name for o in body.output]
    found = set()
    for index in range(carried):
        name, result = body.input[index + 2].name, results[index + 1]
        by = readers.get(name, [])
        appends = len(by) == 1 and by[0].op_type == "SequenceInsert" and [*by[0].input][2:] in ([], [""])
        if not appends or by[0].input[0] != name or by[0].output[0] != result or results.count(result) > 1:
            continue
        if name not in results and all(r.op_type in _READERS for r in readers.get(result, [])):
            found.add(index)
    return found


def run(ctx: Context, made: Loop) -> list[Expr]:
    """Return the results of a loop; a few iterations that no one function can be for are written out."""
    times = ctx.scalar(made.count) if made.count is not None and made.go is None else None
    can_unroll = times is not None and 1 <= times <= _UNROLLED
    before = set(ctx.importer.functions)
    try:
        states, rows = iterate(ctx, made)
        if can_unroll and any(is_unranked(s) for s in states):
            raise ModelError("written out, each of the iterations has ranks that are known")
    except ModelError:
        if times is None or not can_unroll:
            raise
        for function in set(ctx.importer.functions) - before:
            del ctx.importer.functions[function]
        states, rows = unroll(made, ctx.scope, int(times))
    return [*states, *rows]


def scalar(ctx: Context, value: Expr) -> Expr:
    """Return a tensor of one element without dimensions."""
    return value if ctx.rank(value) == 0 else typed(to_shape(value, []))


def _as_declared(value: Expr, info: onnx.ValueInfoProto) -> Expr:
    """Return a scalar as a body declares its input: some write vectors of one element."""
    tensor = info.type.tensor_type
    rank = len(tensor.shape.dim) if tensor.HasField("shape") else 0
    return value if rank == 0 else typed(to_shape(value, [1] * rank))


def one_outcome(outcome: Outcome, operator: str) -> list[Expr]:
    """Return the values of a body; those whose ranks depend on a decision at run time are unranked."""
    if isinstance(outcome, Failure):
        raise outcome.error
    values = settled(outcome)
    missing = [i for i, value in enumerate(values) if value is None]
    if missing:
        raise ModelError(f"the body of {operator} gives no value for its outputs {missing}")
    return [value for value in values if value is not None]
