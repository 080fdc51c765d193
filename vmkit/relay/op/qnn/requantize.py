"""Requantisation: the same reals by another scale and zero point."""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import TypeCheckError, suggest
from ...ir.expr import Expr, const
from ...ir.types import TensorType, Type
from ..attrs import Attrs, DType, Int, Str, attrs_node, field
from ..registry import OpPattern, build, operator
from .config import COMPUTE_DTYPES, ROUNDINGS, RequantizeConfig, current_requantize_config
from .parameters import Parameter, Quantization, require_along_axis, require_dtype, require_one, saturated, shifted
from .scaling import fixed_point_product, scale_ratio

__all__ = ["requantized", "requantized_unless_equal"]

_INPUTS = ("int8", "uint8", "int16", "int32", "int64")
_OUTPUTS = ("int8", "uint8", "int16", "int32")


@attrs_node("relay.attrs.RequantizeAttrs")
class RequantizeAttrs(Attrs):
    """Attributes of qnn.requantize."""

    axis: Int = field(-1, doc="The axis that a vector of the data's scales or zero points lies along.")
    rounding: Str = field("None", doc="Where halves go, UPWARD or TONEAREST, which is away from zero.")
    compute_dtype: Str = field("None", doc="The arithmetic: int64 for fixed-point numbers, float32 or float64.")
    out_dtype: DType = field("", script="int8", doc="Data type of the result.")


@operator(
    "qnn.requantize",
    "data",
    "input_scale",
    "input_zero_point",
    "output_scale",
    "output_zero_point",
    attrs=RequantizeAttrs,
    level=11,
    pattern=OpPattern.ELEMWISE,
    layout="axis",
)
class Requantize:
    """The quantised data by another scale and zero point.

    Rounding and compute_dtype of "None" are those of the ``requantize_config`` in force.
    """

    @staticmethod
    def relation(attrs: RequantizeAttrs, data: Type, scale: Type, zero: Type, out_scale: Type, out_zero: Type) -> Type:
        source = require_dtype(data, _INPUTS, "data")
        if attrs.out_dtype not in _OUTPUTS:
            raise TypeCheckError(f"out_dtype must be one of {', '.join(_OUTPUTS)}, not {attrs.out_dtype!r}")
        _require_choice("rounding", attrs.rounding, ROUNDINGS)
        _require_choice("compute_dtype", attrs.compute_dtype, COMPUTE_DTYPES)
        require_along_axis(source, attrs.axis, input_scale=scale, input_zero_point=zero)
        require_one(output_scale=out_scale, output_zero_point=out_zero)
        return TensorType(list(source.shape), attrs.out_dtype)

    @staticmethod
    def canonicalize(attrs: RequantizeAttrs, args: Sequence[Expr], types: Sequence[TensorType]) -> Expr:
        config = current_requantize_config().chosen(attrs.rounding, attrs.compute_dtype)
        source = Quantization.of(args, types, 1, attrs.axis)
        wanted = Quantization.of(args, types, 3)
        return requantized(args[0], len(types[0].shape), source, wanted, attrs.out_dtype, config)


def _require_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in ("None", *choices):
        raise TypeCheckError(f"{name} is {value!r}; it is one of {', '.join(choices)}{suggest(value, choices)}")


def requantized(
    data: Expr,
    rank: int,
    source: Quantization,
    wanted: Quantization,
    dtype: str,
    config: RequantizeConfig | None = None,
) -> Expr:
    """Return quantised data of a rank by another quantisation, in a data type, saturated.

    The rounding and the arithmetic are those of the configuration in force where `config` does not give them.
    """
    config = config or current_requantize_config()
    if config.compute_dtype == "int64":
        scaled = shifted(data, source.zero_point, source.axis, rank)
        if not source.scale.equals(wanted.scale):
            factor = scale_ratio(source.scale, wanted.scale)
            scaled = fixed_point_product(scaled, factor, source.axis, rank, config.rounding)
        if not wanted.zero_point.is_zero:
            scaled = scaled + wanted.zero_point.value
        return saturated(scaled, dtype)
    return _by_floats(data, rank, source, wanted, dtype, config)


def _by_floats(
    data: Expr, rank: int, source: Quantization, wanted: Quantization, dtype: str, config: RequantizeConfig
) -> Expr:
    real = config.compute_dtype
    scaled = shifted(data, source.zero_point, source.axis, rank, real)
    if not source.scale.equals(wanted.scale):
        ratio = scale_ratio(source.scale, wanted.scale)
        if ratio.constant is not None:
            ratio = Parameter(const(ratio.constant, real), ratio.is_one)
        else:
            ratio = Parameter(build("cast", ratio.value, dtype=real), ratio.is_one)
        scaled = scaled * ratio.along(source.axis, rank)
    if not wanted.zero_point.is_zero:
        scaled = scaled + build("cast", wanted.zero_point.value, dtype=real)
    is_upward = config.rounding == "UPWARD"
    rounded = build("floor", scaled + const(0.5, real)) if is_upward else build("round", scaled)
    return saturated(rounded, dtype, real)


def requantized_unless_equal(data: Expr, rank: int, source: Quantization, wanted: Quantization) -> Expr:
    """Return quantised data as int32 by another quantisation; only cast where the two are the same."""
    if source.equals(wanted):
        return build("cast", data, dtype="int32")
    return requantized(data, rank, source, wanted, "int32")
