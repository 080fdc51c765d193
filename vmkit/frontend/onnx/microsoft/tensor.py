"""Operators that move, pick and measure elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import relay
from ....relay.ir import Expr, dims
from ....relay.op import build
from ..context import Context
from ..operators.distinct import unique
from ..operators.indexing import gather_nd
from ..operators.padding import pad
from ..operators.shape import trilu, value_range
from ..operators.vision import grid_sample as sampled
from ..outcome import Outcome
from ..registry import converter
from .token_scores import Text, without_repeated


@converter("SampleOp", domain="com.microsoft")
def echo(ctx: Context, x: Expr) -> Expr:
    return x


@converter("GatherND", domain="com.microsoft")
def gather_by_tuples(ctx: Context, x: Expr, indices: Expr) -> Expr | Outcome:
    return gather_nd(ctx, x, indices)


@converter("Trilu", domain="com.microsoft")
def triangle(ctx: Context, x: Expr, k: Expr | None = None, *, upper: int = 1) -> Expr:
    return trilu(ctx, x, k, upper=upper)


@converter("Pad", domain="com.microsoft")
def pad_by_input(ctx: Context, x: Expr, pads: Expr, value: Expr | None = None, *, mode: str = "constant") -> Expr:
    if ctx.rank(pads) == 2:
        pads = relay.reshape(pads, [-1])
    return pad(ctx, x, pads, value, mode=mode)


@converter("GridSample", domain="com.microsoft")
def grid_sample(
    ctx: Context, x: Expr, grid: Expr, *, align_corners: int = 0, mode: str = "bilinear", padding_mode: str = "zeros"
) -> Any:
    return sampled(ctx, x, grid, align_corners=align_corners, mode=mode, padding_mode=padding_mode)


@converter("ExpandDims", domain="com.microsoft")
def expand_dims(ctx: Context, x: Expr, axis: Expr) -> Expr:
    (at,) = ctx.ints(axis, "axis")
    return relay.expand_dims(x, ctx.axis(at, ctx.rank(x) + 1))


@converter("Unique", domain="com.microsoft")
def unique_in_order(ctx: Context, x: Expr) -> list[Expr]:
    """The distinct elements as they first appear, which of them each is, and how often each does."""
    elements, _, which, counts = unique(ctx, x, sorted=0)
    return [elements, which, counts]


@converter("Inverse", domain="com.microsoft")
def inverse(ctx: Context, x: Expr) -> Expr:
    return build("contrib.inverse", x)


@converter("CropAndResize", domain="com.microsoft")
def crop_and_resize(
    ctx: Context,
    x: Expr,
    boxes: Expr,
    images: Expr,
    size: Expr,
    *,
    extrapolation_value: float = 0.0,
    mode: str = "bilinear",
) -> Expr:
    method = {"bilinear": "bilinear", "nearest": "nearest_neighbor"}.get(mode)
    if method is None:
        ctx.fail(f"mode is {mode!r}; it is 'bilinear' or 'nearest'")
    return relay.image.crop_and_resize(
        x, boxes, images, ctx.ints(size, "crop_size"), "NCHW", method, extrapolation_value
    )


@converter("CDist", domain="com.microsoft")
def distances(ctx: Context, a: Expr, b: Expr, *, metric: str = "sqeuclidean") -> Expr:
    """The distance of every row of one matrix from every row of the other."""
    if metric not in ("euclidean", "sqeuclidean"):
        ctx.fail(f"metric is {metric!r}; it is 'euclidean' or 'sqeuclidean'")
    difference = relay.subtract(relay.expand_dims(a, 1), relay.expand_dims(b, 0))
    squares = relay.sum(relay.multiply(difference, difference), [2])
    return relay.sqrt(squares) if metric == "euclidean" else squares


@converter("ComplexMul", "ComplexMulConj", domain="com.microsoft")
def complex_product(ctx: Context, a: Expr, b: Expr) -> Expr:
    """The product of complex numbers, whose parts lie along the last dimension."""
    (p, q), (r, s) = (list(relay.split(v, 2, axis=-1)) for v in (a, b))
    if ctx.node.op_type == "ComplexMulConj":
        s = relay.negative(s)
    real = relay.subtract(relay.multiply(p, r), relay.multiply(q, s))
    imaginary = relay.add(relay.multiply(p, s), relay.multiply(q, r))
    return relay.concatenate([real, imaginary], ctx.rank(real) - 1)


@converter("Range", domain="com.microsoft")
def value_range_by_one(ctx: Context, start: Expr, limit: Expr, delta: Expr | None = None) -> Expr:
    return value_range(ctx, start, limit, ctx.constant(1, ctx.dtype(start)) if delta is None else delta)


@converter("TorchEmbedding", domain="com.microsoft")
def embedding(
    ctx: Context, weight: Expr, indices: Expr, padding_idx: Expr | None = None, scale_grad_by_freq: Expr | None = None
) -> Expr:
    """Rows of a table; what the last two inputs say is of the training."""
    return relay.take(weight, indices, axis=0)


@converter("UnfoldTensor", domain="com.microsoft")
def unfold(ctx: Context, x: Expr, *, size: int, dim: int = -1, step: int = 1) -> Expr:
    """Windows along an axis; what is in them lies along a new last axis."""
    axis = ctx.axis(dim, ctx.rank(x))
    extent = ctx.shape(x)[axis]
    if dims.is_any(extent) or step < 1 or size < 1 or dims.at_least(extent, size) is False:
        ctx.fail(f"windows of {size}, one every {step}, along axis {axis} of {ctx.type(x)}, whose size must be known")
    count = dims.add(dims.floordiv(dims.sub(extent, size), step), 1)
    starts = relay.multiply(ctx.positions(count, "int64"), ctx.constant(step, "int64"))
    places = relay.add(relay.expand_dims(starts, 1), ctx.positions(size, "int64"))
    windows = relay.take(x, places, axis=axis)
    rank = ctx.rank(windows)
    return relay.transpose(windows, [*(k for k in range(rank) if k != axis + 1), axis + 1])


@converter("NGramRepeatBlock", domain="com.microsoft")
def without_repeated_ngrams(ctx: Context, ids: Expr, scores: Expr, *, ngram_size: int) -> Expr:
    """The scores of tokens that would make of the last ones what has been there are minus infinity."""
    return without_repeated(ctx, Text(ids), scores, ngram_size, -np.inf)
