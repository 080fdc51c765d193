"""Support vector machines."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from .... import relay
from ....relay.ir import Expr
from ....relay.op import build
from ..context import Context
from ..known import constant
from ..operators.elementwise import binary
from ..registry import converter
from .scores import class_labels, pair_of, picked, rows_of, transformed

DOMAIN = "ai.onnx.ml"
_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def _kernel(ctx: Context, rows: Expr, vectors: np.ndarray, kind: str, params: Sequence[float]) -> Expr:
    """Return how alike each row is to each vector: (rows, vectors)."""
    if kind not in _KERNELS:
        ctx.fail(f"kernel_type is {kind!r}; it is one of {', '.join(_KERNELS)}")
    if len(params) not in (0, 3):
        ctx.fail(f"kernel_params has {len(params)} elements; it has gamma, coef0 and degree")
    gamma, offset, degree = params or (0.0, 0.0, 0.0)
    if kind == "RBF":
        # The vectors lie along the last axis, for as many distances at once.
        apart = relay.subtract(relay.expand_dims(rows, 2), constant(np.ascontiguousarray(vectors.T)[None]))
        distance = relay.sum(relay.multiply(apart, apart), axis=[1])
        return relay.exp(binary(ctx, "multiply", distance, -gamma))
    product = relay.nn.dense(rows, constant(vectors))
    if kind == "LINEAR":
        return product
    # A number for each vector is read in vectors, as a layer's bias; one for all would be tested for with each element.
    offsets = constant(np.full(len(vectors), offset, vectors.dtype))
    product = relay.add(binary(ctx, "multiply", product, gamma), offsets)
    return relay.tanh(product) if kind == "SIGMOID" else _power(ctx, product, degree)


def _power(ctx: Context, x: Expr, degree: float) -> Expr:
    if degree in (1.0, 2.0, 3.0):
        made = x
        for _ in range(int(degree) - 1):
            made = relay.multiply(made, x)
        return made
    return binary(ctx, "power", x, degree)


def _matrix(ctx: Context, values: Sequence[float], rows: int, name: str) -> np.ndarray:
    if rows < 1 or not values or len(values) % rows:
        ctx.fail(f"{name} has {len(values)} elements for {rows} rows")
    return np.array(values, "float32").reshape(rows, -1)


@converter("SVMRegressor", domain=DOMAIN)
def svm_regressor(
    ctx: Context,
    x: Expr,
    *,
    coefficients: Sequence[float] = (),
    kernel_params: Sequence[float] = (),
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Sequence[float] = (),
    support_vectors: Sequence[float] = (),
) -> Expr:
    rows = rows_of(ctx, x)
    weights = _matrix(ctx, coefficients, 1, "coefficients")
    if n_supports:
        vectors = _matrix(ctx, support_vectors, n_supports, "support_vectors")
        if weights.shape[1] != n_supports:
            ctx.fail(f"coefficients has {weights.shape[1]} elements for {n_supports} vectors")
        rows = _kernel(ctx, rows, vectors, kernel_type, kernel_params)
    result = relay.nn.dense(rows, constant(weights))
    if rho:
        result = binary(ctx, "add", result, rho[0])
    if one_class:
        positive = relay.greater(result, ctx.constant(0.0, "float32"))
        return relay.where(positive, ctx.constant(1.0, "float32"), ctx.constant(-1.0, "float32"))
    # Of one target, onnxruntime transforms by nothing.
    transformed(ctx, result, post_transform)
    return result


@converter("SVMClassifier", domain=DOMAIN)
def svm_classifier(
    ctx: Context,
    x: Expr,
    *,
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    coefficients: Sequence[float] = (),
    kernel_params: Sequence[float] = (),
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Sequence[float] = (),
    prob_b: Sequence[float] = (),
    rho: Sequence[float] = (),
    support_vectors: Sequence[float] = (),
    vectors_per_class: Sequence[int] = (),
) -> list[Expr]:
    labels = class_labels(ctx, classlabels_strings, classlabels_ints)
    count, rows = len(labels), rows_of(ctx, x)
    if not sum(vectors_per_class):
        weights = _matrix(ctx, coefficients, count, "coefficients")
        scores = binary(ctx, "add", relay.nn.dense(rows, constant(weights)), rho[0] if rho else 0.0)
        index = _linear_class(ctx, scores, count, min(coefficients) >= 0, bool(prob_a))
        return [picked(labels, index), transformed(ctx, scores, post_transform) if count > 1 else scores]
    pairs = list(combinations(range(count), 2))
    if len(vectors_per_class) != count or not pairs:
        ctx.fail(f"vectors_per_class has {len(vectors_per_class)} elements for {count} classes")
    if len(rho) < len(pairs) or len(prob_a) != len(prob_b) or (prob_a and len(prob_a) < len(pairs)):
        ctx.fail(f"there are {len(pairs)} pairs of classes, {len(rho)} rho, {len(prob_a)} prob_a, {len(prob_b)} prob_b")
    vectors = _matrix(ctx, support_vectors, sum(vectors_per_class), "support_vectors")
    weights = _matrix(ctx, coefficients, count - 1, "coefficients")
    if weights.shape[1] != len(vectors):
        ctx.fail(f"coefficients has {weights.shape[1]} columns for {len(vectors)} vectors")
    likeness = _kernel(ctx, rows, vectors, kernel_type, kernel_params)
    duels = relay.nn.dense(likeness, constant(_duels(weights, vectors_per_class, pairs)))
    duels = relay.add(duels, ctx.constant(list(rho)[: len(pairs)], "float32"))
    index = _most_votes(ctx, duels, pairs, count)
    if prob_a:
        scores = _probabilities(ctx, duels, pairs, count, prob_a, prob_b)
        return [picked(labels, index), transformed(ctx, scores, post_transform)]
    if count > 2:
        return [picked(labels, index), transformed(ctx, duels, post_transform)]
    return [picked(labels, index), pair_of(ctx, duels, post_transform, is_share=post_transform != "NONE")]


def _linear_class(ctx: Context, scores: Expr, count: int, is_positive: bool, has_probabilities: bool) -> Expr:
    """Return the place of the best score; of two classes it is the second that a high one speaks for."""
    best = relay.cast(relay.argmax(scores, axis=1), "int64")
    if count != 2 or has_probabilities:
        return best
    most = relay.max(scores, axis=[1])
    test = relay.greater_equal if is_positive else relay.greater
    is_second = test(most, ctx.constant(0.5 if is_positive else 0.0, "float32"))
    return relay.where(is_second, ctx.constant(1, "int64"), best)


def _duels(weights: np.ndarray, sizes: Sequence[int], pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return the weights of the vectors in the duel of each pair of classes: those of the two classes alone count."""
    starts = np.cumsum([0, *sizes])
    made = np.zeros((len(pairs), weights.shape[1]), "float32")
    for row, (i, j) in enumerate(pairs):
        made[row, starts[i] : starts[i + 1]] = weights[j - 1, starts[i] : starts[i + 1]]
        made[row, starts[j] : starts[j + 1]] = weights[i, starts[j] : starts[j + 1]]
    return made


