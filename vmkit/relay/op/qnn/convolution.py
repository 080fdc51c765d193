"""Quantised convolutions over two spatial axes, in every order of the axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Expr
from ...ir.types import TensorType, Type
from ..fields import REQUIRED
from ..nn.convolution import ConvAttrs
from ..nn.layout import axes_of
from ..nn.transposed import ConvTransposeAttrs
from ..registry import Parameters, build, entry, operator
from .parameters import Parameter, require_one, require_vector, shifted
from .product import OPERANDS, PATTERN, product, require_dtypes, shifted_weight

__all__: list[str] = []

_DTYPES = (("int8", "uint8", "int16"), ("int8", "uint8", "int16"), ("int16", "int32", "int64"))


_ConvolutionAttrs: TypeAlias = ConvAttrs | ConvTransposeAttrs


def _relation(name: str, attrs: _ConvolutionAttrs, data: Type, weight: Type, *parameters: Type) -> Type:
    require_dtypes(data, weight, attrs, _DTYPES)
    result = entry(name).relation(attrs, data, weight)
    zero, kernel_zero, scale, kernel_scale = parameters
    require_one(input_zero_point=zero, input_scale=scale)
    outputs = weight.shape[axes_of(attrs.kernel_layout).index("O")]
    channels = result.shape[axes_of(attrs.out_layout or attrs.data_layout).index("C")]
    require_vector([channels, outputs], kernel_zero_point=kernel_zero, kernel_scale=kernel_scale)
    return result


def _canonical(name: str, attrs: _ConvolutionAttrs, args: Sequence[Expr], types: Sequence[TensorType]) -> Expr:
    data = shifted(args[0], Parameter.of(args[2], types[2]), -1, 4)
    is_transposed = name == "nn.conv2d_transpose"

    def along(zero_point: Parameter) -> Expr:
        return _over_weight(zero_point, types[3], types[1], attrs, is_transposed)

    return product(name, attrs, data, shifted_weight(args[1], args[3], (types[1], types[3]), along))


def _over_weight(
    zero_point: Parameter, ty: TensorType, weight: TensorType, attrs: _ConvolutionAttrs, is_transposed: bool
) -> Expr:
    """Return a vector of zero points, one for every channel of the result, in a shape that broadcasts over the weight.

    The weight's axis O has as many elements as the result has channels, unless it is that of a depthwise convolution
    which holds several kernels of a channel along I, or that of a grouped transposed convolution, whose groups stand
    one after the other along I.
    """
    axes = axes_of(attrs.kernel_layout)
    o, i = axes.index("O"), axes.index("I")
    outputs, inputs = weight.shape[o], weight.shape[i]
    if attrs.groups == 1 or dims.equal(ty.shape[0], outputs):
        return zero_point.along(o, 4)
    if not isinstance(outputs, int) or not isinstance(inputs, int):
        raise TypeCheckError("a vector of zero points of a grouped convolution needs a weight of known channels")
    if is_transposed:
        rows = build("reshape", zero_point.value, newshape=[attrs.groups, outputs])
        matrix = build("transpose", build("repeat", rows, inputs // attrs.groups, 0), axes=[1, 0])
    else:
        matrix = build("reshape", zero_point.value, newshape=[outputs, inputs])
    ordered = matrix if o < i else build("transpose", matrix, axes=[1, 0])
    return build("reshape", ordered, newshape=[{"O": outputs, "I": inputs}.get(axis, 1) for axis in axes])


@operator(
    "qnn.conv2d",
    *OPERANDS,
    attrs=ConvAttrs.over(2),
    level=11,
    pattern=PATTERN,
    layout="own",
    parameters=Parameters(
        "data kernel input_zero_point kernel_zero_point input_scale kernel_scale kernel_size channels strides padding "
        "dilation groups data_layout kernel_layout out_layout out_dtype",
        renamed={"kernel": "weight"},
        given={"kernel_size": REQUIRED, "out_dtype": "int32"},
    ),
)
class Conv2D:
    """Quantised convolution; the kernel's scale and zero point may be vectors, one number for every output channel."""

    relation = staticmethod(partial(_relation, "nn.conv2d"))
    canonicalize = staticmethod(partial(_canonical, "nn.conv2d"))


@operator(
    "qnn.conv2d_transpose",
    *OPERANDS,
    attrs=ConvTransposeAttrs.over(2),
    level=11,
    pattern=PATTERN,
    layout="own",
    parameters=Parameters(
        "data weight input_zero_point kernel_zero_point input_scale kernel_scale strides padding dilation groups "
        "channels kernel_size data_layout kernel_layout out_layout output_padding out_dtype",
        given={"out_dtype": "int32"},
    ),
)
class Conv2DTranspose:
    """Quantised transposed convolution; the kernel's parameters as for qnn.conv2d."""

    relation = staticmethod(partial(_relation, "nn.conv2d_transpose"))
    canonicalize = staticmethod(partial(_canonical, "nn.conv2d_transpose"))
