"""Routers that choose groups of experts first, and experts of these groups then."""

from __future__ import annotations

import numpy as np

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..operators.conversion import casted
from ..registry import converter

_FLOAT = "float32"
# Of a share, the logarithm is taken, which 0 has none of.
_LEAST = 1e-20


@converter("MoEGroupRouter", domain="com.microsoft")
def route_to_groups(
    ctx: Context,
    logits: Expr,
    bias: Expr,
    projection: Expr | None = None,
    *,
    top_k: int,
    n_group: int = 1,
    topk_group: int = 1,
    group_topk: int = 2,
    router_sentinel: float = -10000.0,
) -> list[Expr | None]:
    """The logarithm of the share of each expert that is chosen; or the shares of all, with and without a bias."""
    if ctx.wants(0) == ctx.wants(1) or ctx.wants(1) != ctx.wants(2):
        ctx.fail("its outputs are router_probs alone, or selection_scores and router_weights")
    if projection is not None:
        if ctx.wants(0):
            ctx.fail("router_probs is asked for, which is of logits; projection_weight is for the other outputs")
        logits = relay.nn.dense(casted(ctx, logits, _FLOAT), casted(ctx, projection, _FLOAT))
    experts = ctx.shape(logits)[-1]
    if not isinstance(experts, int):
        ctx.fail(f"the number of experts is not known at import: the logits are {ctx.type(logits)}")
    _check(ctx, experts, top_k, n_group, topk_group, group_topk)
    rows = relay.reshape(casted(ctx, logits, _FLOAT), [-1, experts])
    shares = relay.sigmoid(rows)
    scores = relay.add(shares, casted(ctx, bias, _FLOAT))
    if not ctx.wants(0):
        if n_group != 1 or topk_group != 1:
            ctx.fail(f"n_group is {n_group} and topk_group {topk_group}; with the scores of all experts both are 1")
        return [None, scores, shares]
    scores = _of_best_groups(ctx, scores, experts, n_group, topk_group, group_topk)
    chosen = _marked_best(ctx, scores, experts, top_k)
    logarithm = relay.log(relay.maximum(shares, ctx.constant(_LEAST, _FLOAT)))
    made = relay.where(chosen, logarithm, ctx.constant(router_sentinel, _FLOAT))
    return [casted(ctx, made, ctx.dtype(logits)), None, None]


def _check(ctx: Context, experts: int, top_k: int, n_group: int, topk_group: int, group_topk: int) -> None:
    if n_group < 1 or experts % n_group:
        ctx.fail(f"n_group is {n_group}, and {experts} experts are no multiple of it")
    if not 1 <= topk_group <= n_group or group_topk < 1:
        ctx.fail(f"topk_group is {topk_group}, 1 to all {n_group} groups; group_topk is {group_topk}, at least 1")
    most = topk_group * (experts // n_group)
    if not 1 <= top_k <= most:
        ctx.fail(f"top_k is {top_k}; {topk_group} of {n_group} groups have {most} experts")


def _of_best_groups(ctx: Context, scores: Expr, experts: int, n_group: int, topk_group: int, group_topk: int) -> Expr:
    """Return the scores of experts, minus infinity for those of groups that are not chosen."""
    if topk_group == n_group:
        return scores
    size = experts // n_group
    apart = relay.reshape(scores, [-1, n_group, size])
    best = relay.topk(apart, min(group_topk, size), axis=-1, ret_type="values")
    chosen = _marked_best(ctx, relay.sum(best, [2]), n_group, topk_group)
    kept = relay.where(relay.expand_dims(chosen, 2), apart, ctx.constant(-np.inf, _FLOAT))
    return relay.reshape(kept, [-1, experts])


def _marked_best(ctx: Context, scores: Expr, count: int, k: int) -> Expr:
    """Return which elements of rows are the k largest; of equal ones the first."""
    best = relay.topk(scores, k, axis=-1, ret_type="indices", dtype="int64")
    marks = relay.one_hot(best, ctx.constant(True, "bool"), ctx.constant(False, "bool"), count, -1, "bool")
    return relay.any(marks, [1])
