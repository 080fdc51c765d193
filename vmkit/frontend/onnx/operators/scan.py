"""Scan: a body for every slice of some tensors along an axis, with values carried from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from .... import relay
from ....relay.ir import Expr, dims
from ..context import Context
from ..iteration import Loop, Step, iterate
from ..known import constant, sizes
from ..outcome import Condition
from ..registry import converter
from ..scope import Scope
from ..typing import typed
from .control_flow import one_outcome, run


@converter("Scan", since=9)
def scan(
    ctx: Context,
    *inputs: Expr,
    body: onnx.GraphProto,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
) -> list[Expr]:
    states, data = _states_and_data(ctx, inputs, body, num_scan_inputs)
    outputs = len(body.output) - len(states)
    axes = _given(ctx, scan_input_axes, len(data), "scan_input_axes")
    at = [ctx.axis(a, ctx.rank(x)) for a, x in zip(axes, data, strict=True)]
    reads_back = _given(ctx, scan_input_directions, len(data), "scan_input_directions")
    count, data = _steps(ctx, data, at)

    def step(scope: Scope, position: Expr, carried: list[Expr]) -> Step:
        slices = [
            _slice(scope, x, n, axis, position, count if back else None)
            for x, n, axis, back in zip(data, names[len(carried) :], at, reads_back, strict=True)
        ]
        return _step(ctx, scope, body, [*carried, *slices], len(carried))

    names = [i.name for i in body.input]
    out_axes = _given(ctx, scan_output_axes, outputs, "scan_output_axes")
    made = Loop(
        "Scan",
        count,
        None,
        states,
        names[: len(states)],
        [o.name for o in body.output[len(states) :]],
        step,
        out_axes,
        [bool(d) for d in _given(ctx, scan_output_directions, outputs, "scan_output_directions")],
    )
    return run(ctx, made)


@converter("Scan", since=8)
def batched_scan(
    ctx: Context,
    lengths: Expr | None,
    *inputs: Expr,
    body: onnx.GraphProto,
    num_scan_inputs: int,
    directions: Sequence[int] | None = None,
) -> list[Expr]:
    """The inputs have an axis of the batch, then that of the sequence; a sequence may end before the others do."""
    states, data = _states_and_data(ctx, inputs, body, num_scan_inputs)
    reads_back = _given(ctx, directions, len(data), "directions")
    count, data = _steps(ctx, data, [1] * len(data))
    batch, data = _steps(ctx, data, [0] * len(data))
    names = [i.name for i in body.input]
    outputs = [o.name for o in body.output]

    def one_sequence(scope: Scope, index: Expr, _: list[Expr]) -> Step:
        begin = [_slice(scope, s, n, 0, index, None) for s, n in zip(states, names, strict=False)]
        rows = [_slice(scope, x, n, 0, index, None) for x, n in zip(data, names[len(states) :], strict=True)]
        length = None
        if lengths is not None:
            length = typed(relay.cast(_slice(scope, lengths, "sequence_lens", 0, index, None), "int64"))
        steps = scope.take(count, "count")
        end = steps if length is None else length
        inner_ctx = Context(ctx.importer, ctx.node, ctx.version, scope)

        def step(inner: Scope, position: Expr, carried: list[Expr]) -> Step:
            slices = [
                _slice(inner, x, n, 0, position, end if back else None)
                for x, n, back in zip(rows, names[len(carried) :], reads_back, strict=True)
            ]
            made = _step(ctx, inner, body, [*carried, *slices], len(carried))
            if length is None:
                return made
            goes_on = relay.less(position, inner.take(end, "end"))
            kept = [typed(relay.where(goes_on, a, b)) for a, b in zip(made.states, carried, strict=True)]
            nothing = [typed(relay.where(goes_on, r, relay.zeros_like(r))) for r in made.rows]
            return Step(kept, nothing)

        loop = Loop("Scan", steps, None, begin, names[: len(begin)], outputs[len(begin) :], step)
        last, stacked = iterate(inner_ctx, loop)
        return Step([], [*last, *stacked])

    return iterate(ctx, Loop("Scan", batch, None, [], [], outputs, one_sequence))[1]


def _states_and_data(
    ctx: Context, inputs: Sequence[Expr], body: onnx.GraphProto, scanned: int
) -> tuple[list[Expr], list[Expr]]:
    if not 1 <= scanned <= len(inputs) or len(body.input) != len(inputs):
        ctx.fail(f"{len(inputs)} inputs are given, {scanned} of them to scan, and the body has {len(body.input)}")
    carried = len(inputs) - scanned
    if len(body.output) < carried or len(body.output) != len(ctx.node.output):
        ctx.fail(f"the body has {len(body.output)} outputs, for {carried} carried values and {len(ctx.node.output)}")
    return list(inputs[:carried]), list(inputs[carried:])


def _given(ctx: Context, values: Sequence[int] | None, count: int, name: str) -> list[int]:
    if values is None:
        return [0] * count
    if len(values) != count:
        ctx.fail(f"{name} has {len(values)} values, expected {count}")
    return list(values)


def _steps(ctx: Context, data: list[Expr], axes: Sequence[int]) -> tuple[Expr, list[Expr]]:
    """Return how many slices there are, and the tensors, checked to have as many."""
    extents = [ctx.shape(x)[a] for x, a in zip(data, axes, strict=True)]
    counts = [_count(ctx, x, a) for x, a in zip(data, axes, strict=True)]
    best = next((i for i, e in enumerate(extents) if isinstance(e, int)), 0)
    checked: list[Expr] = []
    for index, (x, extent) in enumerate(zip(data, extents, strict=True)):
        is_known = not dims.is_any(extent) and not dims.is_any(extents[best])
        same = index == best or (dims.equal(extent, extents[best]) if is_known else None)
        if same is False:
            ctx.fail(f"the inputs to scan have {extents[best]} and {extent} slices")
        if same is None:
            agrees = Condition.of(typed(relay.equal(counts[index], counts[best])), "the inputs agree")
            x = agrees.guard(x, "Scan: the inputs have different numbers of slices")
        checked.append(x)
    return counts[best], checked


def _count(ctx: Context, x: Expr, axis: int) -> Expr:
    extent = ctx.shape(x)[axis]
    if not dims.is_any(extent):
        return sizes(np.array(extent, dtype=object))
    return typed(relay.take(relay.shape_of(x, dtype="int64"), constant(np.int64(axis)), axis=0))


def _slice(scope: Scope, x: Expr, name: str, axis: int, position: Expr, end: Expr | None) -> Expr:
    """Return a slice, counted from `end` backwards if that is given."""
    at = position
    if end is not None:
        last = relay.subtract(scope.take(end, "end"), constant(np.int64(1)))
        at = relay.maximum(relay.subtract(last, position), constant(np.int64(0)))
    return typed(relay.take(scope.take(x, name), at, axis=axis, mode="fast"))


def _step(ctx: Context, scope: Scope, body: onnx.GraphProto, inputs: Sequence[Expr], carried: int) -> Step:
    values: dict[str, Any] = {i.name: v for i, v in zip(body.input, inputs, strict=True)}
    results = one_outcome(ctx.importer.subgraph(body, scope, values), "Scan")
    return Step(results[:carried], results[carried:])
