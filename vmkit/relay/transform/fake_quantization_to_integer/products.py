"""Rules of convolutions and products of matrices: the scale of the result is the product of the operands' scales."""

from __future__ import annotations

from ....errors import UnsupportedOperatorError
from ...ir import AffineType, Call, Constant, RelayExpr, TensorAffineType
from ...op.attached import register_fake_quantization_to_integer
from ...op.nn.layout import axes_of
from ...op.registry import build, entry
from .affine import (
    TypeMap,
    affine_equal,
    attributes,
    get_zeros,
    is_per_tensor,
    is_zero,
    rank_of,
    requantized,
    with_scale,
)
from .pairs import fitting_type, quantized_constant, quantized_sum

__all__: list[str] = []


def _product(name: str, expr: Call, types: TypeMap, axis: int) -> list[RelayExpr | AffineType]:
    """Return the quantised operator in the place of a product, whose channels lie along an axis of the result."""
    (x, w), (x_t, w_t) = expr.args, [types[a] for a in expr.args]
    operands = x, w, x_t.zero_point, w_t.zero_point, x_t.scale, w_t.scale
    out = entry(name).call(*operands, **attributes(expr) | {"out_dtype": "int32"})
    scale = with_scale(x_t.scale, w_t.scale)
    return [out, TensorAffineType(scale, get_zeros(scale), "int32", axis)]


def _convolution(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
    attrs, w_t = expr.attrs, types[expr.args[1]]
    kernel = axes_of(attrs.kernel_layout)
    # The channels of a depthwise convolution may stand along I.
    if not is_per_tensor(w_t) and kernel[w_t.axis % len(kernel)] not in ("O" if attrs.groups == 1 else "OI"):
        raise UnsupportedOperatorError(f"{expr.op.name} with scales of the kernel along another axis than its channels")
    channels = axes_of(attrs.out_layout or attrs.data_layout).index("C")
    return _product(f"qnn.{expr.op.name.removeprefix('nn.')}", expr, types, channels)


register_fake_quantization_to_integer("nn.conv2d", _convolution)
register_fake_quantization_to_integer("nn.conv2d_transpose", _convolution)


@register_fake_quantization_to_integer("nn.dense")
def _dense(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
    w_t = types[expr.args[1]]
    if not is_per_tensor(w_t) and w_t.axis % 2 != 0:
        raise UnsupportedOperatorError("nn.dense with scales of the weight along another axis than its units")
    return _product("qnn.dense", expr, types, rank_of(expr.args[0]) - 1)


@register_fake_quantization_to_integer("nn.batch_matmul")
def _batch_matmul(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
    return _product("qnn.batch_matmul", expr, types, types[expr.args[0]].axis)


@register_fake_quantization_to_integer("nn.bias_add")
def _bias_add(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
    x, bias = expr.args
    x_t, rank = types[x], rank_of(x)
    axis = expr.attrs.axis % rank
    if not is_per_tensor(x_t) and x_t.axis % rank != axis:
        raise UnsupportedOperatorError("nn.bias_add along another axis than that of the scales")
    # The affine type of the data, for a vector along its axis.
    wanted = TensorAffineType(x_t.scale, x_t.zero_point, x_t.dtype, 0)
    b_t = types.get(bias)
    if x_t.dtype == "int32" and is_zero(x_t.zero_point):
        if b_t is None:
            bias = quantized_constant(expr, bias, wanted)
        elif not affine_equal(TensorAffineType(b_t.scale, b_t.zero_point, b_t.dtype, 0), wanted):
            bias = _rescaled(bias, b_t, wanted)
        return [entry("nn.bias_add").call(x, bias, axis=expr.attrs.axis), x_t]
    # A sum of narrow integers, or with zero points, is no sum of the integers themselves.
    if b_t is None:
        b_t = fitting_type(bias, wanted) if isinstance(bias, Constant) and is_per_tensor(wanted) else wanted
        bias = quantized_constant(expr, bias, b_t)
    if axis != rank - 1:
        bias = build("expand_dims", bias, axis=1, num_newaxis=rank - 1 - axis)
        b_t = TensorAffineType(b_t.scale, b_t.zero_point, b_t.dtype, 0)
    return quantized_sum("qnn.add", (x, bias), (x_t, b_t), types[expr])


def _rescaled(bias: RelayExpr, source: TensorAffineType, wanted: TensorAffineType) -> RelayExpr:
    if is_per_tensor(wanted):
        return requantized(bias, TensorAffineType(source.scale, source.zero_point, source.dtype, 0), wanted)
    reals = build("qnn.dequantize", bias, source.scale, source.zero_point, axis=0)
    return build("qnn.quantize", reals, wanted.scale, wanted.zero_point, axis=0, out_dtype=wanted.dtype)
