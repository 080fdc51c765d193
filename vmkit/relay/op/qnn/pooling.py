"""Quantised pools."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import Expr
from ...ir.types import TensorType, Type
from ..fields import REQUIRED
from ..nn.pool_attrs import AvgPoolAttrs
from ..registry import OpPattern, Parameters, entry, operator
from .parameters import Quantization, require_dtype, require_one, saturated
from .requantize import requantized_unless_equal

__all__: list[str] = []


@operator(
    "qnn.avg_pool2d",
    "data",
    "input_scale",
    "input_zero_point",
    "output_scale",
    "output_zero_point",
    attrs=AvgPoolAttrs.over(2),
    level=11,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    parameters=Parameters(
        "data input_scale input_zero_point output_scale output_zero_point pool_size strides padding dilation ceil_mode "
        "count_include_pad layout out_layout",
        given={
            **dict.fromkeys(("pool_size", "strides", "padding", "dilation"), REQUIRED),
            "count_include_pad": True,
            "layout": "NHWC",
        },
        kept=("padding",),
    ),
)
class AvgPool2D:
    """Mean of quantised windows, rounded towards zero.

    Relay takes the mean of the integers, so that padding which is counted is the integer 0, not the zero point.
    """

    @staticmethod
    def relation(attrs: AvgPoolAttrs, data: Type, scale: Type, zero: Type, out_scale: Type, out_zero: Type) -> Type:
        source = require_dtype(data, ("int8", "uint8"), "data")
        require_one(input_scale=scale, input_zero_point=zero, output_scale=out_scale, output_zero_point=out_zero)
        return entry("nn.avg_pool2d").relation(attrs, source)

    @staticmethod
    def canonicalize(attrs: AvgPoolAttrs, args: Sequence[Expr], types: Sequence[TensorType]) -> Expr:
        source, wanted = (Quantization.of(args, types, k) for k in (1, 3))
        data = requantized_unless_equal(args[0], len(types[0].shape), source, wanted)
        values = {field.name: getattr(attrs, field.name) for field in attrs.declared}
        return saturated(entry("nn.avg_pool2d").call(data, **values), types[0].dtype)
