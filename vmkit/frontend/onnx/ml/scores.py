"""What classical models do with scores at the end: transforms, class labels, rows of a vector.

Source: the operators of ai.onnx.ml, https://github.com/onnx/onnx/blob/main/docs/Operators-ml.md; where they leave
something open, what onnxruntime does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import relay
from ....errors import UnsupportedOperatorError
from ....relay.ir import Expr
from ....values.texts import as_texts
from ..context import Context
from ..known import constant
from ..operators.elementwise import binary

__all__ = ["TRANSFORMS", "class_labels", "pair_of", "picked", "rows_of", "transformed"]

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""The transforms, in the order of their numbers in TreeEnsemble."""


def rows_of(ctx: Context, x: Expr, dtype: str = "float32") -> Expr:
    """Return an input as a matrix of a type whose rows are samples: a vector is one."""
    if ctx.rank(x) not in (1, 2):
        ctx.fail(f"the input must be a vector or a matrix, not {ctx.type(x)}")
    if ctx.rank(x) == 1:
        x = relay.expand_dims(x, 0)
    return x if ctx.dtype(x) == dtype else relay.cast(x, dtype)


def class_labels(ctx: Context, strings: Sequence[str], integers: Sequence[int]) -> np.ndarray:
    """Return the labels of the classes, as strings or integers."""
    if bool(strings) == bool(integers):
        ctx.fail("it needs labels of classes, either strings or integers")
    return as_texts(list(strings)) if strings else np.array(integers, "int64")


def picked(labels: np.ndarray, index: Expr) -> Expr:
    """Return the labels that a tensor of indices picks."""
    return relay.take(constant(labels), index, axis=0)


def transformed(ctx: Context, scores: Expr, transform: str) -> Expr:
    """Return scores, a matrix, after a transform of each row."""
    if transform not in TRANSFORMS:
        ctx.fail(f"post_transform is {transform!r}; it is one of {', '.join(TRANSFORMS)}")
    return _FUNCTIONS[transform](ctx, scores)


def pair_of(ctx: Context, score: Expr, transform: str, *, is_share: bool) -> Expr:
    """Return the scores of two classes of which only the second has one, transformed: (rows, 2).

    That of the first is what the second lacks to 1, or its opposite where scores are no shares.
    """
    if transform == "PROBIT":
        raise UnsupportedOperatorError("post_transform PROBIT is not defined for two classes of which one has a score")
    transformed(ctx, score, transform)
    if transform == "LOGISTIC":
        return relay.sigmoid(relay.concatenate([relay.negative(score), score], axis=1))
    other = relay.subtract(ctx.constant(1.0, ctx.dtype(score)), score) if is_share else relay.negative(score)
    return relay.concatenate([other, score], axis=1)


def _softmax_zero(ctx: Context, scores: Expr) -> Expr:
    """Scores of 0 stay 0: they are no part of the sum."""
    largest = relay.max(scores, axis=[-1], keepdims=True)
    powers = relay.exp(relay.subtract(scores, largest))
    is_zero = relay.less_equal(relay.abs(scores), ctx.constant(1e-7, ctx.dtype(scores)))
    small = relay.multiply(scores, relay.exp(relay.negative(largest)))
    total = relay.sum(relay.where(is_zero, relay.zeros_like(powers), powers), axis=[-1], keepdims=True)
    return relay.divide(relay.where(is_zero, small, powers), total)


def _probit(ctx: Context, scores: Expr) -> Expr:
    """Return the quantiles of the normal distribution, by the approximation that onnxruntime takes.

    Source: S. Winitzki, A handy approximation for the error function and its inverse, 2008.
    """
    x = binary(ctx, "subtract", binary(ctx, "multiply", scores, 2.0), 1.0)
    one = ctx.constant(1.0, ctx.dtype(scores))
    log = relay.log(relay.multiply(relay.subtract(one, x), relay.add(one, x)))
    a = 0.147
    v = binary(ctx, "add", binary(ctx, "multiply", log, 0.5), 2 / (3.14159 * a))
    root = relay.sqrt(relay.subtract(relay.multiply(v, v), binary(ctx, "multiply", log, 1 / a)))
    return relay.multiply(relay.sign(x), binary(ctx, "multiply", relay.sqrt(relay.subtract(root, v)), 1.41421356))


_FUNCTIONS: dict[str, Callable[[Any, Expr], Expr]] = {
    "NONE": lambda ctx, scores: scores,
    "SOFTMAX": lambda ctx, scores: relay.nn.softmax(scores, axis=-1),
    "LOGISTIC": lambda ctx, scores: relay.sigmoid(scores),
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}
