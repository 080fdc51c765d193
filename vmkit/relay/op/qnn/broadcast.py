"""Quantised sums, differences and products of two tensors that broadcast against each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....errors import TypeCheckError
from ...ir.expr import Expr, const
from ...ir.types import TensorType, Type
from ..attrs import Attrs, Int, attrs_node, field
from ..registry import OpPattern, build, entry, operator
from .parameters import Parameter, Quantization, require_along_axis, require_dtype, require_one, saturated, shifted
from .requantize import requantized, requantized_unless_equal

__all__: list[str] = []

_OPERANDS = (
    "lhs",
    "rhs",
    "lhs_scale",
    "lhs_zero_point",
    "rhs_scale",
    "rhs_zero_point",
    "output_scale",
    "output_zero_point",
)


@attrs_node("relay.attrs.BroadcastAttrs")
class BroadcastAttrs(Attrs):
    """Attributes of the quantised operators of two tensors."""

    lhs_axis: Int = field(-1, doc="The axis that a vector of scales or zero points of lhs lies along.")
    rhs_axis: Int = field(-1, doc="The axis that a vector of scales or zero points of rhs lies along.")


def _relation(attrs: BroadcastAttrs, lhs: Type, rhs: Type, *parameters: Type) -> Type:
    dtypes = ("int8", "uint8", "int16", "uint16", "int32")
    left, right = require_dtype(lhs, dtypes, "lhs"), require_dtype(rhs, dtypes, "rhs")
    l_scale, l_zero, r_scale, r_zero, scale, zero = parameters
    require_along_axis(left, attrs.lhs_axis, lhs_scale=l_scale, lhs_zero_point=l_zero)
    require_along_axis(right, attrs.rhs_axis, rhs_scale=r_scale, rhs_zero_point=r_zero)
    require_one(output_scale=scale, output_zero_point=zero)
    return entry("add").relation(None, left, right)


def _quantizations(
    attrs: BroadcastAttrs, args: Sequence[Expr], types: Sequence[TensorType]
) -> tuple[Quantization, Quantization, Quantization]:
    """Return how lhs, rhs and the result are quantised."""
    axes = (attrs.lhs_axis, attrs.rhs_axis, -1)
    made = [Quantization.of(args, types, k, a) for k, a in zip((2, 4, 6), axes, strict=True)]
    return made[0], made[1], made[2]


def _sum(attrs: BroadcastAttrs, args: Sequence[Expr], types: Sequence[TensorType]) -> Expr:
    # With both by the result's quantisation: q = (q_lhs - zero) + (q_rhs - zero) + zero.
    *sources, wanted = _quantizations(attrs, args, types)
    lhs, rhs = (requantized_unless_equal(args[k], len(types[k].shape), sources[k], wanted) for k in (0, 1))
    total = lhs + rhs
    return saturated(total if wanted.zero_point.is_zero else total - wanted.zero_point.value, types[0].dtype)


def _difference(attrs: BroadcastAttrs, args: Sequence[Expr], types: Sequence[TensorType]) -> Expr:
    *sources, wanted = _quantizations(attrs, args, types)
    lhs, rhs = (requantized_unless_equal(args[k], len(types[k].shape), sources[k], wanted) for k in (0, 1))
    total = lhs - rhs
    return saturated(total if wanted.zero_point.is_zero else total + wanted.zero_point.value, types[0].dtype)


def _product(attrs: BroadcastAttrs, args: Sequence[Expr], types: Sequence[TensorType]) -> Expr:
    # The product of the differences from the zero points has the product of the scales, and the zero point 0.
    *sources, wanted = _quantizations(attrs, args, types)
    ranks = [len(types[k].shape) for k in (0, 1)]
    lhs, rhs = (shifted(args[k], sources[k].zero_point, sources[k].axis, ranks[k]) for k in (0, 1))
    scale, axis = _product_scale(sources, ranks)
    source = Quantization(scale, Parameter(const(0, "int32"), True), axis)
    return requantized(lhs * rhs, max(ranks), source, wanted, types[0].dtype)


def _product_scale(sources: Sequence[Quantization], ranks: Sequence[int]) -> tuple[Parameter, int]:
    """Return the product of two scales, and the axis that it lies along, counted from the end."""
    axes = {s.axis % r - r for s, r in zip(sources, ranks, strict=True) if not s.scale.is_one}
    if len(axes) > 1:
        raise TypeCheckError("the vectors lhs_scale and rhs_scale lie along different axes of the result")
    is_one = not axes
    constants = [s.scale.constant for s in sources]
    if constants[0] is not None and constants[1] is not None:
        value: Expr = const(np.asarray(constants[0] * constants[1], "float32"))
    else:
        value = build("multiply", *(s.scale.value for s in sources))
    return Parameter(value, is_one), axes.pop() if axes else -1


def _register(name: str, canonicalize: Callable[..., Expr], doc: str) -> None:
    body = {
        "__doc__": doc + " A vector of scales or zero points of an operand lies along its axis.",
        "relation": staticmethod(_relation),
        "canonicalize": staticmethod(canonicalize),
    }
    operator(name, *_OPERANDS, attrs=BroadcastAttrs, level=11, pattern=OpPattern.BROADCAST, layout="quantized")(
        type(name, (), body)
    )


_register("qnn.add", _sum, "Quantised sum.")
_register("qnn.subtract", _difference, "Quantised difference.")
_register("qnn.mul", _product, "Quantised product.")
