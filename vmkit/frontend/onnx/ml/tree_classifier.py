"""Ensembles of decision trees that tell classes apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..known import constant
from ..registry import converter
from .forest import Forest
from .listed_trees import NodeLists, compared_in, integers, listed_values
from .scores import class_labels, pair_of, picked, rows_of, transformed


@converter("TreeEnsembleClassifier", domain="ai.onnx.ml")
def tree_ensemble_classifier(
    ctx: Context,
    x: Expr,
    *,
    base_values: Sequence[float] = (),
    base_values_as_tensor: onnx.TensorProto | None = None,
    class_ids: Sequence[int] = (),
    class_nodeids: Sequence[int] = (),
    class_treeids: Sequence[int] = (),
    class_weights: Sequence[float] = (),
    class_weights_as_tensor: onnx.TensorProto | None = None,
    classlabels_int64s: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    nodes: NodeLists,
    post_transform: str = "NONE",
) -> list[Expr]:
    labels = class_labels(ctx, classlabels_strings, classlabels_int64s)
    weights = listed_values(ctx, class_weights, class_weights_as_tensor, "class_weights")
    base = listed_values(ctx, base_values, base_values_as_tensor, "base_values").tolist()
    dtype = compared_in(ctx, x)
    forest = nodes.forest(ctx, dtype, len(labels), [class_treeids, class_nodeids, class_ids, weights])
    rows = rows_of(ctx, x, dtype)
    if len(base) > len(labels):
        ctx.fail(f"base_values has {len(base)} elements for {len(labels)} classes")
    scored = set(np.unique(integers(class_ids)).tolist())
    if len(labels) > 2:
        index, scores = _of_many(ctx, forest.scores(rows, "SUM"), base, scored, len(labels))
        scores = transformed(ctx, scores, post_transform)
    elif len(labels) == 2:
        is_positive = bool((weights >= 0).all())
        index, scores = _of_two(ctx, _pair(forest, rows), base, scored, is_positive, post_transform)
    else:
        scores = relay.add(forest.scores(rows, "SUM"), ctx.constant(base or [0.0], dtype))
        index = _above(ctx, scores, 0.0)
        # onnxruntime calls the only class 1, and what is not in it 0.
        labels = np.array([0, 1], "int64") if labels.dtype != object else np.array([labels[0]] * 2, object)
        scores = transformed(ctx, scores, post_transform) if post_transform == "PROBIT" else scores
    return [picked(labels, index), relay.cast(scores, "float32")]


def _above(ctx: Context, scores: Expr, threshold: float) -> Expr:
    """Return 1 for each row of a matrix of one column that is above a threshold, else 0."""
    column = relay.squeeze(scores, axis=[1])
    return relay.cast(relay.greater(column, ctx.constant(threshold, ctx.dtype(scores))), "int64")


def _pair(forest: Forest, rows: Expr) -> list[Expr]:
    """Return the scores of each of two classes: (rows, 1). Often leaves add to one of them alone."""
    only = forest.only_target
    if only is not None:
        score = forest.of_one_target().scores(rows, "SUM")
        return [score if c == only else relay.zeros_like(score) for c in range(2)]
    scores = forest.scores(rows, "SUM")
    return [relay.strided_slice(scores, [c], [c + 1], axes=[1]) for c in range(2)]


def _of_many(ctx: Context, scores: Expr, base: Sequence[float], scored: set[int], count: int) -> tuple[Expr, Expr]:
    """Return the best of more than two classes, of those that anything is known of, and the scores."""
    scores = relay.add(scores, ctx.constant([*base, *[0.0] * (count - len(base))], ctx.dtype(scores)))
    known = [c < len(base) or c in scored for c in range(count)]
    best = scores
    if not all(known):
        best = relay.where(constant(np.array([known])), scores, ctx.constant(-math.inf, ctx.dtype(scores)))
    return relay.cast(relay.argmax(best, axis=1), "int64"), scores


def _of_two(
    ctx: Context, pair: list[Expr], base: Sequence[float], scored: set[int], is_positive: bool, transform: str
) -> tuple[Expr, Expr]:
    """Return which of two classes it is, and their scores.

    Models of two classes often score one of them alone; then what is known of the other is what the first lacks to 1,
    or its opposite where weights may be negative. With a base value for each, onnxruntime takes the first score for
    both.
    """
    first, second = pair
    dtype = ctx.dtype(first)
    threshold = 0.5 if is_positive and len(scored) < 2 else 0.0
    if 1 in scored or len(base) == 2:
        if len(base) == 2 and 1 in scored:
            second = relay.add(first, ctx.constant(base[1], dtype))
            first = relay.negative(second) if 0 in scored else first
        elif base and 0 in scored:
            first = relay.add(first, ctx.constant(base[0], dtype))
        scores = relay.concatenate([first, second], axis=1)
        return _above(ctx, second if 1 in scored else first, threshold), transformed(ctx, scores, transform)
    score = relay.add(first, ctx.constant(base[0], dtype)) if base else first
    return _above(ctx, score, threshold), pair_of(ctx, score, transform, is_share=is_positive)
