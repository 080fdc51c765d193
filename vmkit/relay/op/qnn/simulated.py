"""Quantisation simulated on reals, to a data type that may be chosen at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax, te, tirx

from ....errors import TypeCheckError, suggest
from ...ir import dims
from ...ir.expr import Expr, const
from ...ir.types import IncompleteType, TensorType, Type, scalar_type
from ..attrs import Attrs, Bool, Int, Str, attrs_node
from ..axis import resolve_axis
from ..elementwise import require_tensor, round_half_away
from ..kernel import indexed
from ..registry import OpPattern, Parameters, build, entry, operator
from .parameters import require_along_axis
from .quantize import DequantizeAttrs

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = ["DTYPE_CODES"]

# The numbers that name a data type at run time; "disable" leaves the data as it is.
DTYPE_CODES = {"disable": 0, "int8": 1, "uint8": 2, "int32": 3}


@attrs_node("relay.attrs.SimulatedQuantizeAttrs")
class SimulatedQuantizeAttrs(Attrs):
    """Attributes of qnn.simulated_quantize (axis) and relay.op.annotation.simulated_quantize (all others).

    Relay had two nodes under this one name.
    """

    kind: Int = 0
    sign: Bool = True
    rounding: Str = "round"
    axis: Int = -1


def _code(dtype: str | Expr) -> Expr:
    """Return a data type, given by name or as an expression of its number, as an expression."""
    if not isinstance(dtype, str):
        return dtype
    if dtype not in DTYPE_CODES:
        names = ", ".join(DTYPE_CODES)
        raise TypeCheckError(f"{dtype!r} is none of the data types to simulate: {names}{suggest(dtype, DTYPE_CODES)}")
    return const(DTYPE_CODES[dtype], "int32")


def _relation(
    attrs: SimulatedQuantizeAttrs | DequantizeAttrs, data: Type, dtype: Type, scale: Type, zero_point: Type
) -> Type:
    source, code = require_tensor(data, "data"), require_tensor(dtype, "the data type's number")
    if not source.dtype.startswith("float"):
        raise TypeCheckError(f"data must be floats, not {source.dtype}")
    if code.dtype != "int32" or dims.equal(dims.product(code.shape), 1) is not True:
        raise TypeCheckError(f"the data type's number must be one int32, not {code}")
    require_along_axis(source, attrs.axis, scale=scale, zero_point=zero_point)
    return source


def _elementwise(
    context: LowerContext,
    attrs: SimulatedQuantizeAttrs | DequantizeAttrs,
    combine: Callable[..., tirx.Expr],
    data: relax.Expr,
    *given: relax.Expr,
) -> relax.Expr:
    """Return ``combine(x, code, scale, zero_point)`` of each element, the parameters read along the axis."""
    shape = context.shape(data)
    axis = resolve_axis(attrs.axis, len(shape)) if shape else 0
    for name, value in zip(("scale", "zero_point"), given[1:], strict=True):
        for length in context.shape(value):
            message = f"{context.operator}: {name} has {{actual}} elements, axis {axis} of the data {{expected}}"
            context.require_equal(length, dims.select(length == 1, length, shape[axis] if shape else 1), message)

    def element(
        i: tuple[tirx.Expr, ...], x: te.Tensor, code: te.Tensor, scale: te.Tensor, zero_point: te.Tensor
    ) -> tirx.Expr:
        def along(tensor: te.Tensor) -> tirx.Expr:
            zero = tirx.IntImm("int64", 0)
            return tensor(*[tirx.Select(n == 1, zero, i[axis]) if i else zero for n in tensor.shape])

        dtype = str(x.dtype)
        number = code(*[0] * len(code.shape))
        made = combine(x(*i), number, along(scale).astype(dtype), along(zero_point).astype(dtype))
        return tirx.Select(tirx.all(number >= 1, number <= 3), made, x(*i))

    return indexed(context, shape, element, data, *given)


def _quantized(x: tirx.Expr, code: tirx.Expr, scale: tirx.Expr, zero_point: tirx.Expr) -> tirx.Expr:
    dtype = x.ty.dtype

    def bound(end: str) -> tirx.Expr:
        limits = [tirx.const(float(getattr(np.iinfo(name), end)), dtype) for name in ("int8", "uint8", "int32")]
        return tirx.Select(code == 1, limits[0], tirx.Select(code == 2, limits[1], limits[2]))

    return tirx.max(tirx.min(round_half_away(x / scale) + zero_point, bound("max")), bound("min"))


def _flat(parameter: Expr) -> Expr:
    return build("reshape", parameter, newshape=[-1])


@operator(
    "qnn.simulated_quantize", "data", "out_dtype", "output_scale", "output_zero_point",
    attrs=SimulatedQuantizeAttrs, level=11, pattern=OpPattern.ELEMWISE,
    parameters=Parameters("data output_scale output_zero_point axis out_dtype", given={"out_dtype": "int8"}),
)  # fmt: skip
class SimulatedQuantize:
    """What qnn.quantize gives, as floats of the data's type; see DTYPE_CODES for the data types."""

    @staticmethod
    def make(data: Expr, output_scale: Expr, output_zero_point: Expr, axis: int, out_dtype: str | Expr) -> Expr:
        operands = data, _code(out_dtype), _flat(output_scale), _flat(output_zero_point)
        return entry("qnn.simulated_quantize").call(*operands, axis=axis)

    relation = staticmethod(_relation)

    @staticmethod
    def lower(context: LowerContext, attrs: SimulatedQuantizeAttrs, *values: relax.Expr) -> relax.Expr:
        return _elementwise(context, attrs, _quantized, *values)


