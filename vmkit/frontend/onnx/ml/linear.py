"""Linear models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..known import constant
from ..registry import converter
from .scores import class_labels, pair_of, picked, rows_of, transformed

DOMAIN = "ai.onnx.ml"


def _scores(ctx: Context, x: Expr, coefficients: Sequence[float], intercepts: Sequence[float], targets: int) -> Expr:
    """Return what each target gives for each row: (rows, targets), float32."""
    if targets < 1 or len(coefficients) % targets:
        ctx.fail(f"coefficients has {len(coefficients)} elements for {targets} targets")
    if intercepts and len(intercepts) != targets:
        ctx.fail(f"intercepts has {len(intercepts)} elements for {targets} targets")
    weight = np.array(coefficients, "float32").reshape(targets, -1)
    scores = relay.nn.dense(rows_of(ctx, x), constant(weight))
    return relay.add(scores, ctx.constant(list(intercepts), "float32")) if intercepts else scores


@converter("LinearRegressor", domain=DOMAIN)
def linear_regressor(
    ctx: Context,
    x: Expr,
    *,
    coefficients: Sequence[float] = (),
    intercepts: Sequence[float] = (),
    post_transform: str = "NONE",
    targets: int = 1,
) -> Expr:
    scores = _scores(ctx, x, coefficients, intercepts, targets)
    done = transformed(ctx, scores, post_transform)
    # Of one target, onnxruntime transforms by PROBIT alone.
    return done if targets > 1 or post_transform == "PROBIT" else scores


@converter("LinearClassifier", domain=DOMAIN)
def linear_classifier(
    ctx: Context,
    x: Expr,
    *,
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> list[Expr]:
    labels = class_labels(ctx, classlabels_strings, classlabels_ints)
    targets = len(intercepts) or len(labels)
    scores = _scores(ctx, x, coefficients, intercepts, targets)
    done = transformed(ctx, scores, post_transform)
    if targets > 1:
        if len(labels) != targets:
            ctx.fail(f"there are {len(labels)} labels for {targets} scores")
        return [picked(labels, relay.cast(relay.argmax(scores, axis=1), "int64")), done]
    is_second = relay.greater(relay.squeeze(scores, axis=[1]), ctx.constant(0.0, "float32"))
    index = relay.cast(is_second, "int64")
    if len(labels) != 2:
        names = np.array(["0", "1"], object) if labels.dtype == object else np.array([0, 1], "int64")
        return [picked(names, index), done if post_transform == "PROBIT" else scores]
    return [picked(labels, index), pair_of(ctx, scores, post_transform, is_share=True)]
