"""Activation functions."""

from __future__ import annotations

from typing import Any

from .... import relay
from ....relay import formulas
from ....relay.ir import Expr, dims
from ..context import Context
from ..registry import converter
from ..run_time_axes import positions_along
from .conversion import casted
from .elementwise import binary
from .layout import as_matrix, to_shape
from .random import drawn_like


@converter("Relu")
def relu(ctx: Context, x: Expr, *, consumed_inputs: Any = None) -> Expr:
    return relay.nn.relu(x)


@converter("LeakyRelu")
def leaky_relu(ctx: Context, x: Expr, *, alpha: float = 0.01, consumed_inputs: Any = None) -> Expr:
    return relay.nn.leaky_relu(x, alpha)


@converter("PRelu")
def prelu(ctx: Context, x: Expr, slope: Expr, *, consumed_inputs: Any = None) -> Expr:
    if ctx.rank(slope) == 1 and ctx.rank(x) > 2 and ctx.version < 7:
        slope = relay.expand_dims(slope, 1, ctx.rank(x) - 2)
    zero = ctx.constant(0, ctx.dtype(x))
    return relay.where(relay.less(x, zero), relay.multiply(x, slope), x)


@converter("Elu")
def elu(ctx: Context, x: Expr, *, alpha: float = 1.0, consumed_inputs: Any = None) -> Expr:
    return _exponential(ctx, x, alpha)


@converter("Selu")
def selu(
    ctx: Context,
    x: Expr,
    *,
    alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
    consumed_inputs: Any = None,
) -> Expr:
    return binary(ctx, "multiply", _exponential(ctx, x, alpha), gamma)


@converter("Celu", since=12)
def celu(ctx: Context, x: Expr, *, alpha: float = 1.0) -> Expr:
    below = binary(ctx, "divide", binary(ctx, "minimum", x, 0), alpha)
    curve = binary(ctx, "multiply", binary(ctx, "subtract", relay.exp(below), 1), alpha)
    return relay.add(relay.nn.relu(x), curve)


def _exponential(ctx: Context, x: Expr, alpha: float) -> Expr:
    """Return x above 0 and alpha * (exp(x) - 1) below."""
    curve = binary(ctx, "multiply", binary(ctx, "subtract", relay.exp(binary(ctx, "minimum", x, 0)), 1), alpha)
    return relay.where(binary(ctx, "greater", x, 0), x, curve)


@converter("ThresholdedRelu")
def thresholded_relu(ctx: Context, x: Expr, *, alpha: float = 1.0) -> Expr:
    return relay.where(binary(ctx, "greater", x, alpha), x, ctx.constant(0, ctx.dtype(x)))


@converter("Softplus")
def softplus(ctx: Context, x: Expr) -> Expr:
    """log(1 + exp(x)), written so that a large x does not overflow and a small one is not lost beside the 1."""
    power = relay.exp(relay.negative(relay.abs(x)))
    whole = binary(ctx, "add", power, 1)
    lost = relay.subtract(power, binary(ctx, "subtract", whole, 1))
    return relay.add(relay.nn.relu(x), relay.add(relay.log(whole), relay.divide(lost, whole)))


@converter("Softsign")
def softsign(ctx: Context, x: Expr) -> Expr:
    return relay.divide(x, binary(ctx, "add", relay.abs(x), 1))


@converter("HardSigmoid")
def hard_sigmoid(ctx: Context, x: Expr, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: Any = None) -> Expr:
    line = binary(ctx, "add", binary(ctx, "multiply", x, alpha), beta)
    return binary(ctx, "minimum", binary(ctx, "maximum", line, 0), 1)


@converter("HardSwish", since=14)
def hard_swish(ctx: Context, x: Expr) -> Expr:
    return relay.multiply(x, hard_sigmoid(ctx, x, alpha=1 / 6, beta=0.5))


@converter("Mish", since=18)
def mish(ctx: Context, x: Expr) -> Expr:
    """x tanh(log(1 + exp(x))), which is x n / (n + 2) for n = exp(x) (exp(x) + 2), without the digits lost between."""
    # Beyond the limit the quotient is 1; in float16 n would overflow soon after.
    limit = 5 if ctx.dtype(x) == "float16" else 30
    power = relay.exp(binary(ctx, "minimum", x, limit))
    n = relay.multiply(power, binary(ctx, "add", power, 2))
    return relay.multiply(x, relay.divide(n, binary(ctx, "add", n, 2)))


@converter("Swish", since=24)
def swish(ctx: Context, x: Expr, *, alpha: float = 1.0) -> Expr:
    return relay.multiply(x, relay.sigmoid(binary(ctx, "multiply", x, alpha)))


