"""Products of integers with a ratio of scales, by fixed-point numbers.

A positive ratio is ``m * 2**(left - right - 31)`` with a 31-bit significand m and one of the shifts 0. Ratios that are
known only at run time are taken apart there, by the same arithmetic on the bits of a float64.
"""

from __future__ import annotations

import math

import numpy as np

from ...._dataclasses import dataclass
from ....errors import TypeCheckError
from ...ir.expr import Expr, const
from ..registry import build
from .parameters import Parameter

__all__ = ["fixed_point_product", "multiplier_and_shift", "scale_ratio"]

_BITS = 31


def multiplier_and_shift(factor: float) -> tuple[int, int]:
    """Return a factor as ``multiplier * 2**(shift - 31)`` with a significand of 31 bits.

    >>> multiplier_and_shift(0.75)
    (1610612736, 0)
    """
    significand, shift = math.frexp(factor)
    multiplier = int(math.copysign(math.floor(abs(significand) * 2.0**_BITS + 0.5), significand))
    if abs(multiplier) == 1 << _BITS:
        multiplier, shift = multiplier // 2, shift + 1
    # Times a factor that small, every int32 is below a half.
    if shift < -_BITS:
        return 0, 0
    if shift > _BITS:
        raise TypeCheckError(f"the ratio of scales is {factor}: every integer but 0 times that is too large for int32")
    return multiplier, shift


def scale_ratio(numerator: Parameter, denominator: Parameter) -> Parameter:
    """Return the quotient of two scales in float64; TypeCheckError when the denominator is known to be 0."""
    if denominator.is_zero:
        raise TypeCheckError("the output scale is 0")
    is_one = numerator.is_one and denominator.is_one
    if numerator.constant is not None and denominator.constant is not None:
        ratio = np.asarray(numerator.constant.astype("float64") / denominator.constant.astype("float64"))
        return Parameter(const(ratio, "float64"), is_one)
    wide = [build("cast", p.value, dtype="float64") for p in (numerator, denominator)]
    return Parameter(wide[0] / wide[1], is_one)


@dataclass(frozen=True)
class _FixedPoint:
    """The significand and the two shifts of a factor: int32 scalars or vectors."""

    multiplier: Parameter
    left: Parameter
    right: Parameter

    @classmethod
    def of(cls, factor: Parameter) -> _FixedPoint:
        if factor.constant is None:
            return cls(*(Parameter(part, factor.is_one) for part in _parts(factor.value)))
        pairs = [multiplier_and_shift(float(f)) for f in factor.constant.reshape(-1)]
        columns = ([m for m, _ in pairs], [max(s, 0) for _, s in pairs], [max(-s, 0) for _, s in pairs])
        arrays = (np.array(c, "int32").reshape(factor.constant.shape) for c in columns)
        return cls(*(Parameter(const(a), factor.is_one) for a in arrays))


def _parts(factor: Expr) -> tuple[Expr, Expr, Expr]:
    """Return the significand and the two shifts of a factor that is known at run time."""

    def long(value: int) -> Expr:
        return const(value, "int64")

    # Rounding the 53 bits of the significand to 31 may carry, into the exponent, which stands above them.
    bits = build("reinterpret", factor, dtype="int64") + long(1 << 21)
    significand = build("bitwise_and", build("right_shift", bits, long(22)), long((1 << 30) - 1)) + long(1 << 30)
    shift = build("right_shift", bits, long(52)) - long(1022)
    left = build("clip", shift, a_min=0, a_max=_BITS)
    # Shifted by one more than constants are, every product is below a half, so that it needs no case of its own.
    right = build("clip", long(0) - shift, a_min=0, a_max=_BITS + 1)
    multiplier, left, right = (build("cast", part, dtype="int32") for part in (significand, left, right))
    return multiplier, left, right


def fixed_point_product(data: Expr, factor: Parameter, axis: int, rank: int, rounding: str) -> Expr:
    """Return an int32 tensor times a factor, rounded to int32: halves ``"UPWARD"``, or ``"TONEAREST"`` away from zero.

    Parameters
    ----------
    data : Expr
        The int32 tensor.
    factor : Parameter
        Positive numbers of float64.
    axis, rank : int
        The axis that a vector of factors lies along, and the number of dimensions of the data.
    rounding : str
        Where halves go.
    """
    if rounding == "TONEAREST":
        # Away from zero is upward of the absolute value. That of -2**31 stays negative, so the product's is taken too.
        product = fixed_point_product(build("abs", data), factor, axis, rank, "UPWARD")
        is_negative = build("less", data, const(0, "int32"))
        return build("where", is_negative, build("negative", build("abs", product)), product)
    if factor.is_one and factor.constant is not None:
        multiplier, shift = multiplier_and_shift(float(factor.constant))
        return build("fixed_point_multiply", data, multiplier=multiplier, shift=shift)
    number = _FixedPoint.of(factor)
    return build(
        "fixed_point_multiply_per_axis",
        *(data, number.multiplier.value, number.left.value, number.right.value),
        is_lshift_required=not number.left.is_zero,
        is_rshift_required=not number.right.is_zero,
        axes=[] if factor.is_one else [axis % rank],
    )