def _most_votes(ctx: Context, duels: Expr, pairs: Sequence[tuple[int, int]], count: int) -> Expr:
    wins, losses = np.zeros((count, len(pairs)), "float32"), np.zeros((count, len(pairs)), "float32")
    for column, (i, j) in enumerate(pairs):
        wins[i, column], losses[j, column] = 1, 1
    won = relay.cast(relay.greater(duels, ctx.constant(0.0, "float32")), "float32")
    lost = relay.subtract(ctx.constant(1.0, "float32"), won)
    votes = relay.add(relay.nn.dense(won, constant(wins)), relay.nn.dense(lost, constant(losses)))
    return relay.cast(relay.argmax(votes, axis=1), "int64")


def _probabilities(
    ctx: Context,
    duels: Expr,
    pairs: Sequence[tuple[int, int]],
    count: int,
    prob_a: Sequence[float],
    prob_b: Sequence[float],
) -> Expr:
    a, b = (ctx.constant(list(values)[: len(pairs)], "float32") for values in (prob_a, prob_b))
    first = relay.sigmoid(relay.negative(relay.add(relay.multiply(duels, a), b)))
    first = relay.clip(first, 1e-7, 1 - 1e-7)
    both = relay.concatenate([first, relay.subtract(ctx.constant(1.0, "float32"), first)], axis=1)
    # The diagonal is never looked at.
    places = np.zeros((count, count), "int64")
    for column, (i, j) in enumerate(pairs):
        places[i, j], places[j, i] = column, column + len(pairs)
    return build("contrib_couple_probabilities", relay.take(both, constant(places), axis=1))