@operator(
    "qnn.simulated_dequantize", "data", "in_dtype", "input_scale", "input_zero_point",
    attrs=DequantizeAttrs, level=11, pattern=OpPattern.ELEMWISE,
    parameters=Parameters("data input_scale input_zero_point axis in_dtype", given={"in_dtype": "int8"}),
)  # fmt: skip
class SimulatedDequantize:
    """What qnn.dequantize gives of integers held as floats; see DTYPE_CODES for the data types."""

    @staticmethod
    def make(data: Expr, input_scale: Expr, input_zero_point: Expr, axis: int, in_dtype: str | Expr) -> Expr:
        operands = data, _code(in_dtype), _flat(input_scale), _flat(input_zero_point)
        return entry("qnn.simulated_dequantize").call(*operands, axis=axis, out_dtype="")

    relation = staticmethod(_relation)

    @staticmethod
    def lower(context: LowerContext, attrs: DequantizeAttrs, *values: relax.Expr) -> relax.Expr:
        return _elementwise(context, attrs, lambda x, code, scale, zero: (x - zero) * scale, *values)


_IDENTITY = 0


@operator(
    "relay.op.annotation.simulated_quantize", "data", "dom_scale", "clip_min", "clip_max",
    attrs=SimulatedQuantizeAttrs, level=11, pattern=OpPattern.ELEMWISE,
)  # fmt: skip
class AnnotationSimulatedQuantize:
    """The data in units of dom_scale, limited, rounded and scaled back; the data itself where kind is 0 (identity)."""

    @staticmethod
    def infer_inputs(attrs: SimulatedQuantizeAttrs, data: Type, *parameters: Type) -> dict[int, Type]:
        return {k: scalar_type("float32") for k, ty in enumerate(parameters, 1) if isinstance(ty, IncompleteType)}

    @staticmethod
    def relation(attrs: SimulatedQuantizeAttrs, data: Type, *parameters: Type) -> Type:
        source = require_tensor(data, "data")
        if source.dtype != "float32" or len(source.shape) == 0:
            raise TypeCheckError(f"data must be float32 of one or more dimensions, not {source}")
        for name, ty in zip(("dom_scale", "clip_min", "clip_max"), parameters, strict=True):
            tensor = require_tensor(ty, name)
            if tensor.dtype != "float32" or len(tensor.shape) > 0:
                raise TypeCheckError(f"{name} must be a float32 scalar, not {tensor}")
        if not attrs.sign or attrs.rounding != "round":
            raise TypeCheckError("only signed simulation with rounding 'round' is defined")
        return source

    @staticmethod
    def canonicalize(attrs: SimulatedQuantizeAttrs, args: Sequence[Expr], types: Sequence[TensorType]) -> Expr:
        data, scale, low, high = args
        if attrs.kind == _IDENTITY:
            return data
        limited = build("maximum", build("minimum", data / scale, high), low)
        return build("round", limited) * scale
