"""Normalizations: by given statistics (batch_norm), or by those of the data (layer, instance, group, l2, lrn)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx, topi

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Call
from ...ir.tuple_wrapper import TupleWrapper
from ...ir.types import IncompleteType, TupleType, Type
from ..attrs import Attrs, Bool, Float, Int, Ints, attrs_node, attrs_row, field
from ..axis import resolve_axes, resolve_axis
from ..elementwise import require_tensor
from ..registry import OpPattern, operator
from .activation import along_axis, lower_along_axis, vector_of
from .precision import accumulator

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


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
    ) -> relax.Expr:
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

    def element(i: tirx.PrimExpr) -> tirx.PrimExpr:
        numerator = gamma(i).astype(wide) if attrs.scale else tirx.const(1.0, wide)
        return numerator / tirx.sqrt(var(i).astype(wide) + epsilon)

    return te.compute(gamma.shape, element, name="scale")


def _shift(attrs: BatchNormAttrs, wide: str, beta: te.Tensor, mean: te.Tensor, scale: te.Tensor) -> te.Tensor:
    def element(i: tirx.PrimExpr) -> tirx.PrimExpr:
        offset = mean(i).astype(wide) * scale(i)
        return beta(i).astype(wide) - offset if attrs.center else -offset

    return te.compute(beta.shape, element, name="shift")


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

    def _average(self, name: str, term: Callable[..., tirx.PrimExpr]) -> te.Tensor:
        over = {a: te.reduce_axis((0, self.data.shape[a]), name=f"k{a}") for a in self.axes}

        def total(*index: tirx.PrimExpr) -> tirx.PrimExpr:
            kept = dict(zip(self.kept, index, strict=True))
            at = [over[i] if i in over else kept[i] for i in range(len(self.data.shape))]
            return te.sum(term(self.data(*at).astype(self.wide), index), axis=list(over.values()))

        shape = [self.data.shape[i] for i in self.kept]
        summed = te.compute(shape, total, name=f"{name}_sum")
        return te.compute(shape, lambda *i: summed(*i) / self.count, name=name)

    def normalized(self, index: Sequence[tirx.PrimExpr]) -> tirx.PrimExpr:
        """Return the element at an index with its mean taken off, divided by the standard deviation."""
        kept = [index[i] for i in self.kept]
        return (self.data(*index).astype(self.wide) - self.mean(*kept)) * self.scale(*kept)


def _affine(attrs: NormAttrs, value: tirx.PrimExpr, gamma: tirx.PrimExpr, beta: tirx.PrimExpr) -> tirx.PrimExpr:
    """Return a normalized value scaled and shifted, as the attributes say."""
    wide = str(value.ty.dtype)
    if attrs.scale:
        value = value * gamma.astype(wide)
    return value + beta.astype(wide) if attrs.center else value


def _normalize_over(
    attrs: NormAttrs, axes: Sequence[int], at: int, data: te.Tensor, gamma: te.Tensor, beta: te.Tensor
) -> te.Tensor:
    moments = _Moments(data, axes, attrs.epsilon)

    def element(*index: tirx.PrimExpr) -> tirx.PrimExpr:
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

    def element(*index: tirx.PrimExpr) -> tirx.PrimExpr:
        channel = index[at]
        grouped = [*index[:at], tirx.floordiv(channel, size), tirx.floormod(channel, size), *index[at + 1 :]]
        value = _affine(attrs, moments.normalized(grouped), gamma(channel), beta(channel))
        return value.astype(str(data.dtype))

    return te.compute(shape, element, name="normalized")


@attrs_node("relay.attrs.L2NormalizeAttrs")
class L2NormalizeAttrs(Attrs):
    """Attributes of nn.l2_normalize."""

    eps: Float
    axis: Ints | None = None


@operator(
    "nn.l2_normalize",
    "data",
    attrs=L2NormalizeAttrs,
    level=2,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    mixed="never",
    layout="axes",
)
class L2Normalize:
    """The data divided by the square root of its sum of squares along the axes; that sum is eps at least."""

    @staticmethod
    def relation(attrs: L2NormalizeAttrs, data: Type) -> Type:
        source = require_tensor(data, "data")
        resolve_axes(attrs.axis, len(source.shape))
        return source

    @staticmethod
    def compute(attrs: L2NormalizeAttrs, data: te.Tensor) -> te.Tensor:
        axes, dtype = resolve_axes(attrs.axis, len(data.shape)), str(data.dtype)
        wide = accumulator(dtype)
        kept = [i for i in range(len(data.shape)) if i not in axes]
        over = {a: te.reduce_axis((0, data.shape[a]), name=f"k{a}") for a in axes}

        def squares(*index: tirx.PrimExpr) -> tirx.PrimExpr:
            known = dict(zip(kept, index, strict=True))
            x = data(*[over[i] if i in over else known[i] for i in range(len(data.shape))]).astype(wide)
            return te.sum(x * x, axis=list(over.values()))

        total = te.compute([data.shape[i] for i in kept], squares, name="squares")
        least = tirx.const(attrs.eps, wide)
        return te.compute(
            data.shape,
            lambda *i: (data(*i).astype(wide) / tirx.sqrt(tirx.max(total(*[i[k] for k in kept]), least))).astype(dtype),
            name="l2_normalize",
        )


@attrs_node("relay.attrs.LRNAttrs")
class LRNAttrs(Attrs):
    """Attributes of nn.lrn."""

    size: Int = 5
    axis: Int = 1
    bias: Float = 2
    alpha: Float = 0.0001
    beta: Float = 0.75


@operator("nn.lrn", "data", attrs=LRNAttrs, level=2, pattern=OpPattern.OUT_ELEMWISE_FUSABLE, layout="axis")
class LRN:
    """Local response normalization: ``x / (bias + alpha / size * sum of squares of size neighbours) ** beta``."""

    @staticmethod
    def relation(attrs: LRNAttrs, data: Type) -> Type:
        source = require_tensor(data, "data")
        resolve_axis(attrs.axis, len(source.shape))
        if attrs.size < 1:
            raise TypeCheckError(f"size must be positive, not {attrs.size}")
        return source

    @staticmethod
    def compute(attrs: LRNAttrs, data: te.Tensor) -> te.Tensor:
        at, dtype = resolve_axis(attrs.axis, len(data.shape)), str(data.dtype)
        wide = accumulator(dtype)
        # Of an even number of neighbours, one more lies behind than before, as in ONNX.
        before = [(attrs.size - 1) // 2 if i == at else 0 for i in range(len(data.shape))]
        after = [attrs.size // 2 if i == at else 0 for i in range(len(data.shape))]
        padded = topi.nn.pad(data, before, after, 0, name="pad_temp")
        k = te.reduce_axis((0, attrs.size), name="k")

        def squares(*index: tirx.PrimExpr) -> tirx.PrimExpr:
            x = padded(*index[:at], index[at] + k, *index[at + 1 :]).astype(wide)
            return te.sum(x * x, axis=k)

        total = te.compute(data.shape, squares, name="squares")
        bias, alpha = tirx.const(attrs.bias, wide), tirx.const(attrs.alpha / attrs.size, wide)
        return te.compute(
            data.shape,
            lambda *i: (data(*i).astype(wide) / _power(bias + alpha * total(*i), attrs.beta)).astype(dtype),
            name="lrn",
        )


def _power(base: tirx.PrimExpr, exponent: float) -> tirx.PrimExpr:
    """Return a power; of quarters up to one, by square roots, which vectors have."""
    match exponent:
        case 0.25:
            return tirx.sqrt(tirx.sqrt(base))
        case 0.5:
            return tirx.sqrt(base)
        case 0.75:
            return tirx.sqrt(base) * tirx.sqrt(tirx.sqrt(base))
        case 1.0:
            return base
    return tirx.power(base, tirx.const(exponent, str(base.ty.dtype)))
