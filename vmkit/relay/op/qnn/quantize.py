"""Between reals and quantised integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import te, tirx

from ....errors import TypeCheckError
from ...ir.expr import Expr
from ...ir.types import TensorType, Type
from ..attrs import Attrs, DType, Float, Int, attrs_node, field
from ..elementwise import require_tensor
from ..registry import OpPattern, Parameters, build, operator
from .parameters import Quantization, require_along_axis, require_dtype, saturated, saturation, shifted

__all__ = ["DequantizeAttrs", "dequantized", "quantized"]

_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")
_REALS = ("float16", "float32")

_AXIS = "The axis that a vector of scales or zero points lies along."


@attrs_node("relay.attrs.QuantizeAttrs")
class QuantizeAttrs(Attrs):
    """Attributes of qnn.quantize."""

    out_dtype: DType = field(script="int8", doc="Data type of the result.")
    axis: Int = field(-1, doc=_AXIS)


@attrs_node("relay.attrs.DequantizeAttrs")
class DequantizeAttrs(Attrs):
    """Attributes of qnn.dequantize and qnn.simulated_dequantize."""

    out_dtype: DType = field(script="float32", doc="Data type of the result.")
    axis: Int = field(-1, doc=_AXIS)


@operator(
    "qnn.quantize",
    "data",
    "output_scale",
    "output_zero_point",
    attrs=QuantizeAttrs,
    level=11,
    pattern=OpPattern.ELEMWISE,
    layout="axis",
    parameters=Parameters("data output_scale output_zero_point axis out_dtype"),
)
class Quantize:
    """The integers ``round(data / scale) + zero_point``, halves rounded away from zero, saturated."""

    @staticmethod
    def relation(attrs: QuantizeAttrs, data: Type, scale: Type, zero_point: Type) -> Type:
        source = require_dtype(data, ["float32"], "data")
        if attrs.out_dtype not in _INTEGERS:
            raise TypeCheckError(f"out_dtype must be one of {', '.join(_INTEGERS)}, not {attrs.out_dtype!r}")
        require_along_axis(source, attrs.axis, output_scale=scale, output_zero_point=zero_point)
        return TensorType(list(source.shape), attrs.out_dtype)

    @staticmethod
    def canonicalize(attrs: QuantizeAttrs, args: Sequence[Expr], types: Sequence[TensorType]) -> Expr:
        wanted = Quantization.of(args, types, 1, attrs.axis)
        return quantized(args[0], len(types[0].shape), wanted, attrs.out_dtype)


@attrs_node("relay.attrs.AtMostAttrs")
class AtMostAttrs(Attrs):
    """Attributes of at_most."""

    limit: Float


@operator("at_most", "data", attrs=AtMostAttrs, level=11, pattern=OpPattern.ELEMWISE)
class AtMost:
    """The input where it is less than a limit, else the limit: NaN, too, becomes an integer by that, as in Relay."""

    @staticmethod
    def relation(attrs: AtMostAttrs, data: Type) -> Type:
        return require_tensor(data, "data")

    @staticmethod
    def compute(attrs: AtMostAttrs, data: te.Tensor) -> te.Tensor:
        # The smaller of two numbers is the second where one of them is NaN.
        limit = tirx.const(attrs.limit, data.dtype)
        return te.compute(data.shape, lambda *i: tirx.min(data(*i), limit), name="at_most")


def quantized(data: Expr, rank: int, wanted: Quantization, dtype: str) -> Expr:
    """Return float32 data of a rank as integers of a data type by a quantisation."""
    scaled = build("round", data / wanted.scale.along(wanted.axis, rank))
    if not wanted.zero_point.is_zero:
        scaled = scaled + build("cast", wanted.zero_point.along(wanted.axis, rank), dtype="float32")
    return saturated(build("at_most", scaled, limit=saturation(dtype, "float32")[1]), dtype, "float32")


@operator(
    "qnn.dequantize",
    "data",
    "input_scale",
    "input_zero_point",
    attrs=DequantizeAttrs,
    level=11,
    pattern=OpPattern.ELEMWISE,
    layout="axis",
    parameters=Parameters("data input_scale input_zero_point axis out_dtype"),
)
class Dequantize:
    """The reals ``scale * (data - zero_point)``."""

    @staticmethod
    def relation(attrs: DequantizeAttrs, data: Type, scale: Type, zero_point: Type) -> Type:
        source = require_dtype(data, _INTEGERS, "data")
        if attrs.out_dtype not in _REALS:
            raise TypeCheckError(f"out_dtype must be one of {', '.join(_REALS)}, not {attrs.out_dtype!r}")
        require_along_axis(source, attrs.axis, input_scale=scale, input_zero_point=zero_point)
        return TensorType(list(source.shape), attrs.out_dtype)

    @staticmethod
    def canonicalize(attrs: DequantizeAttrs, args: Sequence[Expr], types: Sequence[TensorType]) -> Expr:
        source = Quantization.of(args, types, 1, attrs.axis)
        reals = dequantized(args[0], len(types[0].shape), source)
        if attrs.out_dtype == "float32":
            return reals
        most = float(np.finfo(attrs.out_dtype).max)
        return build("cast", build("clip", reals, a_min=-most, a_max=most), dtype=attrs.out_dtype)


def dequantized(data: Expr, rank: int, source: Quantization) -> Expr:
    """Return quantised data of a rank as float32."""
    offset = shifted(data, source.zero_point, source.axis, rank)
    return build("cast", offset, dtype="float32") * source.scale.along(source.axis, rank)
