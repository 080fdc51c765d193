"""Scales and zero points: quantised tensors to real ones and back, and products of them that are exact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ... import relay
from ...relay.ir import Constant, Expr, dims
from ...relay.op import build
from ...relay.op.saturation import QUANTIZED
from .context import Context
from .known import constant, value_of
from .operators.conversion import casted

__all__ = ["along_axis", "centred", "dequantized", "exact_product", "multiplied", "quantized", "zero_of"]


def zero_of(ctx: Context, dtype: str) -> Expr:
    """Return the zero of an element type."""
    return ctx.constant(0, dtype)


def along_axis(ctx: Context, value: Expr, x: Expr, axis: int, block_size: int = 0) -> Expr:
    """Return scales or zero points in a shape that is broadcast to that of `x`.

    A number stays one, a vector lies along the axis, and of a tensor of as many dimensions as `x` each element serves
    `block_size` elements along the axis.
    """
    rank, own = ctx.rank(x), ctx.shape(value)
    if all(dims.equal(d, 1) for d in own):
        return value if not own else relay.reshape(value, [])
    if len(own) == 1 and not isinstance(own[0], int) and not -rank <= axis < rank:
        # A vector has no axis to lie along here, so its length, which is not known, is 1: checked when it is reshaped.
        return relay.reshape(value, [])
    if len(own) == 1 and not (block_size and rank == 1):
        behind = rank - 1 - ctx.axis(axis, rank)
        known = value_of(value) if isinstance(value, Constant) else None
        # What is known stays so: products look at it.
        return relay.expand_dims(value, 1, behind) if known is None else constant(known.reshape(-1, *[1] * behind))
    if len(own) != rank:
        ctx.fail(f"the scale or zero point {ctx.type(value)} is neither a number, nor a vector, nor of the rank {rank}")
    return _repeated(ctx, value, x, ctx.axis(axis, rank), block_size)


def _repeated(ctx: Context, value: Expr, x: Expr, axis: int, block_size: int) -> Expr:
    whole, blocks = ctx.shape(x)[axis], ctx.shape(value)[axis]
    if dims.equal(whole, blocks):
        return value
    if block_size <= 0:
        if not isinstance(whole, int) or not isinstance(blocks, int) or blocks == 0:
            ctx.fail("block_size is needed where the size of the axis is not known at import")
        block_size = -(-whole // blocks)
    repeated = relay.repeat(value, block_size, axis)
    if dims.equal(ctx.shape(repeated)[axis], whole):
        return repeated
    return relay.slice_like(repeated, x, [axis])


def dequantized(ctx: Context, x: Expr, scale: Expr, zero_point: Expr | None, dtype: str = "float32") -> Expr:
    """Return ``(x - zero_point) * scale`` for operands that are broadcast, computed in float32."""
    own = ctx.dtype(x)
    if own not in (*QUANTIZED, "int32"):
        ctx.fail(f"a tensor of {own} is not quantised; it is one of {', '.join((*QUANTIZED, 'int32'))}")
    if own.startswith("float") or zero_point is None:
        centre = casted(ctx, x, "float32")
        if zero_point is not None and not _is_zero(ctx, zero_point):
            centre = relay.subtract(centre, casted(ctx, zero_point, "float32"))
    else:
        difference = relay.subtract(casted(ctx, x, "int32"), casted(ctx, zero_point, "int32"))
        centre = casted(ctx, difference, "float32")
    return casted(ctx, relay.multiply(centre, casted(ctx, scale, "float32")), dtype)


def quantized(
    ctx: Context,
    x: Expr,
    scale: Expr | None,
    zero_point: Expr | None,
    dtype: str,
    precision: str = "float32",
    saturate: bool = True,
) -> Expr:
    """Return ``x / scale + zero_point`` rounded and limited to a data type; `precision` is that of the division."""
    if dtype not in QUANTIZED:
        ctx.fail(f"a tensor cannot be quantised to {dtype}; it is one of {', '.join(QUANTIZED)}")
    ratio = casted(ctx, x, precision)
    if scale is not None:
        ratio = relay.divide(ratio, casted(ctx, scale, precision))
    zero = zero_of(ctx, dtype) if zero_point is None else zero_point
    return build("contrib_quantized", casted(ctx, ratio, "float32"), zero, dtype, saturate)


def multiplied(ctx: Context, total: Expr, *scales: tuple[Expr, Expr | None]) -> Expr:
    """Return an integer result as a float32 times one factor: ``a / b`` of scales, b may be missing."""
    factor: Expr | None = None
    for over, under in scales:
        own = casted(ctx, over, "float32")
        factor = own if factor is None else relay.multiply(factor, own)
        if under is not None:
            factor = relay.divide(factor, casted(ctx, under, "float32"))
    assert factor is not None
    return relay.multiply(casted(ctx, total, "float32"), factor)


def _is_zero(ctx: Context, value: Expr) -> bool:
    known = ctx.static(value)
    return known is not None and not np.any(known.astype("float32"))


def centred(ctx: Context, x: Expr, zero_point: Expr | None, dtype: str) -> Expr:
    """Return ``x - zero_point`` in a data type that holds it; at once where both are constants."""
    if isinstance(x, Constant) and (zero_point is None or isinstance(zero_point, Constant)):
        known = ctx.static(x)
        zero = None if zero_point is None else ctx.static(zero_point)
        assert known is not None
        return constant((known.astype("int32") - (0 if zero is None else zero.astype("int32"))).astype(dtype))
    number = relay.cast(x, dtype)
    if zero_point is None or _is_zero(ctx, zero_point):
        return number
    return relay.subtract(number, relay.cast(zero_point, dtype))


def exact_product(
    ctx: Context,
    product: Callable[[Expr, Expr], Expr],
    a: tuple[Expr, Expr | None],
    b: tuple[Expr, Expr | None],
) -> Expr:
    """Return a product of quantised tensors, each with its zero point, as int32.

    Passes choose how it is computed.

    Parameters
    ----------
    product
        Computes it from two tensors of one data type.
    a, b
        The operands with their zero points, which are broadcast.
    """
    return product(centred(ctx, *a, "int32"), centred(ctx, *b, "int32"))
