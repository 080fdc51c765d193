"""Rows of tables of a few bits, whose blocks share a scale and a zero point."""

from __future__ import annotations

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..operators.conversion import casted
from ..operators.layout import to_shape
from ..quantization import along_axis, dequantized
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
    count = relay.take(relay.shape_of(data, dtype="int64"), ctx.constant(at, "int64"), axis=0)
    index = casted(ctx, indices, "int64")
    index = relay.where(relay.less(index, ctx.constant(0, "int64")), relay.add(index, count), index)
    exists = relay.logical_and(relay.greater_equal(index, ctx.constant(0, "int64")), relay.less(index, count))
    rows = relay.take(data, index, axis=at)
    # Where blocks lie along the axis that is gathered, each index has its own.
    block = relay.floor_divide(index, ctx.constant(max(block_size, 1), "int64")) if at == along else index
    taken = [None if v is None else relay.take(v, block, axis=at) for v in (scales, zero_points)]
    scale, zero = taken
    assert scale is not None
    along += ctx.rank(indices) - 1 if along > at else 0
    if in_bytes and bits < 8:
        rows = _unpacked(ctx, rows, bits)
        zero = None if zero is None else relay.slice_like(_unpacked(ctx, zero, bits), scale, [ctx.rank(scale) - 1])
    if in_bytes and zero is None:
        zero = ctx.constant(1 << (bits - 1), "uint8")
    if at != along:
        scale, zero = (None if v is None else along_axis(ctx, v, rows, along, block_size) for v in (scale, zero))
        assert scale is not None
    real = dequantized(ctx, rows, scale, zero, ctx.dtype(scales))
    behind = rank - 1 - at
    kept = exists if behind == 0 else relay.expand_dims(exists, ctx.rank(exists), behind)
    return relay.where(kept, real, ctx.constant(0, ctx.dtype(scales)))


def _unpacked(ctx: Context, packed: Expr, bits: int) -> Expr:
    """Return the numbers in bytes, the lowest bits first, along the last axis."""
    *outer, width = ctx.shape(packed)
    if not isinstance(width, int):
        ctx.fail(f"the last dimension of {ctx.type(packed)} must be known at import")
    return to_shape(unpacked_bits(ctx, packed, bits), [*outer, width * (8 // bits)])
