"""Rows of tables that are packed as ggml packs weights: blocks of codes of a few bits behind a scale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Expr
from ..context import Context
from ..dtype import dtype_name
from ..known import constant
from ..operators.conversion import casted
from ..registry import converter
from ..run_time_axes import size_along

_FLOAT = "float32"
# What the codes of IQ4_NL and IQ4_XS stand for.
_UNEVEN = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


@dataclass(frozen=True)
class _Blocks:
    """Bytes of blocks: uint8 (..., bytes of a block)."""

    ctx: Context
    data: Expr

    def part(self, first: int, end: int) -> Expr:
        """Return some bytes of every block."""
        return relay.strided_slice(self.data, [first], [end], [1], axes=[self.ctx.rank(self.data) - 1])

    def number(self, first: int, count: int) -> Expr:
        """Return so many bytes, the lowest first, as one unsigned integer: (..., 1)."""
        dtype = f"uint{8 * count}"
        whole = relay.cast(self.part(first, first + 1), dtype)
        for i in range(1, count):
            byte = relay.cast(self.part(first + i, first + i + 1), dtype)
            whole = relay.bitwise_or(whole, relay.left_shift(byte, self.ctx.constant(8 * i, dtype)))
        return whole

    def half(self, first: int) -> Expr:
        """Return the float16 at a place, as float32: (..., 1)."""
        return relay.cast(relay.reinterpret(self.number(first, 2), "float16"), _FLOAT)

    def signed(self, first: int, end: int) -> Expr:
        """Return bytes as numbers with a sign."""
        return relay.cast(relay.reinterpret(self.part(first, end), "int8"), _FLOAT)

    def bits(self, codes: Expr, count: int, by: int) -> Expr:
        """Return parts of bytes, each shifted by one more multiple of `by`: (..., count, bytes)."""
        shifts = self.ctx.constant(np.arange(count)[:, None] * by, self.ctx.dtype(codes))
        mask = self.ctx.constant((1 << by) - 1, self.ctx.dtype(codes))
        rank = self.ctx.rank(codes)
        return relay.bitwise_and(relay.right_shift(relay.expand_dims(codes, rank - 1), shifts), mask)

    def under(self, x: Expr, *shape: int) -> Expr:
        """Return a tensor with other dimensions for each block."""
        return relay.reshape(x, [0] * (self.ctx.rank(self.data) - 1) + list(shape), allowzero=False)


def _scaled(codes: Expr, scale: Expr) -> Expr:
    return relay.multiply(relay.cast(codes, _FLOAT), scale)


def _less(ctx: Context, codes: Expr, middle: int) -> Expr:
    return relay.subtract(relay.cast(codes, _FLOAT), ctx.constant(middle, _FLOAT))


def _f32(b: _Blocks) -> Expr:
    return relay.reinterpret(b.number(0, 4), _FLOAT)


def _f16(b: _Blocks) -> Expr:
    return b.half(0)


def _bf16(b: _Blocks) -> Expr:
    wide = relay.left_shift(relay.cast(b.number(0, 2), "uint32"), b.ctx.constant(16, "uint32"))
    return relay.reinterpret(wide, _FLOAT)


def _q4_0(b: _Blocks) -> Expr:
    return _scaled(_less(b.ctx, b.under(b.bits(b.part(2, 18), 2, 4), 32), 8), b.half(0))


def _q5_0(b: _Blocks) -> Expr:
    low = b.under(b.bits(b.part(6, 22), 2, 4), 32)
    high = b.bits(b.under(b.part(2, 6), 4, 1), 8, 1)
    code = relay.bitwise_or(low, relay.left_shift(b.under(high, 32), b.ctx.constant(4, "uint8")))
    return _scaled(_less(b.ctx, code, 16), b.half(0))


def _q8_0(b: _Blocks) -> Expr:
    return _scaled(b.signed(2, 34), b.half(0))


def _q2_0(b: _Blocks) -> Expr:
    codes = b.bits(b.under(b.part(2, 18), 16, 1), 4, 2)
    return _scaled(_less(b.ctx, b.under(codes, 64), 1), b.half(0))


def _q5_k(b: _Blocks) -> Expr:
    """Eight parts of 32 codes, each with a scale and a least value of six bits, which lie in twelve bytes."""
    ctx, low, high = b.ctx, b.part(12, 16), b.ctx.constant(4, "uint8")
    four, six = (ctx.constant((1 << n) - 1, "uint8") for n in (4, 6))

    def sixes(first: Expr, rest: Expr) -> Expr:
        top = relay.left_shift(relay.right_shift(first, ctx.constant(6, "uint8")), high)
        return relay.concatenate([relay.bitwise_and(first, six), relay.bitwise_or(rest, top)], -1)

    scales = sixes(b.part(4, 8), relay.bitwise_and(low, four))
    least = sixes(b.part(8, 12), relay.right_shift(low, high))
    codes = b.under(b.bits(b.under(b.part(48, 176), 4, 32), 2, 4), 8, 32)
    codes = relay.bitwise_or(codes, relay.left_shift(b.bits(b.part(16, 48), 8, 1), high))
    factor, offset = (b.under(_scaled(v, b.half(at)), 8, 1) for v, at in ((scales, 0), (least, 2)))
    return b.under(relay.subtract(_scaled(codes, factor), offset), 256)


def _q6_k(b: _Blocks) -> Expr:
    """Sixteen parts of 16 codes, each with a scale of eight bits; two bits of a code lie apart."""
    low = b.under(b.bits(b.under(b.part(0, 128), 2, 64), 2, 4), 2, 4, 32)
    high = b.bits(b.under(b.part(128, 192), 2, 32), 4, 2)
    code = relay.bitwise_or(low, relay.left_shift(high, b.ctx.constant(4, "uint8")))
    scales = b.under(_scaled(b.signed(192, 208), b.half(208)), 16, 1)
    return b.under(relay.multiply(b.under(_less(b.ctx, code, 32), 16, 16), scales), 256)


def _uneven(codes: Expr) -> Expr:
    return relay.take(constant(np.array(_UNEVEN, _FLOAT)), relay.cast(codes, "int32"), axis=0)


def _iq4_nl(b: _Blocks) -> Expr:
    return _scaled(_uneven(b.under(b.bits(b.part(2, 18), 2, 4), 32)), b.half(0))


def _iq4_xs(b: _Blocks) -> Expr:
    """Eight parts of 32 codes, each with a scale of six bits, two of which lie apart."""
    low = b.under(b.bits(b.under(b.part(4, 8), 4, 1), 2, 4), 8)
    high = relay.cast(b.under(b.bits(b.number(2, 2), 8, 2), 8), "uint8")
    scale = _less(b.ctx, relay.bitwise_or(low, relay.left_shift(high, b.ctx.constant(4, "uint8"))), 32)
    codes = b.under(b.bits(b.under(b.part(8, 136), 8, 16), 2, 4), 8, 32)
    factor = b.under(_scaled(scale, b.half(0)), 8, 1)
    return b.under(_scaled(_uneven(codes), factor), 256)


@dataclass(frozen=True)
class _Format:
    """How many elements a block has, how many bytes, and what they are."""

    elements: int
    bytes: int
    values: Callable[[_Blocks], Expr]


# By ggml's number of each.
_FORMATS = {
    0: _Format(1, 4, _f32),
    1: _Format(1, 2, _f16),
    2: _Format(32, 18, _q4_0),
    6: _Format(32, 22, _q5_0),
    8: _Format(32, 34, _q8_0),
    13: _Format(256, 176, _q5_k),
    14: _Format(256, 210, _q6_k),
    20: _Format(32, 18, _iq4_nl),
    23: _Format(256, 136, _iq4_xs),
    30: _Format(1, 2, _bf16),
    42: _Format(64, 18, _q2_0),
}
_BY_GRID = {16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 22: "IQ2_S"}


@converter("GatherPacked", domain="com.microsoft")
def gather_packed(ctx: Context, data: Expr, indices: Expr, *, K: int, packed_type: int, output_dtype: int = 16) -> Expr:
    """Rows of a table (rows, bytes), made real after they are gathered; an index that is no row's gives the first."""
    if packed_type in _BY_GRID:
        ctx.fail(
            f"packed_type is {packed_type} ({_BY_GRID[packed_type]}), whose codes are places in a grid, which is not "
            "supported; pack the table as Q4_0 (2), IQ4_XS (23) or Q2_0 (42)"
        )
    found = _FORMATS.get(packed_type)
    if found is None:
        ctx.fail(f"packed_type is {packed_type}; supported are {', '.join(map(str, _FORMATS))}")
    blocks, rest = divmod(K, found.elements)
    width = ctx.shape(data)[1]
    if K < 1 or rest or (isinstance(width, int) and width != blocks * found.bytes):
        ctx.fail(
            f"K is {K}, and rows are {ctx.type(data)}; blocks have {found.elements} elements in {found.bytes} bytes"
        )
    index = casted(ctx, indices, "int64")
    zero, rank = ctx.constant(0, "int64"), ctx.rank(indices)
    is_row = relay.logical_and(relay.greater_equal(index, zero), relay.less(index, size_along(ctx, data, 0)))
    rows = relay.take(data, relay.where(is_row, index, zero), axis=0)
    parts = _Blocks(ctx, relay.reshape(rows, [0] * rank + [blocks, found.bytes], allowzero=False))
    real = relay.reshape(found.values(parts), [0] * rank + [K], allowzero=False)
    return casted(ctx, real, dtype_name(output_dtype, "GatherPacked"))
