"""Normalization by statistics that are given, and what the attributes of normalizations have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...ir.expr import Call
from ...ir.tuple_wrapper import TupleWrapper
from ...ir.types import IncompleteType, TupleType, Type
from ..attrs import Attrs, Bool, Float, Int, attrs_node, attrs_row, field
from ..registry import OpPattern, operator
from .activation import along_axis, lower_along_axis, vector_of
from .precision import accumulator

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = ["NormAttrs"]


@attrs_row
class NormAttrs(Attrs):
    """What the normalizations along an axis have in common."""

    axis: Int = field(1, doc="The axis along which gamma and beta lie.")
    epsilon: Float = field(1e-5, doc="What is added to the variance.")
    center: Bool = field(True, doc="Whether beta is added.")
    scale: Bool = field(True, doc="Whether the normalized data is multiplied by gamma.")


@attrs_node("relay.attrs.BatchNormAttrs")
class BatchNormAttrs(NormAttrs):
    """Attributes of nn.batch_norm."""


@operator(
    "nn.batch_norm",
    "data",
    "gamma",
    "beta",
    "moving_mean",
    "moving_var",
    attrs=BatchNormAttrs,
    level=1,
    pattern=OpPattern.ELEMWISE,
    mixed="follow",
    layout="statistics",
)
class BatchNorm:
    """``(data - mean) / sqrt(var + epsilon) * gamma + beta`` along an axis, by the statistics given.

    The value is a tuple: the result, and mean and variance as they came. center and scale say whether beta and gamma
    are used.
    """

    @staticmethod
    def value(call: Call) -> TupleWrapper:
        return TupleWrapper(call, 3)

    @staticmethod
    def infer_inputs(attrs: BatchNormAttrs, data: Type, *vectors: Type) -> dict[int, Type]:
        vector = vector_of(attrs.axis, data)
        if vector is None:
            return {}
        return {i: vector for i, ty in enumerate(vectors, 1) if isinstance(ty, IncompleteType)}

    @staticmethod
    def relation(attrs: BatchNormAttrs, data: Type, gamma: Type, beta: Type, mean: Type, var: Type) -> Type:
        along_axis(attrs.axis, data, gamma=gamma, beta=beta, moving_mean=mean, moving_var=var)
        return TupleType([data, mean, var])

    @staticmethod
    def lower(
        context: LowerContext,
        attrs: BatchNormAttrs,
        data: relax.Expr,
        gamma: relax.Expr,
        beta: relax.Expr,
        mean: relax.Expr,
        var: relax.Expr,
    ) -> tuple[relax.Expr, relax.Expr, relax.Expr]:
        vectors = {"gamma": gamma, "beta": beta, "moving_mean": mean, "moving_var": var}
        at = lower_along_axis(context, attrs.axis, data, **vectors)
        wide = accumulator(str(data.ty.dtype))
        # The vectors are folded once for each channel, so that what is left fuses with a convolution before it.
        opaque = {"pattern": OpPattern.OPAQUE}
        scale = context.te(lambda *v: _scale(attrs, wide, *v), gamma, var, name="batch_norm_scale", **opaque)
        shift = context.te(lambda *v: _shift(attrs, wide, *v), beta, mean, scale, name="batch_norm_shift", **opaque)

        def normalize(x: te.Tensor, a: te.Tensor, b: te.Tensor) -> te.Tensor:
            dtype = str(x.dtype)
            return te.compute(
                x.shape, lambda *i: (x(*i).astype(wide) * a(i[at]) + b(i[at])).astype(dtype), name="batch_norm"
            )

        return context.te(normalize, data, scale, shift), mean, var


def _scale(attrs: BatchNormAttrs, wide: str, gamma: te.Tensor, var: te.Tensor) -> te.Tensor:
    epsilon = tirx.const(attrs.epsilon, wide)

    def element(i: tirx.Expr) -> tirx.Expr:
        numerator = gamma(i).astype(wide) if attrs.scale else tirx.const(1.0, wide)
        return numerator / tirx.sqrt(var(i).astype(wide) + epsilon)

    return te.compute(gamma.shape, element, name="scale")


def _shift(attrs: BatchNormAttrs, wide: str, beta: te.Tensor, mean: te.Tensor, scale: te.Tensor) -> te.Tensor:
    def element(i: tirx.Expr) -> tirx.Expr:
        offset = mean(i).astype(wide) * scale(i)
        return beta(i).astype(wide) - offset if attrs.center else -offset

    return te.compute(beta.shape, element, name="shift")
