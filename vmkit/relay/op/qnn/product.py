"""Products of quantised tensors: dense and batch_matmul, and what convolutions share with them.

The product of two quantised tensors has the product of their scales and the zero point 0, so that
``sum((a - zero_a) * (w - zero_w))`` is all there is to compute. The zero points are subtracted first: then every
dilation, group, layout and unknown size needs nothing further, a convolution pads with 0, and the difference of the
data fuses into what computes it. Weights that have no zero point stay as narrow as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ....errors import TypeCheckError
from ...ir.expr import Expr
from ...ir.types import TensorType, Type
from ..attrs import Attrs, DType
from ..nn.dense import BatchMatmulAttrs, DenseAttrs
from ..registry import OpPattern, Parameters, build, entry, operator
from .parameters import Parameter, require_dtype, require_one, require_vector, shifted

__all__ = ["OPERANDS", "PATTERN", "product", "require_dtypes", "shifted_weight"]

OPERANDS = ("data", "weight", "input_zero_point", "kernel_zero_point", "input_scale", "kernel_scale")
PATTERN = OpPattern.OUT_ELEMWISE_FUSABLE


class HasOutDType(Protocol):
    """Attributes that name the element type of the result."""

    out_dtype: DType


def require_dtypes(data: Type, weight: Type, attrs: HasOutDType, dtypes: tuple[Sequence[str], ...]) -> None:
    """Check the data types of the operands and of the result."""
    require_dtype(data, dtypes[0], "data")
    require_dtype(weight, dtypes[1], "weight")
    if attrs.out_dtype not in dtypes[2]:
        raise TypeCheckError(f"out_dtype must be one of {', '.join(dtypes[2])}, not {attrs.out_dtype!r}")


def product(name: str, attrs: Attrs, data: Expr, weight: Expr) -> Expr:
    """Return the ordinary operator on differences from the zero points, summed up in at least 32 bits."""
    values = {field.name: getattr(attrs, field.name) for field in attrs.declared}
    wanted = values["out_dtype"]
    result = entry(name).call(data, weight, **values | {"out_dtype": "int64" if wanted == "int64" else "int32"})
    return build("cast", result, dtype=wanted) if wanted == "int16" else result


def shifted_weight(
    value: Expr, zero_point: Expr, types: Sequence[TensorType], along: Callable[[Parameter], Expr]
) -> Expr:
    """Return the weight less its zero point, unless that is 0; `along` makes a vector broadcast over the weight."""
    parameter = Parameter.of(zero_point, types[1])
    if parameter.is_zero:
        return value
    known = parameter.constant
    is_short = types[0].dtype.endswith("int8") and known is not None and abs(known).max() < 1 << 14
    dtype = "int16" if is_short else "int32"
    offset = parameter.value if parameter.is_one else along(parameter)
    return build("cast", value, dtype=dtype) - build("cast", offset, dtype=dtype)


# What Relay's Python functions gave where the nodes, which are those of products of reals, have no data type.
_SUMS = {"out_dtype": "int32"}


@operator("qnn.dense", *OPERANDS, attrs=DenseAttrs, level=11, pattern=PATTERN, parameters=Parameters(given=_SUMS))
class Dense:
    """Quantised product of the data's last dimension with a weight of shape (units, inner)."""

    @staticmethod
    def relation(attrs: DenseAttrs, data: Type, weight: Type, *parameters: Type) -> Type:
        data_dtypes = ("int8", "uint8", "int16", "uint16")
        require_dtypes(data, weight, attrs, (data_dtypes, ("int8", "uint8"), ("int32", "int64")))
        result = entry("nn.dense").relation(attrs, data, weight)
        zero, kernel_zero, scale, kernel_scale = parameters
        require_one(input_zero_point=zero, input_scale=scale)
        require_vector([result.shape[-1]], kernel_zero_point=kernel_zero, kernel_scale=kernel_scale)
        return result

    @staticmethod
    def canonicalize(attrs: DenseAttrs, args: Sequence[Expr], types: Sequence[TensorType]) -> Expr:
        data = shifted(args[0], Parameter.of(args[2], types[2]), -1, len(types[0].shape))
        weight = shifted_weight(args[1], args[3], (types[1], types[3]), lambda zero: zero.along(0, 2))
        return product("nn.dense", attrs, data, weight)


@operator(
    "qnn.batch_matmul", "x", "y", "x_zero_point", "y_zero_point", "x_scale", "y_scale",
    attrs=BatchMatmulAttrs, level=11, pattern=PATTERN,
    parameters=Parameters(
        "x y x_zero_point y_zero_point x_scale y_scale out_dtype", given=_SUMS, fixed={"transpose_b": True}
    ),
)  # fmt: skip
class BatchMatmul:
    """Quantised product of the matrices of two batches, the second transposed."""

    @staticmethod
    def relation(attrs: BatchMatmulAttrs, x: Type, y: Type, *parameters: Type) -> Type:
        require_dtypes(x, y, attrs, (("int8", "uint8"), ("int8", "uint8"), ("int32",)))
        x_zero, y_zero, x_scale, y_scale = parameters
        require_one(x_zero_point=x_zero, y_zero_point=y_zero, x_scale=x_scale, y_scale=y_scale)
        return entry("nn.batch_matmul").relation(attrs, x, y)

    @staticmethod
    def canonicalize(attrs: BatchMatmulAttrs, args: Sequence[Expr], types: Sequence[TensorType]) -> Expr:
        x, y = (shifted(args[i], Parameter.of(args[i + 2], types[i + 2]), -1, 3) for i in (0, 1))
        return product("nn.batch_matmul", attrs, x, y)
