"""Normalizations by the mean and variance of the data: over an axis (layer), an image (instance) or a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import Type
from ..attrs import Int, attrs_node, field
from ..registry import OpPattern, operator
from .activation import along_axis, lower_along_axis, vector_of
from .batch_norm import NormAttrs
from .precision import accumulator

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.LayerNormAttrs")
class LayerNormAttrs(NormAttrs):
    """Attributes of nn.layer_norm."""

    axis: Int = field(-1, doc="The axis that is normalized.")


@attrs_node("relay.attrs.InstanceNormAttrs")
class InstanceNormAttrs(NormAttrs):
    """Attributes of nn.instance_norm."""


@attrs_node("relay.attrs.GroupNormAttrs")
class GroupNormAttrs(NormAttrs):
    """Attributes of nn.group_norm."""

    num_groups: Int = field(0, doc="Into how many groups the axis falls.", first=True)


def _infer_gamma_beta(attrs: NormAttrs, data: Type, gamma: Type, beta: Type) -> dict[int, Type]:
    vector = vector_of(attrs.axis, data)
    return {} if vector is None else {1: vector, 2: vector}


def _normalized_type(attrs: NormAttrs, data: Type, gamma: Type, beta: Type) -> Type:
    along_axis(attrs.axis, data, gamma=gamma, beta=beta)
    return data


class _Moments:
    """Mean and variance of a tensor over some of its axes, in two passes and a wide data type."""

    def __init__(self, data: te.Tensor, axes: Sequence[int], epsilon: float) -> None:
        self.wide = accumulator(str(data.dtype))
        self.axes = list(axes)
        self.kept = [i for i in range(len(data.shape)) if i not in self.axes]
        self.data = data
        count: Any = tirx.IntImm("int64", 1)
        for a in self.axes:
            count *= data.shape[a]
        self.count = count.astype(self.wide)
        # A sum of no elements is asked for nowhere: where an axis is empty, so is the result.
        self.mean = self._average("mean", lambda x, index: x)
        self.var = self._average("variance", lambda x, index: (x - self.mean(*index)) * (x - self.mean(*index)))
        # The inverse standard deviation, so that there is one division for all elements that share it.
        shape = [data.shape[i] for i in self.kept]
        one, added = tirx.const(1.0, self.wide), tirx.const(epsilon, self.wide)
        self.scale = te.compute(shape, lambda *i: one / tirx.sqrt(self.var(*i) + added), name="deviation_inverse")

    def _average(self, name: str, term: Callable[..., tirx.Expr]) -> te.Tensor:
        over = {a: te.reduce_axis((0, self.data.shape[a]), name=f"k{a}") for a in self.axes}

        def total(*index: tirx.Expr) -> tirx.Expr:
            kept = dict(zip(self.kept, index, strict=True))
            at = [over[i] if i in over else kept[i] for i in range(len(self.data.shape))]
            return te.sum(term(self.data(*at).astype(self.wide), index), axis=list(over.values()))

        shape = [self.data.shape[i] for i in self.kept]
        summed = te.compute(shape, total, name=f"{name}_sum")
        return te.compute(shape, lambda *i: summed(*i) / self.count, name=name)

    def normalized(self, index: Sequence[tirx.Expr]) -> tirx.Expr:
        """Return the element at an index with its mean taken off, divided by the standard deviation."""
        kept = [index[i] for i in self.kept]
        return (self.data(*index).astype(self.wide) - self.mean(*kept)) * self.scale(*kept)


def _affine(attrs: NormAttrs, value: tirx.Expr, gamma: tirx.Expr, beta: tirx.Expr) -> tirx.Expr:
    """Return a normalized value scaled and shifted, as the attributes say."""
    wide = str(value.ty.dtype)
    if attrs.scale:
        value = value * gamma.astype(wide)
    return value + beta.astype(wide) if attrs.center else value


def _normalize_over(
    attrs: NormAttrs, axes: Sequence[int], at: int, data: te.Tensor, gamma: te.Tensor, beta: te.Tensor
) -> te.Tensor:
    moments = _Moments(data, axes, attrs.epsilon)

    def element(*index: tirx.Expr) -> tirx.Expr:
        value = _affine(attrs, moments.normalized(index), gamma(index[at]), beta(index[at]))
        return value.astype(str(data.dtype))

    return te.compute(data.shape, element, name="normalized")


@operator(
    "nn.layer_norm",
    "data",
    "gamma",
    "beta",
    attrs=LayerNormAttrs,
    level=1,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    mixed="never",
    layout="axis",
)
class LayerNorm:
    """The data normalized along one axis, then scaled by gamma and shifted by beta."""

    infer_inputs = staticmethod(_infer_gamma_beta)
    relation = staticmethod(_normalized_type)

    @staticmethod
    def lower(
        context: LowerContext, attrs: LayerNormAttrs, data: relax.Expr, gamma: relax.Expr, beta: relax.Expr
    ) -> relax.Expr:
        at = lower_along_axis(context, attrs.axis, data, gamma=gamma, beta=beta)
        return context.te(lambda *v: _normalize_over(attrs, [at], at, *v), data, gamma, beta)


@operator(
    "nn.instance_norm",
    "data",
    "gamma",
    "beta",
    attrs=InstanceNormAttrs,
    level=1,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    layout="axis",
)
class InstanceNorm:
    """The data normalized over all axes but the batch (axis 0) and the given one."""

    infer_inputs = staticmethod(_infer_gamma_beta)
    relation = staticmethod(_normalized_type)

    @staticmethod
    def lower(
        context: LowerContext, attrs: InstanceNormAttrs, data: relax.Expr, gamma: relax.Expr, beta: relax.Expr
    ) -> relax.Expr:
        at = lower_along_axis(context, attrs.axis, data, gamma=gamma, beta=beta)
        axes = [i for i in range(len(context.shape(data))) if i not in (0, at)]
        return context.te(lambda *v: _normalize_over(attrs, axes, at, *v), data, gamma, beta)


@operator(
    "nn.group_norm",
    "data",
    "gamma",
    "beta",
    attrs=GroupNormAttrs,
    level=1,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    layout="axis",
)
class GroupNorm:
    """The data normalized over groups of channels and all axes but the batch (axis 0) and the channels."""

    infer_inputs = staticmethod(_infer_gamma_beta)

    @staticmethod
    def relation(attrs: GroupNormAttrs, data: Type, gamma: Type, beta: Type) -> Type:
        at = along_axis(attrs.axis, data, gamma=gamma, beta=beta)
        channels = data.shape[at]
        if attrs.num_groups < 1 or (isinstance(channels, int) and channels % attrs.num_groups):
            raise TypeCheckError(f"num_groups is {attrs.num_groups}, which does not divide the {channels} channels")
        return data

    @staticmethod
    def lower(
        context: LowerContext, attrs: GroupNormAttrs, data: relax.Expr, gamma: relax.Expr, beta: relax.Expr
    ) -> relax.Expr:
        at = lower_along_axis(context, attrs.axis, data, gamma=gamma, beta=beta)
        channels = dims.as_expr(context.shape(data)[at])
        context.require(
            tirx.floormod(channels, attrs.num_groups) == 0,
            f"nn.group_norm: num_groups is {attrs.num_groups}, which does not divide the channels",
        )
        return context.te(lambda *v: _group_norm(attrs, at, *v), data, gamma, beta)


def _group_norm(attrs: GroupNormAttrs, at: int, data: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
    shape = list(data.shape)
    size = dims.as_expr(dims.floordiv(dims.simplify(shape[at]), attrs.num_groups))
    # The channels as two axes: group, and channel in the group.
    split = te.compute(
        [*shape[:at], tirx.IntImm("int64", attrs.num_groups), size, *shape[at + 1 :]],
        lambda *i: data(*i[:at], i[at] * size + i[at + 1], *i[at + 2 :]),
        name="groups",
    )
    moments = _Moments(split, [i for i in range(len(shape) + 1) if i not in (0, at)], attrs.epsilon)

    def element(*index: tirx.Expr) -> tirx.Expr:
        channel = index[at]
        grouped = [*index[:at], tirx.floordiv(channel, size), tirx.floormod(channel, size), *index[at + 1 :]]
        value = _affine(attrs, moments.normalized(grouped), gamma(channel), beta(channel))
        return value.astype(str(data.dtype))

    return te.compute(shape, element, name="normalized")
