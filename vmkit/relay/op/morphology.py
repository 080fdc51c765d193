"""Morphology of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import TensorType, Type
from .attrs import Attrs, DType, Ints, Str, attrs_node, field
from .elementwise import require_tensor
from .nn.layout import ordered, require_layout, require_rank
from .nn.window import extent, fitted, pad_spatial, padding_of, positive, require_fits
from .nn.window_fields import each_axis, each_side, in_order
from .registry import OpPattern, Parameters, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.Dilation{rank}DAttrs", ranks=(2,))
class DilationAttrs(Attrs):
    """Attributes of image.dilation{rank}d."""

    strides: Ints = each_axis(1, "Steps of the window; of four numbers, the first two.")
    padding: Ints = each_side(0, "Elements added on each side: before all axes, then behind.")
    dilations: Ints = each_axis(1, "Steps between the elements of the window; of four numbers, the first two.")
    data_layout: Str = in_order("NC", "Order of the data's axes.")
    kernel_layout: Str = in_order("I", "Order of the weight's axes.")
    out_dtype: DType = field("", doc="Data type of the result; that of the data where it is empty.")


def _dilation_numbers(attrs: DilationAttrs) -> tuple[list[int], list[int], list[int]]:
    return (
        _two_of(attrs.strides, "strides"),
        _two_of(attrs.dilations, "dilations"),
        padding_of(attrs.padding, 2),
    )


def _two_of(values: Sequence[int], name: str) -> list[int]:
    """Return a number for each axis; Relay read the first two of four, which its scripts give."""
    return positive(values[:2] if len(values) == 4 else values, 2, name)


@operator(
    "image.dilation2d",
    "data",
    "weight",
    attrs=DilationAttrs.over(2),
    level=2,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    parameters=Parameters(kept=("padding",)),
)
class Dilation2D:
    """Greyscale dilation: the largest sum of an element and the weight in each window; padding counts as 0."""

    @staticmethod
    def relation(attrs: DilationAttrs, data: Type, weight: Type) -> Type:
        source, filters = require_tensor(data, "data"), require_tensor(weight, "weight")
        axes = require_layout(attrs.data_layout, "NCHW", "data_layout")
        kernel_axes = require_layout(attrs.kernel_layout, "IHW", "kernel_layout")
        require_rank(source, 4, "data")
        require_rank(filters, 3, "weight")
        n, c, *sizes = ordered(source.shape, axes, "NCHW")
        inputs, *kernel = ordered(filters.shape, kernel_axes, "IHW")
        if dims.equal(c, inputs) is False:
            raise TypeCheckError(f"the data has {c} channels, but the weight {inputs}")
        strides, dilations, padding = _dilation_numbers(attrs)
        windows = [extent(k, d) for k, d in zip(kernel, dilations, strict=True)]
        made = [n, c, *fitted(sizes, padding, windows, strides)]
        return TensorType(ordered(made, "NCHW", axes), attrs.out_dtype or source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: DilationAttrs, data: relax.Expr, weight: relax.Expr) -> relax.Expr:
        _, c, *sizes = ordered(context.shape(data), attrs.data_layout, "NCHW")
        inputs, *kernel = ordered(context.shape(weight), attrs.kernel_layout, "IHW")
        context.require_equal(c, inputs, "image.dilation2d: the data has {actual} channels, but the weight {expected}")
        _, dilations, padding = _dilation_numbers(attrs)
        require_fits(context, sizes, padding, [extent(k, d) for k, d in zip(kernel, dilations, strict=True)])
        return context.te(lambda x, w: _dilate(attrs, x, w), data, weight)


def _dilate(attrs: DilationAttrs, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    axes, kernel_axes = attrs.data_layout, attrs.kernel_layout
    strides, dilations, padding = _dilation_numbers(attrs)
    n, c, *sizes = ordered([dims.simplify(d) for d in data.shape], axes, "NCHW")
    _, *kernel = ordered([dims.simplify(d) for d in weight.shape], kernel_axes, "IHW")
    windows = [extent(k, d) for k, d in zip(kernel, dilations, strict=True)]
    padded = pad_spatial(data, axes, "HW", padding, 0)
    ry, rx = te.reduce_axis((0, kernel[0]), name="ry"), te.reduce_axis((0, kernel[1]), name="rx")
    dtype = attrs.out_dtype or str(data.dtype)

    def element(*index: tirx.Expr) -> tirx.Expr:
        i, channel, y, x = ordered(index, axes, "NCHW")
        at = [i, channel, y * strides[0] + ry * dilations[0], x * strides[1] + rx * dilations[1]]
        value, raised = padded(*ordered(at, "NCHW", axes)), weight(*ordered([channel, ry, rx], "IHW", kernel_axes))
        return te.max(value.astype(dtype) + raised.astype(dtype), axis=[ry, rx])

    shape = ordered([n, c, *fitted(sizes, padding, windows, strides)], "NCHW", axes)
    return te.compute([dims.as_expr(d) for d in shape], element, name="dilation2d")
