"""Quantised pools."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import Expr
from ...ir.types import TensorType, Type
from ..nn.pool_attrs import AvgPoolAttrs
from ..nn.window import per_axis
from ..registry import OpPattern, entry, operator
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
)
class AvgPool2D:
    """Mean of quantised windows, rounded towards zero.

    Relay takes the mean of the integers, so that padding which is counted is the integer 0, not the zero point.
    """

    @staticmethod
    def build(
        data: Expr,
        input_scale: Expr,
        input_zero_point: Expr,
        output_scale: Expr,
        output_zero_point: Expr,
        pool_size: int | Sequence[int],
        strides: int | Sequence[int],
        padding: int | Sequence[int],
        dilation: int | Sequence[int],
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        layout: str = "NHWC",
        out_layout: str = "",
    ) -> Expr:
        return entry("qnn.avg_pool2d").call(
            *(data, input_scale, input_zero_point, output_scale, output_zero_point),
            pool_size=per_axis(pool_size, 2),
            strides=per_axis(strides, 2),
            dilation=per_axis(dilation, 2),
            padding=padding,
            layout=layout,
            out_layout=out_layout,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )

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
