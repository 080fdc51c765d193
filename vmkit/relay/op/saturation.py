"""The last step of quantisation: numbers to the nearest of a narrow type, limited to its range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, tirx

from ...errors import TypeCheckError
from ...values.element_types import small_integer_bits
from ..ir.types import Dim, TensorType, Type
from .attrs import Attrs, Bool, DType, attrs_node
from .broadcast import broadcast_lowering, broadcast_shapes
from .elementwise import require_tensor
from .registry import OpPattern, operator
from .small_float import SMALL_FLOATS

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["QUANTIZED", "integer_range", "nearest"]

_INTEGERS = ("int2", "int4", "int8", "int16", "uint2", "uint4", "uint8", "uint16")
_WHOLE, _BITS_OF_WHOLE = float(3 << 22), 0x4B400000  # in the middle of the numbers that are 1 from each other
QUANTIZED = (*_INTEGERS, *SMALL_FLOATS)
"""The element types of quantised tensors."""


def integer_range(dtype: str) -> tuple[int, int]:
    """Return the least and the largest number of an integer type of quantised tensors."""
    bits = small_integer_bits(dtype) or int(dtype.removeprefix("u").removeprefix("int"))
    return (0, (1 << bits) - 1) if dtype.startswith("u") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


@attrs_node("relay.attrs.QuantizedAttrs")
class QuantizedAttrs(Attrs):
    """Attributes of contrib_quantized."""

    dtype: DType
    saturate: Bool = True


@operator(
    "contrib_quantized",
    "data",
    "zero_point",
    attrs=QuantizedAttrs,
    level=10,
    pattern=OpPattern.BROADCAST,
    layout="quantized",
)
class Quantized:
    """A float32 rounded to the nearest integer, halves to even, plus a zero point, within the range of a data type.

    The zero point is of that type. Of a float of 8 bits or fewer there is one rounding, of the sum; what is too large
    then becomes the largest number with saturate, else infinity or what is no number.
    """

    @staticmethod
    def relation(attrs: QuantizedAttrs, data: Type, zero_point: Type) -> Type:
        if attrs.dtype not in QUANTIZED:
            raise TypeCheckError(f"numbers are quantised to {', '.join(QUANTIZED)}, not to {attrs.dtype}")
        return TensorType(_shape(attrs.dtype, data, zero_point), attrs.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: QuantizedAttrs, data: relax.Expr, zero_point: relax.Expr) -> relax.Expr:
        def combine(number: tirx.Expr, zero: tirx.Expr) -> tirx.Expr:
            if attrs.dtype in SMALL_FLOATS:
                form = SMALL_FLOATS[attrs.dtype]
                return form.write(number + form.read(zero), saturate=attrs.saturate)
            return nearest(number, zero, *integer_range(attrs.dtype))

        return broadcast_lowering(context, combine, data, zero_point)


@attrs_node("relay.attrs.RoundedAttrs")
class RoundedAttrs(Attrs):
    """Attributes of contrib_rounded."""

    dtype: DType


@operator(
    "contrib_rounded",
    "data",
    "zero_point",
    attrs=RoundedAttrs,
    level=10,
    pattern=OpPattern.BROADCAST,
    layout="quantized",
)
class Rounded:
    """A float32 as it is after it was quantised: what contrib_quantized gives, less the zero point, as float32."""

    @staticmethod
    def relation(attrs: RoundedAttrs, data: Type, zero_point: Type) -> Type:
        if attrs.dtype not in _INTEGERS:
            raise TypeCheckError(f"numbers are rounded to the range of {', '.join(_INTEGERS)}, not of {attrs.dtype}")
        return TensorType(_shape(attrs.dtype, data, zero_point), "float32")

    @staticmethod
    def lower(context: LowerContext, attrs: RoundedAttrs, data: relax.Expr, zero_point: relax.Expr) -> relax.Expr:
        def combine(number: tirx.Expr, zero: tirx.Expr) -> tirx.Expr:
            return _rounded(number, zero, *integer_range(attrs.dtype))

        return broadcast_lowering(context, combine, data, zero_point)


def _shape(dtype: str, data: Type, zero_point: Type) -> list[Dim]:
    """Return the shape of numbers quantised to a data type, by a zero point of that type."""
    number, zero = require_tensor(data), require_tensor(zero_point, "zero_point")
    if number.dtype != "float32" or zero.dtype != dtype:
        raise TypeCheckError(f"the input must be float32 and the zero point {dtype}, not {number} and {zero}")
    return broadcast_shapes(list(number.shape), list(zero.shape))


def nearest(number: tirx.Expr, zero: tirx.Expr, low: int, high: int) -> tirx.Expr:
    """Return a number rounded, plus a zero point: limited before, so that what is too large is an integer as well.

    Where float32 has no fractions, an addition rounds, halves to even, and the lowest bits are the integer: one
    instruction where rounding and converting take two. Larger numbers have larger bits, and what is no number has
    bits that are larger still, if they are taken for unsigned: so that the integers of an unsigned type are limited
    above where they are made narrow, which processors have one instruction for.
    """
    within = tirx.max(_bound(low, zero), number) if low == 0 else _within(number, zero, low, high)
    bits = tirx.reinterpret("int32", within + tirx.const(_WHOLE, "float32"))
    whole = bits + (zero.astype("int32") - tirx.const(_BITS_OF_WHOLE, "int32"))
    if low == 0:
        whole = tirx.min(whole.astype("uint32"), tirx.const(high, "uint32"))
    return whole.astype(zero.ty.dtype)


def _rounded(number: tirx.Expr, zero: tirx.Expr, low: int, high: int) -> tirx.Expr:
    """Return a number rounded and limited to a range about a zero point."""
    return _within(tirx.round(number), zero, low, high)


def _within(number: tirx.Expr, zero: tirx.Expr, low: int, high: int) -> tirx.Expr:
    """Return a number limited to a range about a zero point, whose ends are integers."""
    return tirx.max(tirx.min(number, _bound(high, zero)), _bound(low, zero))


def _bound(bound: int, zero: tirx.Expr) -> tirx.Expr:
    """Return an end of a range as a number before the zero point is added."""
    return tirx.const(float(bound), "float32") - zero.astype("float32")
