"""Scales and zero points: quantised tensors to real ones and back, and products of them that are exact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ... import relay
from ...relay.ir import Constant, Expr, dims
from ...relay.op import build
from ...relay.op.nn.block_quantized import packed_codes
from ...relay.op.saturation import QUANTIZED
from ...values.element_types import small_integer_bits
from .context import Context
from .known import constant, known_value, value_of
from .operators.conversion import casted

__all__ = [
    "along_axis",
    "block_dequantized",
    "centred",
    "codes_of",
    "dequantized",
    "exact_product",
    "multiplied",
    "quantized",
    "zero_of",
]


_FEW = 1 << 12  # elements of a constant that is as well folded at import


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


def codes_of(ctx: Context, x: Expr, zero_point: Expr | None) -> tuple[Expr, Expr | None, int] | None:
    """Return known integers of at most 8 bits as codes in bytes, their zero points, and the bits of a code.

    Codes and zero points are numbers from 0 on; None for zero points in the middle of these. Rows that do not fill up
    bytes have one code in each. None for what is not known.
    """
    known, zeros = ctx.static(x), None if zero_point is None else ctx.static(zero_point)
    bits = small_integer_bits(ctx.dtype(x)) or 8
    if known is None or (zero_point is not None and zeros is None) or not known.ndim:
        return None
    lowest = 0 if ctx.dtype(x).startswith("uint") else -(1 << (bits - 1))
    codes = (known.astype("int16") - lowest).astype("uint8")
    zero = -lowest if zeros is None else zeros.astype("int16") - lowest
    if known.shape[-1] % (8 // bits):
        bits = 8
    has_zeros = np.any(zero != 1 << (bits - 1))
    whole = np.array(zero, "uint8").reshape((1,) * known.ndim if zeros is None else zeros.shape)
    return constant(packed_codes(codes, bits)), constant(whole) if has_zeros else None, bits


def block_dequantized(
    ctx: Context, x: Expr, scale: Expr, zero_point: Expr | None, axis: int, block_size: int
) -> Expr | None:
    """Return known integers of a few bits, or in blocks, made float32 by one operator, so that they may stay so.

    None for other integers, which products have other ways with.
    """
    dtype, rank = ctx.dtype(x), ctx.rank(x)
    is_small = small_integer_bits(dtype) is not None or (block_size > 0 and dtype in ("int8", "uint8"))
    known = ctx.static(scale)
    if not is_small or known is None or not str(known.dtype).startswith(("float16", "float32", "bfloat16")):
        return None
    found = codes_of(ctx, x, zero_point)
    if found is None:
        return None
    codes, zeros, bits = found
    shape = [int(d) for d in ctx.shape(x)]
    along = ctx.axis(axis, rank) if rank > 1 or known.size > 1 else 0

    def laid_out(values: np.ndarray) -> np.ndarray | None:
        if values.size == 1:
            return values.reshape([1] * rank)
        if values.ndim == 1 and (rank > 1 or not block_size):
            return values.reshape([-1 if at == along else 1 for at in range(rank)])
        return values if values.ndim == rank else None

    given = [known.astype("float32"), *([] if zeros is None else [known_value(zeros)])]
    once = [None if each is None else laid_out(each) for each in given]
    block = block_size or -(-shape[along] // max(e.shape[along] for e in once if e is not None))
    wanted = [-(-d // block) if at == along else d for at, d in enumerate(shape)]
    if any(e is None or any(d not in (1, w) for d, w in zip(e.shape, wanted, strict=True)) for e in once):
        return None
    made = [constant(np.ascontiguousarray(e)) for e in once if e is not None]
    return build("nn.contrib_block_dequantize", codes, *made, bits=bits, axis=along, block_size=block)


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
    """Return ``x - zero_point`` in a data type that holds it; at once where both are constants of few elements.

    Passes know what larger constants are less others, and pack it as integers of 8 bits: until then these stay as they
    are, a quarter of what they are in int32.
    """
    known = ctx.static(x)
    zero = np.array(0) if zero_point is None else ctx.static(zero_point)
    if known is not None and zero is not None and known.size < _FEW:
        return constant((known.astype("int32") - zero.astype("int32")).astype(dtype))
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
