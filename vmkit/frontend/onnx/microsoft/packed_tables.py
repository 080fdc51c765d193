"""Rows of tables of a few bits, whose blocks share a scale and a zero point."""

from __future__ import annotations

from .... import relay
from ....relay.ir import Expr, dims
from ....relay.op import build
from ..context import Context
from ..operators.conversion import casted
from ..operators.layout import to_shape
from ..quantization import along_axis, codes_of, dequantized
from ..registry import converter
from .packed_weights import unpacked_bits


@converter("GatherBlockQuantized", domain="com.microsoft")
def gather_block_quantized(
    ctx: Context,
    data: Expr,
    indices: Expr,
    scales: Expr,
    zero_points: Expr | None = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Expr:
    """What is gathered is made real after; an index that is no row's gives zeros, and a uint8 may hold several numbers.

    Without zero points they are 0, and in the middle of the range for what is kept in a uint8.
    """
    rank = ctx.rank(data)
    at, along = ctx.axis(gather_axis, rank), ctx.axis(quantize_axis, rank)
    in_bytes = ctx.dtype(data) == "uint8"
    if in_bytes and (bits not in (2, 4, 8) or at == along or (bits < 8 and at == rank - 1)):
        ctx.fail(f"bits is {bits}, gather_axis {at}, quantize_axis {along}; 2, 4 or 8 bits and two axes are needed")
    if in_bytes and zero_points is not None and bits < 8:
        zero_points = relay.slice_like(_unpacked(ctx, zero_points, bits), scales, [rank - 1])
    if not in_bytes and at not in (along, rank - 1):
        found = codes_of(ctx, data, zero_points)
        if found is not None:
            in_bytes, (data, zero_points, bits) = True, found
    count = relay.take(relay.shape_of(data, dtype="int64"), ctx.constant(at, "int64"), axis=0)
    index = casted(ctx, indices, "int64")
    index = relay.where(relay.less(index, ctx.constant(0, "int64")), relay.add(index, count), index)
    exists = relay.logical_and(relay.greater_equal(index, ctx.constant(0, "int64")), relay.less(index, count))
    rows = relay.take(data, index, axis=at)
    # Where blocks lie along the axis that is gathered, each index has its own.
    block = relay.floor_divide(index, ctx.constant(max(block_size, 1), "int64")) if at == along else index
    scale, zero = (None if v is None else _taken(ctx, v, block, at) for v in (scales, zero_points))
    assert scale is not None
    along += ctx.rank(indices) - 1 if along > at else 0
    if in_bytes:
        operands = [casted(ctx, scale, "float32"), *([] if zero is None else [zero])]
        made = build("nn.contrib_block_dequantize", rows, *operands, bits=bits, axis=along, block_size=block_size)
        real = casted(ctx, made, ctx.dtype(scales))
    else:
        if at != along:
            scale, zero = (None if v is None else along_axis(ctx, v, rows, along, block_size) for v in (scale, zero))
            assert scale is not None
        real = dequantized(ctx, rows, scale, zero, ctx.dtype(scales))
    behind = rank - 1 - at
    kept = exists if behind == 0 else relay.expand_dims(exists, ctx.rank(exists), behind)
    return relay.where(kept, real, ctx.constant(0, ctx.dtype(scales)))


def _taken(ctx: Context, once: Expr, index: Expr, at: int) -> Expr:
    """Return the scales or zero points of what is gathered; one that is of all is there with as many axes."""
    rest = ctx.shape(once)
    if all(dims.equal(d, 1) for d in rest):
        return relay.reshape(once, [1] * (len(rest) + ctx.rank(index) - 1))
    return relay.take(once, index, axis=at)


def _unpacked(ctx: Context, packed: Expr, bits: int) -> Expr:
    """Return the numbers in bytes, the lowest bits first, along the last axis."""
    *outer, width = ctx.shape(packed)
    if not isinstance(width, int):
        ctx.fail(f"the last dimension of {ctx.type(packed)} must be known at import")
    return to_shape(unpacked_bits(ctx, packed, bits), [*outer, width * (8 // bits)])
