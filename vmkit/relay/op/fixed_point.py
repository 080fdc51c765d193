"""Multiplication by fixed-point numbers, the arithmetic of quantised programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir.types import Type
from .agreement import may_agree, require_agreed
from .attrs import Attrs, Bool, Int, Ints, attrs_node
from .axis import resolve_axes
from .elementwise import require_tensor
from .kernel import indexed
from .registry import OpPattern, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["FixedPointMultiply"]

_FRACTION_BITS = 31


def _scaled(value: tirx.Expr, multiplier: tirx.Expr, left: tirx.Expr, right: tirx.Expr) -> tirx.Expr:
    """Return ``round((value << left) * multiplier / 2**(31 + right))``, halves up, in int64."""
    bits = right + _FRACTION_BITS
    one = tirx.IntImm("int64", 1)
    product = (value.astype("int64") << left) * multiplier
    return ((product + (one << (bits - one))) >> bits).astype("int32")


def _require_int32(data: Type) -> Type:
    if require_tensor(data).dtype != "int32":
        raise TypeCheckError(f"the input must be int32, not {data.dtype}")
    return data


@attrs_node("relay.attrs.FixedPointMultiplyAttrs")
class FixedPointMultiplyAttrs(Attrs):
    """Attributes of fixed_point_multiply."""

    multiplier: Int
    shift: Int


@operator("fixed_point_multiply", "data", attrs=FixedPointMultiplyAttrs, level=10, pattern=OpPattern.ELEMWISE)
class FixedPointMultiply:
    """The input times ``multiplier * 2**(shift - 31)``, rounded to the nearest, halves up."""

    @staticmethod
    def relation(attrs: FixedPointMultiplyAttrs, data: Type) -> Type:
        if not -31 <= attrs.shift <= 31:
            raise TypeCheckError(f"shift is {attrs.shift}; it is -31 to 31")
        return _require_int32(data)

    @staticmethod
    def compute(attrs: FixedPointMultiplyAttrs, data: te.Tensor) -> te.Tensor:
        left, right = max(attrs.shift, 0), max(-attrs.shift, 0)
        constants = [tirx.IntImm("int64", v) for v in (attrs.multiplier, left, right)]
        return te.compute(data.shape, lambda *i: _scaled(data(*i), *constants), name="scaled")


@attrs_node("relay.attrs.FixedPointMultiplyPerAxisAttrs")
class FixedPointMultiplyPerAxisAttrs(Attrs):
    """Attributes of fixed_point_multiply_per_axis."""

    is_lshift_required: Bool = False
    is_rshift_required: Bool = False
    axes: Ints


@operator(
    "fixed_point_multiply_per_axis", "x", "m", "lshift", "rshift",
    attrs=FixedPointMultiplyPerAxisAttrs, level=10, pattern=OpPattern.ELEMWISE, by_place=True,
)  # fmt: skip
class FixedPointMultiplyPerAxis:
    """The input times ``m * 2**(lshift - rshift - 31)``, these three given for every position along axes."""

    @staticmethod
    def relation(attrs: FixedPointMultiplyPerAxisAttrs, x: Type, *given: Type) -> Type:
        source = _require_int32(x)
        axes = resolve_axes(attrs.axes, len(source.shape), "axes")
        for ty, name in zip(given, ("m", "lshift", "rshift"), strict=True):
            tensor = require_tensor(ty, name)
            wanted = [source.shape[a] for a in axes]
            if not may_agree(tensor.shape, wanted):
                raise TypeCheckError(f"{name} is {tensor}; its shape must be that of axes {axes} of {source}")
        return source

    @staticmethod
    def lower(
        context: LowerContext, attrs: FixedPointMultiplyPerAxisAttrs, x: relax.Expr, *given: relax.Expr
    ) -> relax.Expr:
        shape = context.shape(x)
        axes = resolve_axes(attrs.axes, len(shape), "axes")
        for value in given:
            require_agreed(context, context.shape(value), [shape[a] for a in axes], "a factor")

        def element(
            i: tuple[tirx.Expr, ...], x: te.Tensor, m: te.Tensor, lshift: te.Tensor, rshift: te.Tensor
        ) -> tirx.Expr:
            at = [i[a] for a in axes]
            zero = tirx.IntImm("int64", 0)
            left = lshift(*at).astype("int64") if attrs.is_lshift_required else zero
            right = rshift(*at).astype("int64") if attrs.is_rshift_required else zero
            return _scaled(x(*i), m(*at).astype("int64"), left, right)

        return indexed(context, shape, element, x, *given)
