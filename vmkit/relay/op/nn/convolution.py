"""Convolutions over one, two and three spatial axes, in every order of the axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from ...._dataclasses import dataclass
from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, Type
from ..attrs import Attrs, Dim, Dims, DType, Int, Ints, Str, attrs_node, field
from ..registry import OpPattern, operator
from .geometry import Geometry, Shapes, agreed_kernel, weight_type
from .precision import accumulator, as_dtype
from .window import fitted, pad_spatial, require_fits
from .window_fields import each_axis, each_side, in_order

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = ["Channels", "ConvAttrs", "Convolution"]


@attrs_node("relay.attrs.Conv{rank}DAttrs", ranks=(1, 2, 3))
class ConvAttrs(Attrs):
    """Attributes of nn.conv{rank}d."""

    strides: Ints = each_axis(1, "Steps of the window.")
    padding: Ints = each_side(0, "Elements added on each side: before all axes, then behind.", least=2)
    dilation: Ints = each_axis(1, "Steps between the elements of the window.")
    groups: Int = field(1, doc="Into how many groups the channels fall, none of which sees another's.")
    channels: Dim | None = field(None, doc="Channels of the result; those that the weight makes.")
    kernel_size: Dims | None = each_axis(None, "Size of the window; that of the weight.")
    data_layout: Str = in_order("NC", "Order of the data's axes.")
    kernel_layout: Str = in_order("OI", "Order of the weight's axes.")
    out_layout: Str = field("", doc="Order of the result's axes; that of the data where it is empty.")
    out_dtype: DType = field("", doc="Data type of the result; that of the data where it is empty.")


@dataclass(frozen=True)
class Channels:
    """How the channels of a convolution's data, weight and result hang together.

    A weight (channels, multiplier, ...) is Relay's other form of a depthwise convolution: each channel has `multiplier`
    kernels of its own, and the result has ``channels * multiplier`` channels.

    A weight in blocks of output channels may have the last block of each group filled up, where the attribute
    `channels` says how many channels there are.
    """

    groups: int
    inputs: Dim  # of the data
    outputs: Dim  # of the result
    of_group: Dim  # those of a group that the weight takes, or the multiplier
    is_multiplied: bool
    is_filled: bool = False  # the weight has more output channels than the result

    @classmethod
    def of(cls, geometry: Geometry, shapes: Shapes, wanted: Dim | None) -> Channels:
        """Read them from the shapes of data and weight; `wanted` is the attribute."""
        groups, outputs, of_group = geometry.groups, shapes.first, shapes.second
        if wanted is not None and _is_filled(geometry, outputs, wanted):
            return cls(groups, shapes.channels, wanted, of_group, is_multiplied=False, is_filled=True)
        is_depthwise = dims.equal(shapes.channels, groups) and dims.equal(outputs, groups)
        is_multiplied = groups > 1 and bool(is_depthwise) and dims.equal(of_group, 1) is False
        made = dims.mul(outputs, of_group) if is_multiplied else outputs
        return cls(groups, shapes.channels, made, of_group, is_multiplied)

    def agreed(self, wanted: Dim | None) -> Dim:
        """Return the channels of the result; TypeCheckError where data, weight, groups and `wanted` do not agree."""
        if wanted is not None and dims.equal(self.outputs, wanted) is False:
            raise TypeCheckError(f"channels is {wanted}, but the weight makes {self.outputs}")
        for count, whose in ((self.inputs, "the data"), (self.outputs, "the result")):
            if isinstance(count, int) and count % self.groups:
                raise TypeCheckError(f"groups is {self.groups}, which does not divide the {count} channels of {whose}")
        takes = dims.mul(self.of_group, self.groups)
        if not self.is_multiplied and dims.equal(self.inputs, takes) is False:
            raise TypeCheckError(
                f"the data has {self.inputs} channels, but the weight takes {self.of_group} in each of {self.groups} "
                f"groups: {takes}"
            )
        return self.outputs if wanted is None else wanted

    def require(self, context: LowerContext, wanted: Dim | None) -> None:
        """Check at run time what :meth:`agreed` could not."""
        name = context.operator
        if not self.is_multiplied:
            message = f"{name}: the data has {{actual}} channels, but the weight takes {{expected}}"
            context.require_equal(self.inputs, dims.mul(self.of_group, self.groups), message)
        if isinstance(wanted, int):
            message = f"{name}: channels is {{expected}}, but the weight makes {{actual}}"
            context.require_equal(self.outputs, wanted, message)


def _is_filled(geometry: Geometry, outputs: Dim, wanted: Dim | None) -> bool:
    """Say whether a weight of so many output channels is one of `wanted` channels, its last blocks filled up."""
    block, groups = geometry.kernel.block("O"), geometry.groups
    if block == 1 or not isinstance(wanted, int) or not isinstance(outputs, int) or wanted % groups:
        return False
    return wanted < outputs == -(-wanted // groups // block) * block * groups


def _type(attrs: ConvAttrs, data: Type, weight: Type) -> Type:
    geometry = Geometry.of(attrs)
    source, shapes = geometry.require(data, weight)
    kernel = agreed_kernel(attrs.kernel_size, shapes.kernel)
    made = Channels.of(geometry, shapes, attrs.channels).agreed(attrs.channels)
    sizes = fitted(shapes.sizes, geometry.padding, geometry.windows(kernel), geometry.strides)
    shape = geometry.out.shape(geometry.result(shapes.batch, made, sizes))
    return TensorType(shape, attrs.out_dtype or source.dtype)


def _lower(context: LowerContext, attrs: ConvAttrs, data: relax.Expr, weight: relax.Expr) -> relax.Expr:
    geometry = Geometry.of(attrs)
    shapes = geometry.require_at_run_time(context, context.shape(data), context.shape(weight))
    name, channels = context.operator, Channels.of(geometry, shapes, attrs.channels)
    channels.require(context, attrs.channels)
    for have, wanted in zip(shapes.kernel, attrs.kernel_size or shapes.kernel, strict=True):
        if isinstance(wanted, int):
            context.require_equal(
                have, wanted, f"{name}: kernel_size has {{expected}} where the weight's kernel has {{actual}}"
            )
    require_fits(context, shapes.sizes, geometry.padding, geometry.windows(shapes.kernel))
    geometry.out.require_divides(context, geometry.result(shapes.batch, channels.outputs, shapes.sizes), name)
    out_dtype = attrs.out_dtype or context.types[0].dtype
    return context.te(lambda x, w: _convolve(geometry, x, w, out_dtype, attrs.channels), data, weight)


def _convolve(geometry: Geometry, data: te.Tensor, weight: te.Tensor, out_dtype: str, wanted: Dim | None) -> te.Tensor:
    """Return the convolution as one plain reduction over a padded stage."""
    shapes = geometry.shapes(*([dims.simplify(d) for d in t.shape] for t in (data, weight)))
    channels = Channels.of(geometry, shapes, wanted)
    padded = pad_spatial(data, [a for a, _ in geometry.data.axes], geometry.spatial, geometry.padding, 0)
    sizes = fitted(shapes.sizes, geometry.padding, geometry.windows(shapes.kernel), geometry.strides)
    reduced = {"C": te.reduce_axis((0, 1 if channels.is_multiplied else channels.of_group), name="rc")}
    for letter, size in zip(geometry.spatial, shapes.kernel, strict=True):
        reduced[letter] = te.reduce_axis((0, size), name=f"r{letter.lower()}")
    sums, multiplier = accumulator(out_dtype), channels.of_group

    def element(*index: tirx.Expr) -> tirx.Expr:
        return product(geometry.out.position(index))

    def product(at: Mapping[str, Any], group: tirx.Expr | None = None) -> tirx.Expr:
        """Return the sum for an output channel of the weight; the group, where the channel does not say it."""
        of_kernel = {"O": at["C"], "I": reduced["C"], **{s: reduced[s] for s in geometry.spatial}}
        of_data = {"N": at["N"], "C": reduced["C"]}
        if channels.is_multiplied:
            of_data["C"] = at["C"] // multiplier
            of_kernel |= {"O": at["C"] // multiplier, "I": at["C"] % multiplier}
        elif geometry.groups > 1:
            group = at["C"] // dims.floordiv(channels.outputs, geometry.groups) if group is None else group
            of_data["C"] = group * channels.of_group + reduced["C"]
        for letter, stride, dilation in zip(geometry.spatial, geometry.strides, geometry.dilation, strict=True):
            of_data[letter] = at[letter] * stride + reduced[letter] * dilation
        x, w = padded(*geometry.data.index(of_data)), weight(*geometry.kernel.index(of_kernel))
        # The reduction goes in the order in which the data lies in memory.
        axes = [reduced[a] for a in geometry.data.letters if a in reduced]
        return te.sum(x.astype(sums) * w.astype(sums), axis=axes)

    whole = geometry.result(shapes.batch, channels.outputs, sizes)
    shape = [dims.as_expr(d) for d in geometry.out.shape(whole)]
    name = f"conv{len(geometry.spatial)}d_{geometry.data.text.lower()}"
    if not channels.is_filled:
        return as_dtype(te.compute(shape, element, name=name), out_dtype)
    # Whole blocks are computed, each group's in axes of their own, and read without what fills them.
    block, groups = geometry.kernel.block("O"), geometry.groups
    of_group = dims.as_expr(dims.floordiv(channels.outputs, groups))
    blocks = dims.floordiv(shapes.first, groups * block)
    letters = ["N", *geometry.spatial]

    def blocked(*index: tirx.Expr) -> tirx.Expr:
        *others, group, outer, inner = index
        at = dict(zip(letters, others, strict=True))
        return product({**at, "C": (group * blocks + outer) * block + inner}, group)

    axes = [dims.as_expr(d) for d in [*(whole[a] for a in letters), groups, blocks, block]]
    sums_of_blocks = te.compute(axes, blocked, name=name)

    def cut(*index: tirx.Expr) -> tirx.Expr:
        at = geometry.out.position(index)
        group, channel = (0, at["C"]) if groups == 1 else (at["C"] // of_group, at["C"] % of_group)
        return sums_of_blocks(*(at[a] for a in letters), group, channel // block, channel % block)

    return as_dtype(te.compute(shape, cut, name=f"{name}_channels"), out_dtype)


class Convolution:
    """What all convolutions over data and weight have in common."""

    @staticmethod
    def infer_inputs(attrs: ConvAttrs, data: Type, weight: Type) -> dict[int, Type]:
        def channels(inputs: Dim, outputs: Dim) -> tuple[Dim, Dim]:
            return outputs, dims.floordiv(inputs, attrs.groups)

        return weight_type(Geometry.of(attrs), attrs, data, channels)

    relation = staticmethod(_type)
    lower = staticmethod(_lower)


@operator(
    "nn.conv{rank}d",
    "data",
    "weight",
    attrs=ConvAttrs,
    level=2,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    mixed="always",
    layout="own",
)
class Conv(Convolution):
    """Convolution over {axes}.

    A depthwise convolution has as many groups as channels; its weight is (channels * multiplier, 1, ...) or
    (channels, multiplier, ...), in the order of kernel_layout.
    """
