"""onnxruntime's operators on quantised tensors, which are real operators between two steps of quantisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..known import constant
from ..operators.activation import softmax, softmax_of_matrix
from ..operators.conversion import casted
from ..operators.product import gemm
from ..operators.quantization import dynamic_quantize_linear, factor_products
from ..quantization import along_axis, dequantized, exact_product, multiplied, quantized
from ..registry import converter

__all__ = ["between"]

_MICROSOFT = "com.microsoft"


def _binary(op_type: str, name: str) -> None:
    @converter(op_type, domain=_MICROSOFT)
    def convert(
        ctx: Context,
        a: Expr,
        a_scale: Expr,
        a_zero: Expr | None,
        b: Expr,
        b_scale: Expr,
        b_zero: Expr | None,
        y_scale: Expr,
        y_zero: Expr | None = None,
    ) -> Expr:
        operands = dequantized(ctx, a, a_scale, a_zero), dequantized(ctx, b, b_scale, b_zero)
        result = relay.add(*operands) if name == "add" else relay.multiply(*operands)
        return quantized(ctx, result, y_scale, y_zero, ctx.dtype(a))


_binary("QLinearAdd", "add")
_binary("QLinearMul", "multiply")


def between(
    ctx: Context,
    compute: Callable[[Expr], Expr],
    x: Expr,
    x_scale: Expr,
    x_zero: Expr | None,
    y_scale: Expr,
    y_zero: Expr | None,
) -> Expr:
    """Return a function of a quantised tensor, quantised again."""
    return quantized(ctx, compute(dequantized(ctx, x, x_scale, x_zero)), y_scale, y_zero, ctx.dtype(x))


def _looked_up(ctx: Context, compute: Callable[[Expr], Expr], x: Expr, *numbers: Expr | None) -> Expr:
    """Return a function of each number by itself: of bytes by a table of 256, where all other numbers are known."""
    dtype = ctx.dtype(x)
    if dtype not in ("uint8", "int8") or any(v is not None and ctx.static(v) is None for v in numbers):
        return compute(x)
    # Constants are folded to the 256 results.
    table = compute(constant(np.arange(256, dtype="uint8").view(dtype)))
    index = x if dtype == "uint8" else relay.reinterpret(x, "uint8")
    return relay.take(table, relay.cast(index, "int32"), axis=0, mode="fast")


@converter("QLinearSigmoid", domain=_MICROSOFT)
def qlinear_sigmoid(
    ctx: Context, x: Expr, x_scale: Expr, x_zero: Expr | None, y_scale: Expr, y_zero: Expr | None = None
) -> Expr:
    numbers = (x_scale, x_zero, y_scale, y_zero)
    return _looked_up(ctx, lambda v: between(ctx, relay.sigmoid, v, *numbers), x, *numbers)


@converter("QLinearLeakyRelu", domain=_MICROSOFT)
def qlinear_leaky_relu(
    ctx: Context,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr | None,
    y_scale: Expr,
    y_zero: Expr | None = None,
    *,
    alpha: float = 0.01,
) -> Expr:
    numbers = (x_scale, x_zero, y_scale, y_zero)
    return _looked_up(ctx, lambda v: between(ctx, lambda f: relay.nn.leaky_relu(f, alpha), v, *numbers), x, *numbers)


@converter("QLinearReduceMean", domain=_MICROSOFT)
def qlinear_reduce_mean(
    ctx: Context,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr | None,
    y_scale: Expr,
    y_zero: Expr | None = None,
    *,
    axes: Sequence[int] | None = None,
    keepdims: int = 1,
) -> Expr:
    over = [ctx.axis(a, ctx.rank(x)) for a in axes] if axes else None
    return between(ctx, lambda v: relay.mean(v, over, keepdims=bool(keepdims)), x, x_scale, x_zero, y_scale, y_zero)


@converter("QLinearWhere", domain=_MICROSOFT)
def qlinear_where(
    ctx: Context,
    condition: Expr,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr,
    y: Expr,
    y_scale: Expr,
    y_zero: Expr,
    z_scale: Expr,
    z_zero: Expr,
) -> Expr:
    """Each of both is quantised anew on its own, so that a broadcast one is not computed for every element."""

    def anew(value: Expr, scale: Expr, zero: Expr) -> Expr:
        numbers = (scale, zero, z_scale, z_zero)
        return _looked_up(ctx, lambda v: between(ctx, lambda f: f, v, *numbers), value, *numbers)

    return relay.where(condition, anew(x, x_scale, x_zero), anew(y, y_scale, y_zero))


@converter("QLinearConcat", domain=_MICROSOFT)
def qlinear_concat(ctx: Context, y_scale: Expr, y_zero: Expr, *inputs: Expr, axis: int) -> Expr:
    if len(inputs) % 3:
        ctx.fail(
            f"{len(inputs)} inputs follow the result's scale and zero point; each tensor needs a scale and zero point"
        )
    tensors = zip(inputs[::3], inputs[1::3], inputs[2::3], strict=True)
    parts = [dequantized(ctx, x, scale, zero_point) for x, scale, zero_point in tensors]
    at = ctx.axis(axis, ctx.rank(parts[0]))
    return quantized(ctx, relay.concatenate(parts, at), y_scale, y_zero, ctx.dtype(y_zero))


@converter("QLinearSoftmax", domain=_MICROSOFT)
def qlinear_softmax(
    ctx: Context,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr | None,
    y_scale: Expr,
    y_zero: Expr,
    *,
    axis: int = -1,
    opset: int,
) -> Expr:
    """The result is in steps of one over a whole number: onnxruntime rounds 1 / y_scale down."""
    compute = softmax if opset >= 13 else softmax_of_matrix
    reals = compute(ctx, dequantized(ctx, x, x_scale, x_zero), axis=axis)
    steps = relay.floor(relay.divide(ctx.constant(1.0, "float32"), y_scale))
    return quantized(ctx, relay.multiply(reals, steps), None, y_zero, ctx.dtype(y_zero))


@converter("QGemm", domain=_MICROSOFT)
def qgemm(
    ctx: Context,
    a: Expr,
    a_scale: Expr,
    a_zero: Expr,
    b: Expr,
    b_scale: Expr,
    b_zero: Expr,
    c: Expr | None = None,
    y_scale: Expr | None = None,
    y_zero: Expr | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Expr:
    """A bias is an int32 in steps of ``alpha * a_scale * b_scale``; without y_scale the result is a float32."""
    zero = along_axis(ctx, b_zero, b, 0 if transB else 1)
    operands = (a, a_zero), (b, zero)
    total = exact_product(ctx, lambda p, q: gemm(ctx, p, q, transA=transA, transB=transB), *operands)
    if c is not None:
        total = relay.add(total, c)
    scales = [(ctx.constant(alpha, "float32"), None), (a_scale, None), (along_axis(ctx, b_scale, total, 1), y_scale)]
    scaled = multiplied(ctx, total, *scales)
    if y_scale is None:
        return scaled
    return quantized(ctx, scaled, None, y_zero, ctx.dtype(a if y_zero is None else y_zero))


@converter("MatMulIntegerToFloat", domain=_MICROSOFT)
def matmul_integer_to_float(
    ctx: Context,
    a: Expr,
    b: Expr,
    a_scale: Expr,
    b_scale: Expr,
    a_zero: Expr | None = None,
    b_zero: Expr | None = None,
    bias: Expr | None = None,
) -> Expr:
    total = factor_products(ctx, a, b, a_zero, b_zero)
    scaled = multiplied(ctx, total, (a_scale, None), (b_scale, None))
    real = casted(ctx, scaled, ctx.dtype(a_scale))
    return real if bias is None else relay.add(real, bias)


@converter("DynamicQuantizeMatMul", domain=_MICROSOFT)
def dynamic_quantize_matmul(
    ctx: Context, a: Expr, b: Expr, b_scale: Expr, b_zero: Expr | None = None, bias: Expr | None = None
) -> Expr:
    quantum, scale, zero = dynamic_quantize_linear(ctx, a)
    return matmul_integer_to_float(ctx, quantum, b, scale, b_scale, zero, b_zero, bias)
