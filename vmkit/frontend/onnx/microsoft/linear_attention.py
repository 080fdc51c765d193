"""Attention without a softmax, whose state is a matrix for each head, and the convolution in front of it."""

from __future__ import annotations

import math
from typing import NamedTuple

import onnx
from onnx import helper

from .... import relay
from ....relay.ir import Dim, Expr, dims
from ..context import Context
from ..operators.conversion import casted
from ..operators.elementwise import binary
from ..operators.layout import to_shape
from ..outcome import Fork
from ..registry import converter

_MICROSOFT = "com.microsoft"
_RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}


class _Sizes(NamedTuple):
    batch: Dim
    rows: Dim
    heads: int


@converter("LinearAttention", domain=_MICROSOFT)
def linear_attention(
    ctx: Context,
    query: Expr,
    key: Expr,
    value: Expr,
    state: Expr | None = None,
    decay: Expr | None = None,
    rate: Expr | None = None,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    chunk_size: int = 64,
    scale: float = 0.0,
    state_window: int = 0,
    update_rule: str = "gated_delta",
) -> list[Expr]:
    """The state of a head decays, and takes in what its value differs from what the key finds in it."""
    if update_rule not in _RULES or state_window:
        ctx.fail(
            f"update_rule is {update_rule!r}, state_window {state_window}; {', '.join(_RULES)} and 0 are supported"
        )
    decays, corrects = _RULES[update_rule]
    if (decays and decay is None) or (corrects and rate is None):
        ctx.fail(f"update_rule {update_rule!r} needs {'decay' if decays and decay is None else 'beta'}")
    more, fewer = max(q_num_heads, kv_num_heads), min(q_num_heads, kv_num_heads)
    if fewer < 1 or more % fewer:
        ctx.fail(f"q_num_heads {q_num_heads} and kv_num_heads {kv_num_heads}: one must be a multiple of the other")
    batch, rows = ctx.shape(query)[:2]
    at = _Sizes(batch, rows, kv_num_heads)
    widths = [_width(ctx, x, n) for x, n in ((query, q_num_heads), (key, kv_num_heads), (value, kv_num_heads))]
    inner, width = widths[0], widths[2]
    dtype = ctx.dtype(query)
    wide = [casted(ctx, x, "float32") for x in (query, key, value)]
    queries = binary(ctx, "multiply", wide[0], scale or 1 / math.sqrt(inner))
    if q_num_heads < kv_num_heads:
        queries = relay.repeat(to_shape(queries, [batch, rows, q_num_heads, inner]), more // fewer, 2)
    # Each as a matrix for a row and a head, so that the loop has products and sums alone.
    steps = {
        "q": _by_row(queries, at, max(q_num_heads // kv_num_heads, 1), inner),
        "k": _by_row(wide[1], at, inner, 1), "kt": _by_row(wide[1], at, 1, inner), "v": _by_row(wide[2], at, 1, width),
    }  # fmt: skip
    if decays and decay is not None:
        each = dims.floordiv(ctx.shape(decay)[2], kv_num_heads)
        steps["decay"] = _by_row(relay.exp(casted(ctx, decay, "float32")), at, each, 1)
    if corrects and rate is not None:
        shared = casted(ctx, rate, "float32")
        whole = relay.broadcast_to(shared, [batch, rows, kv_num_heads])
        steps["rate"] = _by_row(shared if dims.equal(ctx.shape(rate)[2], kv_num_heads) else whole, at, 1, 1)
    if state is None:
        first = relay.full(ctx.constant(0, "float32"), [batch, kv_num_heads, inner, width], "float32")
    else:
        first = casted(ctx, state, "float32")
    last, made = _scanned(ctx, first, steps)
    heads: list[Dim] = [batch, rows, more * width]
    result = to_shape(relay.transpose(made, [1, 0, 2, 3, 4]), heads)
    return [casted(ctx, result, dtype), casted(ctx, last, dtype if state is None else ctx.dtype(state))]


def _width(ctx: Context, x: Expr, heads: int) -> int:
    hidden = ctx.shape(x)[2]
    if not isinstance(hidden, int) or hidden % heads:
        ctx.fail(f"the last dimension, {hidden}, must be a known multiple of {heads} heads")
    return hidden // heads


def _by_row(x: Expr, at: _Sizes, height: Dim, width: Dim) -> Expr:
    """Return (batch, rows, heads * height * width) as (rows, batch, heads, height, width)."""
    return relay.transpose(to_shape(x, [at.batch, at.rows, at.heads, height, width]), [1, 0, 2, 3, 4])


def _scanned(ctx: Context, state: Expr, steps: dict[str, Expr]) -> tuple[Expr, Expr]:
    """Return the last state, and what each row finds in its own, by a Scan over what each row has."""

    def node(op_type: str, inputs: str, output: str) -> onnx.NodeProto:
        return helper.make_node(op_type, inputs.split(), [output])

    nodes = [node("Mul", "s decay", "old") if "decay" in steps else node("Identity", "s", "old")]
    taken = "v"
    if "rate" in steps:
        nodes += [
            node("MatMul", "kt old", "found"),
            node("Sub", "v found", "missing"),
            node("Mul", "missing rate", "t"),
        ]
        taken = "t"
    nodes += [node("MatMul", f"k {taken}", "more"), node("Add", "old more", "new"), node("MatMul", "q new", "row")]
    inputs = [onnx.ValueInfoProto(name=name) for name in ("s", *steps)]
    body = helper.make_graph(nodes, "step", inputs, [onnx.ValueInfoProto(name=name) for name in ("new", "row")])
    names = [f"{name}_all" for name in steps]
    scan = helper.make_node("Scan", ["first", *names], ["last", "made"], body=body, num_scan_inputs=len(steps))
    outputs = [onnx.ValueInfoProto(name=name) for name in ("last", "made")]
    graph = helper.make_graph([scan], "rows", [onnx.ValueInfoProto(name=name) for name in ("first", *names)], outputs)
    outcome = ctx.subgraph(graph, {"first": state, **{f"{name}_all": value for name, value in steps.items()}})
    if isinstance(outcome, Fork) or not isinstance(outcome, list):
        ctx.fail("the shape of the state depends on values")
    return outcome[0], outcome[1]


@converter("CausalConvWithState", domain=_MICROSOFT)
def causal_convolution(
    ctx: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    past: Expr | None = None,
    *,
    activation: str = "none",
    channels_last: int = 0,
    dilation: int = 1,
    ndim: int = 1,
    state_window: int = 0,
) -> list[Expr]:
    """Each channel by itself, over positions before and the one itself; the state is the end of what was there."""
    if activation not in ("none", "silu", "swish") or ndim != 1 or state_window or ctx.rank(x) != 3:
        ctx.fail(
            f"activation {activation!r}, ndim {ndim}, state_window {state_window}, an input {ctx.type(x)}; none, silu "
            "or swish, 1, 0 and three dimensions are supported"
        )
    if channels_last:
        x, past = relay.transpose(x, [0, 2, 1]), None if past is None else relay.transpose(past, [0, 2, 1])
    channels, _, size = ctx.shape(weight)
    if not isinstance(channels, int) or not isinstance(size, int):
        ctx.fail(f"the shape of the weight, {ctx.type(weight)}, must be known at import")
    before = (size - 1) * dilation
    if past is None:
        past = relay.full(ctx.constant(0, ctx.dtype(x)), [ctx.shape(x)[0], channels, before], ctx.dtype(x))
    whole = relay.concatenate([past, x], 2)
    made = relay.nn.conv1d(whole, weight, channels=channels, kernel_size=size, dilation=dilation, groups=channels)
    if bias is not None:
        made = relay.nn.bias_add(made, bias)
    if activation != "none":
        made = relay.multiply(made, relay.sigmoid(made))
    rows = ctx.shape(x)[2]
    present = relay.strided_slice(whole, [rows], [dims.add(rows, before)], [1], axes=[2])
    return [relay.transpose(v, [0, 2, 1]) for v in (made, present)] if channels_last else [made, present]
