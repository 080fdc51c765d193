"""Losses."""

from __future__ import annotations

from .... import relay
from ....relay.ir import Expr, dims
from ....relay.op import build
from ..context import Context
from ..registry import converter
from ..run_time_axes import as_vector, size_along

_NO_CLASS = -1  # ignored by default: no class has this number


@converter("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood(
    ctx: Context,
    x: Expr,
    target: Expr,
    weight: Expr | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Expr:
    """Minus the element of each target class, times the weight of the class."""
    if weight is None:
        classes = as_vector(ctx, size_along(ctx, x, 1)) if dims.is_any(ctx.shape(x)[1]) else [ctx.shape(x)[1]]
        weight = relay.broadcast_to(ctx.constant(1, ctx.dtype(x)), classes)
    ignored = _NO_CLASS if ignore_index is None else ignore_index
    return build("nn.nll_loss", x, target, weight, reduction=reduction, ignore_index=ignored)


@converter("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy(
    ctx: Context,
    scores: Expr,
    labels: Expr,
    weights: Expr | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> list[Expr]:
    """The loss, and the logarithms of the probabilities."""
    logarithms = relay.nn.log_softmax(scores, axis=1)
    loss = negative_log_likelihood(ctx, logarithms, labels, weights, ignore_index=ignore_index, reduction=reduction)
    return [loss, logarithms]
