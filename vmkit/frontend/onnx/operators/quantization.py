"""Quantised tensors: to them, from them, and products of them."""

from __future__ import annotations

from collections.abc import Sequence

from .... import relay
from ....relay.ir import Expr
from ....values.element_types import is_stored_type
from ..context import Context
from ..dtype import dtype_name
from ..quantization import along_axis, block_dequantized, dequantized, exact_product, multiplied, quantized
from ..registry import converter
from ..window import ConvolutionWindow
from .conversion import casted
from .convolution import conv
from .product import matmul

__all__ = ["convolved", "factor_products"]


@converter("QuantizeLinear")
@converter("QuantizeLinear", domain="com.microsoft")
def quantize_linear(
    ctx: Context,
    x: Expr,
    scale: Expr,
    zero_point: Expr | None = None,
    *,
    axis: int = 1,
    saturate: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
) -> Expr:
    dtype = dtype_name(output_dtype, "output_dtype") if output_dtype else "uint8"
    if zero_point is not None:
        dtype = ctx.dtype(zero_point)
        if output_dtype and dtype_name(output_dtype, "output_dtype") != dtype:
            ctx.fail(f"output_dtype is {dtype_name(output_dtype, 'output_dtype')}, but the zero point is {dtype}")
        zero_point = along_axis(ctx, zero_point, x, axis, block_size)
    scale = along_axis(ctx, scale, x, axis, block_size)
    divided = dtype_name(precision, "precision") if precision else _common(ctx.dtype(x), ctx.dtype(scale))
    return quantized(ctx, x, scale, zero_point, dtype, divided, saturate=bool(saturate))


def _common(data: str, scale: str) -> str:
    """Return the data type of a division, as wide as both operands are."""
    halves = ("float16", "bfloat16")
    return scale if data == scale and data in halves else "float32"


@converter("DequantizeLinear")
@converter("DequantizeLinear", domain="com.microsoft")
def dequantize_linear(
    ctx: Context,
    x: Expr,
    scale: Expr,
    zero_point: Expr | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Expr:
    own = ctx.dtype(scale)
    dtype = dtype_name(output_dtype, "output_dtype") if output_dtype else own
    if is_stored_type(dtype):
        ctx.fail(f"output_dtype is needed where the scale is {own}")
    kept = block_dequantized(ctx, x, scale, zero_point, axis, block_size)
    if kept is not None:
        return casted(ctx, kept, dtype)
    zero = None if zero_point is None else along_axis(ctx, zero_point, x, axis, block_size)
    return dequantized(ctx, x, along_axis(ctx, scale, x, axis, block_size), zero, dtype)


@converter("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(ctx: Context, x: Expr) -> Sequence[Expr]:
    """The scale maps the range of the values, 0 included, to that of uint8."""
    zero = ctx.constant(0, "float32")
    largest = relay.maximum(relay.max(x), zero)
    least = relay.minimum(relay.min(x), zero)
    step = relay.divide(relay.subtract(largest, least), ctx.constant(255, "float32"))
    scale = relay.where(relay.equal(largest, least), ctx.constant(1, "float32"), step)
    zero_point = quantized(ctx, relay.subtract(zero, least), scale, None, "uint8")
    return quantized(ctx, x, scale, zero_point, "uint8"), scale, zero_point


def _by_row(ctx: Context, value: Expr | None) -> Expr | None:
    """Return what belongs to the rows of a matrix in a shape that is broadcast with it."""
    return relay.expand_dims(value, 1) if value is not None and ctx.rank(value) == 1 else value


def factor_products(ctx: Context, a: Expr, b: Expr, a_zero: Expr | None, b_zero: Expr | None) -> Expr:
    """Return the product of matrices of integers of 8 bits, each less its zero point, as int32."""
    for value in (a, b):
        if ctx.dtype(value) not in ("int8", "uint8"):
            ctx.fail(f"the factors must be int8 or uint8, not {ctx.type(value)}")
    return exact_product(ctx, lambda p, q: matmul(ctx, p, q), (a, _by_row(ctx, a_zero)), (b, b_zero))


@converter("MatMulInteger", since=10)
def matmul_integer(ctx: Context, a: Expr, b: Expr, a_zero: Expr | None = None, b_zero: Expr | None = None) -> Expr:
    return factor_products(ctx, a, b, a_zero, b_zero)


@converter("QLinearMatMul", since=10)
def qlinear_matmul(
    ctx: Context,
    a: Expr,
    a_scale: Expr,
    a_zero: Expr,
    b: Expr,
    b_scale: Expr,
    b_zero: Expr,
    y_scale: Expr,
    y_zero: Expr,
) -> Expr:
    dtype = ctx.dtype(y_zero)
    by_row = _by_row(ctx, a_scale)
    assert by_row is not None
    if ctx.dtype(a).startswith("float"):
        product = matmul(ctx, casted(ctx, a, "float32"), casted(ctx, b, "float32"))
    else:
        product = factor_products(ctx, a, b, a_zero, b_zero)
    scaled = multiplied(ctx, product, (by_row, None), (b_scale, _by_row(ctx, y_scale)))
    return quantized(ctx, scaled, None, _by_row(ctx, y_zero), dtype)


def convolved(
    ctx: Context, x: Expr, w: Expr, x_zero: Expr | None, w_zero: Expr | None, window: ConvolutionWindow
) -> Expr:
    """Return the convolution of integers of 8 bits, each less its zero point, as int32; what is padded is 0."""
    if w_zero is not None:
        w_zero = along_axis(ctx, w_zero, w, 0)
    x_zero = None if x_zero is None else along_axis(ctx, x_zero, x, 1)
    return exact_product(ctx, lambda p, q: conv(ctx, p, q, window=window), (x, x_zero), (w, w_zero))


@converter("ConvInteger", since=10)
def conv_integer(
    ctx: Context,
    x: Expr,
    w: Expr,
    x_zero: Expr | None = None,
    w_zero: Expr | None = None,
    *,
    window: ConvolutionWindow,
) -> Expr:
    return convolved(ctx, x, w, x_zero, w_zero, window)


@converter("QLinearConv", since=10)
def qlinear_conv(
    ctx: Context,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr,
    w: Expr,
    w_scale: Expr,
    w_zero: Expr,
    y_scale: Expr,
    y_zero: Expr,
    bias: Expr | None = None,
    *,
    window: ConvolutionWindow,
) -> Expr:
    total = convolved(ctx, x, w, x_zero, w_zero, window)
    if bias is not None:
        total = relay.nn.bias_add(total, bias, axis=1)
    x_scale, y_scale, y_zero = (along_axis(ctx, v, total, 1) for v in (x_scale, y_scale, y_zero))
    scaled = multiplied(ctx, total, (x_scale, None), (along_axis(ctx, w_scale, total, 1), y_scale))
    return quantized(ctx, scaled, None, y_zero, ctx.dtype(y_zero))