@converter("SwiGLU", since=28)
def swiglu(ctx: Context, a: Expr, b: Expr, *, alpha: float = 1.0) -> Expr:
    shapes = [ctx.shape(a), ctx.shape(b)]
    if len(shapes[0]) != len(shapes[1]) or any(dims.equal(x, y) is False for x, y in zip(*shapes, strict=True)):
        ctx.fail(f"A and B must be of one shape, not {shapes[0]} and {shapes[1]}")
    return relay.multiply(swish(ctx, a, alpha=alpha), b)


@converter("Gelu", since=20)
def gelu(ctx: Context, x: Expr, *, approximate: str = "none") -> Expr:
    return (formulas.gelu_by_tanh if approximate == "tanh" else formulas.gelu)(x, ctx.dtype(x))


@converter("Shrink")
def shrink(ctx: Context, x: Expr, *, bias: float = 0.0, lambd: float = 0.5) -> Expr:
    zero = ctx.constant(0, ctx.dtype(x))
    above = relay.where(binary(ctx, "greater", x, lambd), binary(ctx, "subtract", x, bias), zero)
    return relay.where(binary(ctx, "less", x, -lambd), binary(ctx, "add", x, bias), above)


@converter("Softmax")
def softmax_of_matrix(ctx: Context, x: Expr, *, axis: int = 1) -> Expr:
    return as_matrix(ctx, x, axis, lambda matrix: relay.nn.softmax(matrix, axis=-1))


@converter("Softmax", since=13)
def softmax(ctx: Context, x: Expr, *, axis: int = -1) -> Expr:
    return relay.nn.softmax(x, axis=axis)


@converter("LogSoftmax")
def log_softmax_of_matrix(ctx: Context, x: Expr, *, axis: int = 1) -> Expr:
    return as_matrix(ctx, x, axis, lambda matrix: relay.nn.log_softmax(matrix, axis=-1))


@converter("LogSoftmax", since=13)
def log_softmax(ctx: Context, x: Expr, *, axis: int = -1) -> Expr:
    return relay.nn.log_softmax(x, axis=axis)


@converter("Hardmax")
def hardmax_of_matrix(ctx: Context, x: Expr, *, axis: int = 1) -> Expr:
    return as_matrix(ctx, x, axis, lambda matrix: hardmax(ctx, matrix, axis=-1))


@converter("Hardmax", since=13)
def hardmax(ctx: Context, x: Expr, *, axis: int = -1) -> Expr:
    """1 at the first maximum along the axis, 0 elsewhere."""
    at = ctx.axis(axis, ctx.rank(x))
    first = relay.argmax(x, axis=[at], keepdims=True)
    positions = positions_along(ctx, x, at, ctx.dtype(first))
    shape = [1] * ctx.rank(x)
    shape[at] = -1
    return relay.cast(relay.equal(relay.reshape(positions, shape), first), ctx.dtype(x))


@converter("Dropout")
def dropout_of_first_version(
    ctx: Context, x: Expr, *, ratio: float = 0.5, is_test: int = 0, consumed_inputs: Any = None
) -> list[Expr]:
    """Before opset 7 an attribute said whether the model is trained; what is run here is not."""
    return dropout(ctx, x, ratio=ratio)


@converter("Dropout", since=7)
def dropout(ctx: Context, x: Expr, *, ratio: float = 0.5) -> list[Expr]:
    if not ctx.wants(1):
        return [x]
    mask = relay.ones_like(x)
    return [x, mask if ctx.version < 10 else relay.cast(mask, "bool")]


@converter("Dropout", since=12)
def dropout_of_inputs(
    ctx: Context, x: Expr, ratio: Expr | None = None, training_mode: Expr | None = None, *, seed: int | None = None
) -> list[Expr]:
    training, share = ctx.scalar(training_mode), 0.5 if ratio is None else ctx.scalar(ratio)
    if training_mode is None or training is False or share == 0:
        return dropout(ctx, x)
    # As onnx.reference draws them; the same in every run, as the seed is. One that is left out may be any.
    drawn = casted(ctx, drawn_like(ctx, "uniform", seed or 0, x), "float32")
    dtype, one = ctx.dtype(x), ctx.constant(1, "float32")
    threshold = ctx.constant(0.5, "float32") if ratio is None else relay.cast(_scalar(ctx, ratio), "float32")
    kept = relay.greater_equal(drawn, threshold)
    # Where everything is dropped nothing is left to be scaled.
    rest = relay.subtract(one, threshold)
    scale = relay.where(relay.equal(rest, ctx.constant(0, "float32")), one, relay.divide(one, rest))
    dropped = relay.where(kept, relay.multiply(x, relay.cast(scale, dtype)), ctx.constant(0, dtype))
    if training is not None:
        return [dropped, kept]
    trains = _scalar(ctx, training_mode)
    return [relay.where(trains, dropped, x), relay.logical_or(kept, relay.logical_not(trains))]


def _scalar(ctx: Context, value: Expr) -> Expr:
    return to_shape(value, []) if ctx.rank(value) else value
