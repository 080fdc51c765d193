"""Operators that no opset declares, which onnxruntime runs: those of the first opsets, and what it writes itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .... import relay
from ....relay.ir import Dim, Expr, dims
from ..context import Context
from ..registry import converter
from .activation import softplus
from .elementwise import binary
from .slicing import slice_by_inputs


@converter("Affine")
def affine(ctx: Context, x: Expr, *, alpha: float = 1.0, beta: float = 0.0) -> Expr:
    return binary(ctx, "add", binary(ctx, "multiply", x, alpha), beta)


@converter("DynamicSlice")
def dynamic_slice(ctx: Context, x: Expr, starts: Expr, ends: Expr, axes: Expr | None = None) -> Expr:
    return slice_by_inputs(ctx, x, starts, ends, axes)


@converter("MemcpyFromHost", "MemcpyToHost")
def same_elsewhere(ctx: Context, x: Expr) -> Expr:
    """What onnxruntime puts where a graph goes to another device: here the compiler does."""
    return x


@converter("Scale")
def scaled(ctx: Context, x: Expr, *, scale: float = 1.0) -> Expr:
    return binary(ctx, "multiply", x, scale)


@converter("ScaledTanh")
def scaled_tanh(ctx: Context, x: Expr, *, alpha: float, beta: float) -> Expr:
    return binary(ctx, "multiply", relay.tanh(binary(ctx, "multiply", x, beta)), alpha)


@converter("ParametricSoftplus")
def parametric_softplus(ctx: Context, x: Expr, *, alpha: float, beta: float) -> Expr:
    return binary(ctx, "multiply", softplus(ctx, binary(ctx, "multiply", x, beta)), alpha)


@converter("ImageScaler")
def image_scaler(ctx: Context, x: Expr, *, bias: Sequence[float], scale: float = 1.0) -> Expr:
    """A bias for each channel is added to what is scaled."""
    if ctx.rank(x) != 4 or dims.equal(ctx.shape(x)[1], len(bias)) is False:
        ctx.fail(f"there are {len(bias)} biases; the input must be of four dimensions with as many channels")
    return relay.add(scaled(ctx, x, scale=scale), ctx.constant(np.reshape(bias, (-1, 1, 1)), ctx.dtype(x)))


@converter("Crop")
def crop(ctx: Context, x: Expr, *, border: Sequence[int], scale: Sequence[int] | None = None) -> Expr:
    """What is left without borders (left, top, right, bottom), or so many rows and columns behind the first two."""
    if ctx.rank(x) != 4 or len(border) != 4 or (scale is not None and len(scale) != 2):
        ctx.fail(f"border has {len(border)} values and the input {ctx.rank(x)} dimensions; both are 4, and scale has 2")
    left, top, right, bottom = border
    rows, columns = ctx.shape(x)[2:]
    if scale is None:
        end: list[Dim] = [dims.sub(rows, bottom), dims.sub(columns, right)]
    else:
        end = [top + scale[0], left + scale[1]]
    if any(dims.is_any(d) for d in end) or any(
        dims.at_least(d, e) is False for d, e in zip((rows, columns), end, strict=True)
    ):
        ctx.fail(f"{end} rows and columns are to be in an image {ctx.type(x)}, whose size must be known at import")
    return relay.strided_slice(x, [top, left], end, [1, 1], axes=[2, 3])
