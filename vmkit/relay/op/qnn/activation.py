"""Quantised leaky_relu and softmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.expr import Expr, const
from ...ir.types import TensorType, Type
from ..axis import resolve_axis
from ..nn.activation import LeakyReluAttrs
from ..nn.softmax import SoftmaxAttrs
from ..registry import OpPattern, Parameters, build, operator
from .parameters import Parameter, Quantization, saturated, shifted
from .requantize import requantized, requantized_unless_equal
from .scaling import multiplier_and_shift
from .unary import PARAMETERS, require_quantized

__all__: list[str] = []


def _int(value: int) -> Expr:
    return const(value, "int32")


@operator(
    "qnn.leaky_relu",
    "x",
    *PARAMETERS,
    attrs=LeakyReluAttrs,
    level=11,
    pattern=OpPattern.ELEMWISE,
    parameters=Parameters(
        "x alpha input_scale input_zero_point output_scale output_zero_point",
        renamed={"input_scale": "scale", "input_zero_point": "zero_point"},
    ),
)
class LeakyRelu:
    """The quantised data where it is positive, else alpha times the data."""

    @staticmethod
    def relation(attrs: LeakyReluAttrs, x: Type, *parameters: Type) -> Type:
        return require_quantized(("int8", "uint8"), x, parameters)

    @staticmethod
    def canonicalize(attrs: LeakyReluAttrs, args: Sequence[Expr], types: Sequence[TensorType]) -> Expr:
        # Of data by the result's quantisation: q = alpha * q + (1 - alpha) * zero_point where x is negative.
        source, wanted = (Quantization.of(args, types, k) for k in (1, 3))
        data = requantized_unless_equal(args[0], len(types[0].shape), source, wanted)
        scaled = _times(data, attrs.alpha) + _times(wanted.zero_point.value, 1 - attrs.alpha)
        is_negative = build("less", build("cast", args[0], dtype="int32"), source.zero_point.value)
        return saturated(build("where", is_negative, scaled, data), types[0].dtype)


def _times(data: Expr, factor: float) -> Expr:
    multiplier, shift = multiplier_and_shift(factor)
    return build("fixed_point_multiply", data, multiplier=multiplier, shift=shift)


# Exponentials are integers times 2**-8, quotients are integers times 2**-7, and 2**30 is divided by a sum.
_EXPONENT_BITS = 8
_QUOTIENT_BITS = 7
_NUMERATOR_BITS = 30
_LARGEST_ONE = 2.0**16


@operator("qnn.softmax", "x", *PARAMETERS, attrs=SoftmaxAttrs, level=11, pattern=OpPattern.OPAQUE)
class Softmax:
    """Quantised softmax along axis, by integers alone: algorithm 1 of https://arxiv.org/abs/2207.01405."""

    @staticmethod
    def relation(attrs: SoftmaxAttrs, x: Type, *parameters: Type) -> Type:
        source = require_quantized(("int8",), x, parameters)
        resolve_axis(attrs.axis, len(source.shape))
        return source

    @staticmethod
    def canonicalize(attrs: SoftmaxAttrs, args: Sequence[Expr], types: Sequence[TensorType]) -> Expr:
        source, wanted = (Quantization.of(args, types, k) for k in (1, 3))
        rank = len(types[0].shape)
        data = shifted(args[0], source.zero_point, -1, rank)
        exponentials = _exponentials(data - build("max", data, axis=[attrs.axis], keepdims=True), source.scale)
        # A sum that wraps around may be 0, and a division by it would end the process.
        total = build("maximum", build("sum", exponentials, axis=[attrs.axis], keepdims=True), _int(1))
        quotient = build("divide", _int(1 << _NUMERATOR_BITS), total) * exponentials
        result = build("right_shift", quotient, _int(_NUMERATOR_BITS - _QUOTIENT_BITS))
        unit = Parameter(const(np.float32(2.0**-_QUOTIENT_BITS)), True)
        made = Quantization(unit, Parameter(_int(0), True))
        return requantized(result, rank, made, wanted, types[0].dtype)


def _exponentials(data: Expr, scale: Parameter) -> Expr:
    """Return integers in proportion to exp of integers that are at most 0, times a scale.

    With one as an integer, ``exp(x) = 2**(x * log2(e))`` is ``2**-q * 2**-(r / one)`` for quotient q and remainder r,
    and the second power is taken as ``1 - r / (2 * one)``.
    """
    # A scale may be so large that one is less than a half, which is no divisor, or so small that powers overflow.
    one = build("clip", build("round", const(1.0) / scale.value), a_min=1.0, a_max=_LARGEST_ONE)
    one = build("cast", one, dtype="int32")
    by_log2_e = data + build("right_shift", data, _int(1)) - build("right_shift", data, _int(4))
    quotient = build("divide", by_log2_e, build("negative", one))
    remainder = by_log2_e + quotient * one
    power = build("right_shift", remainder, _int(1)) + one
    shift = _int(_EXPONENT_BITS) - quotient
    left = build("left_shift", power, build("maximum", shift, _int(0)))
    right = build("minimum", build("maximum", build("negative", shift), _int(0)), _int(31))
    return build("right_shift", left, right)
