"""Conversions between element types, of values and of bits."""

from __future__ import annotations

from onnx import TensorProto

from .... import relay
from ....relay.ir import Expr
from ....relay.op import build
from ....values.element_types import is_stored_type
from ..context import Context
from ..dtype import dtype_name
from ..registry import converter

__all__ = ["casted"]


@converter("Cast")
def cast_by_name(ctx: Context, x: Expr, *, to: str) -> Expr:
    return casted(ctx, x, dtype_name(TensorProto.DataType.Value(to), "Cast"))


@converter("Cast", since=6)
def cast(ctx: Context, x: Expr, *, to: int, saturate: int = 1, round_mode: str = "up") -> Expr:
    return casted(ctx, x, dtype_name(to, "Cast"), saturate, round_mode)


@converter("CastLike", since=15)
def cast_like(ctx: Context, x: Expr, target: Expr, *, saturate: int = 1, round_mode: str = "up") -> Expr:
    return casted(ctx, x, ctx.dtype(target), saturate, round_mode)


def casted(ctx: Context, x: Expr, dtype: str, saturate: int = 1, round_mode: str = "up") -> Expr:
    """Return `x` converted as Cast does; a number is true when it is not 0."""
    own = ctx.dtype(x)
    if own == dtype:
        return x
    if "string" in (own, dtype):
        return _cast_string(ctx, x, dtype)
    # What Relay's cast would make otherwise: conditions of floats, and bfloat16 of what is no number.
    differs = own.startswith(("float", "bfloat")) and dtype in ("bool", "bfloat16")
    if differs or is_stored_type(own) or is_stored_type(dtype):
        return build("contrib_convert", x, dtype, bool(saturate), round_mode)
    return relay.not_equal(x, ctx.constant(0, own)) if dtype == "bool" else relay.cast(x, dtype)


# What texts are numbers of, on the way to what Cast is to give.
_READ_AS = {"int": "int64", "uint": "int64", "float": "float32", "bfloat": "float32"}


def _cast_string(ctx: Context, x: Expr, dtype: str) -> Expr:
    """Return numbers as texts or texts as numbers; types that are stored as others go by way of plain ones."""
    own = ctx.dtype(x)
    indirect = dtype if own == "string" else own
    if is_stored_type(indirect) or indirect == "bfloat16":
        between = _READ_AS[indirect.rstrip("0123456789").partition("_")[0].rstrip("0123456789e")]
        return casted(ctx, casted(ctx, x, between), dtype)
    if dtype == "string":
        return build("contrib_string_from_number", x)
    return build("contrib_string_to_number", x, dtype)


@converter("BitCast", since=26)
def bit_cast(ctx: Context, x: Expr, *, to: int) -> Expr:
    """Bits of another type: what is stored of the input is made unsigned, and taken as what is stored of the result."""
    own, dtype = ctx.dtype(x), dtype_name(to, "BitCast")
    if "string" in (own, dtype):
        ctx.fail("strings have no bits of a fixed number")
    if _bits(own) != _bits(dtype):
        ctx.fail(f"{own} has {_bits(own)} bits and {dtype} has {_bits(dtype)}; they must be as many")
    if own == dtype:
        return x
    return _from_bits(ctx, _to_bits(ctx, x), dtype)


def _bits(dtype: str) -> int:
    if dtype == "bool":
        return 8
    digits = dtype.removeprefix("b").removeprefix("u").lstrip("floatin")
    return int(digits.partition("_")[0])


def _to_bits(ctx: Context, x: Expr) -> Expr:
    """Return the bits of every element as an unsigned integer of as many bits, and at least 8."""
    dtype = ctx.dtype(x)
    if dtype == "bool":
        return relay.cast(x, "uint8")
    if is_stored_type(dtype):
        x = build("contrib_to_stored", x)
    if dtype in ("int2", "int4"):
        return relay.bitwise_and(relay.cast(x, "uint8"), ctx.constant((1 << _bits(dtype)) - 1, "uint8"))
    unsigned = f"uint{max(_bits(dtype), 8)}"
    return x if ctx.dtype(x) == unsigned else relay.reinterpret(x, unsigned)


def _from_bits(ctx: Context, bits: Expr, dtype: str) -> Expr:
    """Return the elements of a type that have bits."""
    if dtype == "bool":
        return relay.not_equal(bits, ctx.constant(0, "uint8"))
    if dtype in ("int2", "int4"):
        sign = ctx.constant(1 << (_bits(dtype) - 1), "int8")
        bits = relay.subtract(relay.bitwise_xor(relay.reinterpret(bits, "int8"), sign), sign)
    if is_stored_type(dtype):
        return build("contrib_from_stored", bits, dtype)
    return bits if ctx.dtype(bits) == dtype else relay.reinterpret(bits, dtype)
