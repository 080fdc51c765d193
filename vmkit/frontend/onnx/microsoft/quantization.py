"""onnxruntime's operators on quantised tensors, which are real operators between two steps of quantisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .... import relay
from ....relay.ir import Expr
from ..attention import Heads, split_heads
from ..context import Context
from ..operators.activation import softmax, softmax_of_matrix
from ..operators.conversion import casted
from ..operators.pooling import average_pool
from ..operators.product import gemm
from ..operators.quantization import dynamic_quantize_linear, factor_products
from ..quantization import along_axis, dequantized, exact_product, multiplied, quantized
from ..registry import converter
from ..window import Window
from .attention import HIDDEN, columns_of, with_past

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


def _between(
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


@converter("QLinearSigmoid", domain=_MICROSOFT)
def qlinear_sigmoid(
    ctx: Context, x: Expr, x_scale: Expr, x_zero: Expr | None, y_scale: Expr, y_zero: Expr | None = None
) -> Expr:
    return _between(ctx, lambda v: relay.sigmoid(v), x, x_scale, x_zero, y_scale, y_zero)


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
    return _between(ctx, lambda v: relay.nn.leaky_relu(v, alpha), x, x_scale, x_zero, y_scale, y_zero)


def _channels_last(ctx: Context, compute: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """Return a function of a tensor of batch, channels, spatial as one of a tensor whose channels come last."""

    def moved(x: Expr) -> Expr:
        rank = ctx.rank(x)
        result = compute(relay.transpose(x, [0, rank - 1, *range(1, rank - 1)]))
        return relay.transpose(result, [0, *range(2, rank), 1])

    return moved


@converter("QLinearGlobalAveragePool", domain=_MICROSOFT)
def qlinear_global_average_pool(
    ctx: Context,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr | None,
    y_scale: Expr,
    y_zero: Expr | None = None,
    *,
    channels_last: int = 0,
) -> Expr:
    rank = ctx.rank(x)
    axes = list(range(1, rank - 1)) if channels_last else list(range(2, rank))
    return _between(ctx, lambda v: relay.mean(v, axis=axes, keepdims=True), x, x_scale, x_zero, y_scale, y_zero)


@converter("QLinearAveragePool", domain=_MICROSOFT, without=("dilations",))
def qlinear_average_pool(
    ctx: Context,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr | None,
    y_scale: Expr,
    y_zero: Expr | None = None,
    *,
    window: Window,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    channels_last: int = 0,
) -> Expr:
    def pooled(value: Expr) -> Expr:
        return average_pool(ctx, value, window=window, ceil_mode=ceil_mode, count_include_pad=count_include_pad)

    compute = _channels_last(ctx, pooled) if channels_last else pooled
    return _between(ctx, compute, x, x_scale, x_zero, y_scale, y_zero)


@converter("QLinearReduceMean", domain=_MICROSOFT)
def qlinear_reduce_mean(
    ctx: Context,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr | None,
    y_scale: Expr,
    y_zero: Expr | None = None,
    *,
    axes: Sequence[int],
    keepdims: int,
) -> Expr:
    chosen = [ctx.axis(axis, ctx.rank(x)) for axis in axes]
    return _between(
        ctx, lambda v: relay.mean(v, axis=chosen, keepdims=bool(keepdims)), x, x_scale, x_zero, y_scale, y_zero
    )


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
    chosen = relay.where(condition, dequantized(ctx, x, x_scale, x_zero), dequantized(ctx, y, y_scale, y_zero))
    return quantized(ctx, chosen, z_scale, z_zero, ctx.dtype(z_zero))


@converter("QAttention", domain=_MICROSOFT)
def qattention(
    ctx: Context,
    x: Expr,
    weights: Expr,
    bias: Expr,
    x_scale: Expr,
    w_scale: Expr,
    mask: Expr | None = None,
    x_zero: Expr | None = None,
    w_zero: Expr | None = None,
    past: Expr | None = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    mask_filter_value: float = HIDDEN,
    past_present_share_buffer: int = 0,
    scale: float | None = None,
    unidirectional: int = 0,
) -> list[Expr | None]:
    """Query, key and value are made by a product of integers; the rest is computed in floats."""
    if do_rotary or past_present_share_buffer:
        ctx.fail("do_rotary and past_present_share_buffer are not supported")
    total = factor_products(ctx, x, weights, x_zero, w_zero)
    packed = relay.add(multiplied(ctx, total, (x_scale, None), (w_scale, None)), bias)
    query, key, value = (split_heads(ctx, part, num_heads) for part in columns_of(ctx, packed))
    return with_past(
        ctx, Heads(query, key, value), past, scale, mask, mask_filter_value, is_causal=bool(unidirectional)
    )


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
