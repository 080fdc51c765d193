"""Attention, and what turns queries and keys by their positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from .... import relay
from ....relay.ir import Expr
from ..attention import Bias, Heads, Softmax, attend, merged_heads, padded_mask, split_heads
from ..context import Context
from ..dtype import dtype_name
from ..outcome import Fork
from ..registry import converter
from ..run_time_axes import positions_along, size_along
from .conversion import casted

__all__ = ["add_window", "keys_before"]

_STEPS = ("raw", "capped", "biased", "weights")


@converter("Attention", since=23)
def attention(
    ctx: Context,
    query: Expr,
    key: Expr,
    value: Expr,
    mask: Expr | None = None,
    past_key: Expr | None = None,
    past_value: Expr | None = None,
    lengths: Expr | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    left_window_size: int = -1,
    right_window_size: int = -1,
) -> list[Expr | None]:
    if (past_key is None) != (past_value is None):
        ctx.fail("past_key and past_value must be given together")
    if past_key is not None and lengths is not None:
        ctx.fail("nonpad_kv_seqlen is for a cache outside; it cannot be given with past_key")
    if min(left_window_size, right_window_size) < -1:
        ctx.fail(f"window sizes are -1 or more, not {left_window_size} and {right_window_size}")
    if not 0 <= qk_matmul_output_mode < len(_STEPS):
        ctx.fail(f"qk_matmul_output_mode is {qk_matmul_output_mode}; it is 0, 1, 2 or 3")
    is_packed = ctx.rank(query) == 3
    if is_packed:
        if q_num_heads is None or kv_num_heads is None:
            ctx.fail("inputs of rank 3 need q_num_heads and kv_num_heads")
        query = split_heads(ctx, query, q_num_heads)
        key, value = split_heads(ctx, key, kv_num_heads), split_heads(ctx, value, kv_num_heads)
    if any(ctx.rank(x) != 4 for x in (query, key, value)):
        ctx.fail("query, key and value must all be of rank 3, or all of rank 4")
    if past_key is not None and past_value is not None:
        key, value = relay.concatenate([past_key, key], 2), relay.concatenate([past_value, value], 2)

    bias = Bias(ctx, ctx.dtype(query))
    if mask is not None:
        _add_mask(ctx, bias, mask, query, key)
    before = keys_before(ctx, query, past_key, lengths)
    left, right = left_window_size, right_window_size
    add_window(ctx, bias, query, key, before, left, 0 if is_causal else right, hides_rows=lengths is not None)
    if lengths is not None:
        column = positions_along(ctx, key, 2)
        bias.allow(relay.less(column, relay.reshape(lengths, [-1, 1, 1, 1])))

    taken: dict[str, Expr] = {}

    def keep(step: str, value: Expr) -> None:
        taken[step] = value

    softmax = Softmax(
        Softmax.scale_of(ctx, query, scale),
        softcap,
        None if softmax_precision is None else dtype_name(softmax_precision, "softmax_precision"),
        change=keep if ctx.wants(3) else None,
    )
    result = attend(ctx, Heads(query, key, value), softmax, bias)
    scores = taken.get(_STEPS[qk_matmul_output_mode])
    return [
        merged_heads(ctx, result) if is_packed else result,
        key,
        value,
        None if scores is None else casted(ctx, scores, ctx.dtype(query)),
    ]


def _add_mask(ctx: Context, bias: Bias, mask: Expr, query: Expr, key: Expr) -> None:
    whole = [*ctx.shape(query)[:3], ctx.shape(key)[2]]
    if ctx.dtype(mask) == "bool":
        bias.allow(padded_mask(ctx, mask, whole, False))
    else:
        bias.add(padded_mask(ctx, casted(ctx, mask, bias.dtype), whole, -np.inf))


def keys_before(ctx: Context, query: Expr, past_key: Expr | None, lengths: Expr | None) -> Expr:
    """Return how many keys come before the first query: a scalar, or (batch, 1, 1, 1)."""
    if lengths is not None:
        return relay.subtract(relay.reshape(lengths, [-1, 1, 1, 1]), size_along(ctx, query, 2))
    return ctx.constant(0, "int64") if past_key is None else size_along(ctx, past_key, 2)


def add_window(
    ctx: Context, bias: Bias, query: Expr, key: Expr, before: Expr, left: int, right: int, *, hides_rows: bool
) -> None:
    """Let a query see so many keys to the left and to the right of it; -1 is all of them."""
    if left < 0 and right < 0:
        return
    rows, columns = (positions_along(ctx, x, 2) for x in (query, key))
    row = relay.add(relay.reshape(rows, [1, 1, -1, 1]), before)
    column = relay.reshape(columns, [1, 1, 1, -1])
    if right >= 0:
        last = row if right == 0 else relay.add(row, ctx.constant(right, "int64"))
        bias.allow(relay.less_equal(column, last), hides_rows)
    if left >= 0:
        # All keys may lie further to the left than the window reaches.
        bias.allow(relay.greater_equal(column, relay.subtract(row, ctx.constant(left, "int64"))))


@converter("FlexAttention", domain="ai.onnx.preview")
def flex_attention(
    ctx: Context,
    query: Expr,
    key: Expr,
    value: Expr,
    *,
    scale: float | None = None,
    softmax_precision: int | None = None,
    score_mod: onnx.GraphProto | None = None,
    prob_mod: onnx.GraphProto | None = None,
) -> Expr:
    """Attention whose scores and weights are changed by graphs in attributes."""
    dtype = ctx.dtype(query)
    if softmax_precision is not None:
        wide = dtype_name(softmax_precision, "softmax_precision")
    else:
        wide = dtype if dtype == "float64" else "float32"
    graphs = {"raw": score_mod, "weights": prob_mod}

    def change(step: str, value: Expr) -> Expr | None:
        graph = graphs.get(step)
        return None if graph is None else _through(ctx, graph, casted(ctx, value, wide))

    # The product of query and key is rounded to their type, and all that follows is computed in the wide one.
    softmax = Softmax(Softmax.scale_of(ctx, query, scale), dtype=wide, result_dtype=wide, change=change)
    return casted(ctx, attend(ctx, Heads(query, key, value), softmax), ctx.dtype(value))


def _through(ctx: Context, graph: onnx.GraphProto, value: Expr) -> Expr:
    """Return what a graph of one input and one output makes of a value."""
    if len(graph.input) != 1 or len(graph.output) != 1:
        ctx.fail(f"the graph {graph.name!r} must have one input and one output")
    outcome: Any = ctx.subgraph(graph, {graph.input[0].name: value})
    if isinstance(outcome, Fork) or not isinstance(outcome, list):
        ctx.fail(f"the rank of the result of the graph {graph.name!r} depends on values")
    return outcome[0]
