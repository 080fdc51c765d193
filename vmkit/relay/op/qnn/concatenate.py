"""Quantised tensors joined."""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import TypeCheckError
from ...ir.expr import Expr, Tuple, TupleGetItem
from ...ir.tuple_wrapper import TupleWrapper
from ...ir.types import TupleType, Type, type_text
from ..fields import REQUIRED
from ..join import ConcatenateAttrs, TupleLike, as_tuple
from ..registry import OpPattern, Parameters, build, entry, operator
from .parameters import Quantization, require_one
from .requantize import requantized

__all__: list[str] = []


def _fields(value: Expr, count: int) -> list[Expr]:
    """Return the fields of a tuple expression."""
    return list(value.fields) if isinstance(value, Tuple) else [TupleGetItem(value, k) for k in range(count)]


@operator(
    "qnn.concatenate",
    "data",
    "input_scales",
    "input_zero_points",
    "output_scale",
    "output_zero_point",
    attrs=ConcatenateAttrs,
    level=11,
    pattern=OpPattern.INJECTIVE,
    layout="concatenate",
    parameters=Parameters(given={"axis": REQUIRED}),
)
class Concatenate:
    """Quantised tensors of a tuple, each with its scale and zero point, one after the other along axis."""

    @staticmethod
    def make(
        data: TupleLike,
        input_scales: TupleLike,
        input_zero_points: TupleLike,
        output_scale: Expr,
        output_zero_point: Expr,
        axis: int,
    ) -> Expr:
        tensors = data.tuple_value if isinstance(data, TupleWrapper) else as_tuple(data)
        scales, zero_points = (as_tuple(v) for v in (input_scales, input_zero_points))
        return entry("qnn.concatenate").call(tensors, scales, zero_points, output_scale, output_zero_point, axis=axis)

    @staticmethod
    def relation(
        attrs: ConcatenateAttrs, data: Type, scales: Type, zero_points: Type, scale: Type, zero_point: Type
    ) -> Type:
        result = entry("concatenate").relation(attrs, data)
        count = len(data.fields)
        for name, ty in (("input_scale", scales), ("input_zero_point", zero_points)):
            if not isinstance(ty, TupleType) or len(ty.fields) != count:
                raise TypeCheckError(f"{name}s must be a tuple of {count}, one for each tensor, not {type_text(ty)}")
            for k, field in enumerate(ty.fields):
                require_one(**{f"field {k} of the {name}": field})
        require_one(output_scale=scale, output_zero_point=zero_point)
        return result

    @staticmethod
    def canonicalize(attrs: ConcatenateAttrs, args: Sequence[Expr], types: Sequence[Type]) -> Expr:
        tensors = types[0].fields
        wanted = Quantization.of(args, types, 3)
        data, scales, zero_points = (_fields(a, len(tensors)) for a in args[:3])
        joined = []
        for k, ty in enumerate(tensors):
            source = Quantization.of((scales[k], zero_points[k]), (types[1].fields[k], types[2].fields[k]), 0)
            is_same = source.equals(wanted)
            joined.append(data[k] if is_same else requantized(data[k], len(ty.shape), source, wanted, ty.dtype))
        return build("concatenate", Tuple(joined), axis=attrs.axis)
