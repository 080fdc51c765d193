"""Transposed convolutions over one, two and three spatial axes, in every order of the axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...._dataclasses import dataclass
from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, Type
from ..attrs import Attrs, Dim, Dims, DType, Int, Ints, Str, attrs_node, field
from ..registry import OpPattern, Parameters, operator
from .geometry import Geometry, agreed_kernel, weight_type
from .precision import accumulator, as_dtype
from .window import extent
from .window_fields import each_axis, each_side, in_order

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = ["ConvTransposeAttrs"]


@attrs_node("relay.attrs.Conv{rank}DTransposeAttrs", ranks=(1, 2, 3))
class ConvTransposeAttrs(Attrs):
    """Attributes of nn.conv{rank}d_transpose."""

    channels: Dim | None = field(None, doc="Channels of the result; those that the weight makes.")
    kernel_size: Dims | None = each_axis(None, "Size of the window; that of the weight.")
    strides: Ints = each_axis(1, "How far the elements of the data are spread.")
    output_padding: Ints = each_axis(0, "Elements added at the end of each axis of the result.")
    padding: Ints = each_side(0, "Elements cut off on each side: before all axes, then behind.", spread_from=2)
    dilation: Ints = each_axis(1, "Steps between the elements of the window.")
    groups: Int = field(1, doc="Into how many groups the channels fall, none of which sees another's.")
    data_layout: Str = in_order("NC", "Order of the data's axes.")
    kernel_layout: Str = in_order("IO", "Order of the weight's axes.")
    out_layout: Str = field("", doc="Order of the result's axes; that of the data where it is empty.")
    out_dtype: DType = field("", doc="Data type of the result; that of the data where it is empty.")


@dataclass(frozen=True)
class Transposed(Geometry):
    """The geometry of a transposed convolution, whose weight is (input channels, output channels of a group, ...)."""

    output_padding: list[int]

    @classmethod
    def read(cls, attrs: ConvTransposeAttrs) -> Transposed:
        """Read the attributes; TypeCheckError where they make no sense."""
        rank, extra = attrs.rank, [int(p) for p in attrs.output_padding]
        extra = extra * rank if len(extra) == 1 else extra
        if len(extra) != rank and not (len(extra) == 2 * rank and extra[:rank] == extra[rank:]):
            raise TypeCheckError(f"output_padding must have {rank} values, not {len(extra)}: {extra}")
        extra = extra[:rank]
        if any(e < 0 for e in extra):
            raise TypeCheckError(f"output_padding must not be negative: {extra}")
        return cls.of(attrs, "IO", output_padding=extra)

    def result_sizes(self, sizes: Sequence[Dim], kernel: Sequence[Dim]) -> list[Dim]:
        """Return the spatial sizes of the result: ``(size - 1) * stride + window - padding + output_padding``."""
        rank, result = len(self.spatial), []
        for i, (size, k) in enumerate(zip(sizes, kernel, strict=True)):
            reach = dims.add(extent(k, self.dilation[i]), self.output_padding[i] - self.strides[i])
            rest = dims.sub(reach, self.padding[i] + self.padding[rank + i])
            total = dims.add(dims.mul(size, self.strides[i]), rest)
            if isinstance(total, int) and total < 0 < size:
                raise TypeCheckError(f"padding {self.padding} cuts off more than the whole result of an axis of {size}")
            result.append(max(total, 0) if isinstance(total, int) else total)
        return result

    def empty_below(self, kernel: Sequence[int]) -> list[int]:
        """Return for each axis the least size whose result is not negative."""
        rank = len(self.spatial)
        least = []
        for i, k in enumerate(kernel):
            rest = extent(k, self.dilation[i]) + self.output_padding[i] - self.strides[i]
            rest -= self.padding[i] + self.padding[rank + i]
            least.append(max(-(rest // self.strides[i]), 0))
        return least


def _type(attrs: ConvTransposeAttrs, data: Type, weight: Type) -> Type:
    geometry = Transposed.read(attrs)
    source, shapes = geometry.require(data, weight)
    kernel, channels = agreed_kernel(attrs.kernel_size, shapes.kernel), shapes.channels
    if dims.equal(channels, shapes.first) is False:
        raise TypeCheckError(f"the data has {channels} channels, but the weight takes {shapes.first}")
    if isinstance(channels, int) and channels % geometry.groups:
        raise TypeCheckError(f"groups is {geometry.groups}, which does not divide the {channels} channels of the data")
    made = dims.mul(shapes.second, geometry.groups)
    if attrs.channels is not None:
        if dims.equal(made, attrs.channels) is False:
            raise TypeCheckError(f"channels is {attrs.channels}, but the weight makes {made}")
        made = attrs.channels
    result = geometry.result(shapes.batch, made, geometry.result_sizes(shapes.sizes, kernel))
    return TensorType(geometry.out.shape(result), attrs.out_dtype or source.dtype)


def _lower(context: LowerContext, attrs: ConvTransposeAttrs, data: relax.Expr, weight: relax.Expr) -> relax.Expr:
    geometry = Transposed.read(attrs)
    shapes = geometry.require_at_run_time(context, context.shape(data), context.shape(weight))
    name, made = context.operator, dims.mul(shapes.second, geometry.groups)
    context.require_equal(
        shapes.channels, shapes.first, f"{name}: the data has {{actual}} channels, but the weight takes {{expected}}"
    )
    if geometry.groups > 1 and not isinstance(shapes.channels, int):
        context.require(
            tirx.floormod(dims.as_expr(shapes.channels), geometry.groups) == 0,
            f"{name}: groups is {geometry.groups}, which does not divide the channels of the data",
        )
    if isinstance(attrs.channels, int):
        message = f"{name}: channels is {{expected}}, but the weight makes {{actual}}"
        context.require_equal(made, attrs.channels, message)
    for have, wanted in zip(shapes.kernel, attrs.kernel_size or shapes.kernel, strict=True):
        if isinstance(wanted, int):
            message = f"{name}: kernel_size has {{expected}} where the weight's kernel has {{actual}}"
            context.require_equal(have, wanted, message)
    kernel = [k for k in shapes.kernel if isinstance(k, int)]
    if len(kernel) == len(shapes.kernel):
        for axis, (size, least) in enumerate(zip(shapes.sizes, geometry.empty_below(kernel), strict=True)):
            if least > 0 and not isinstance(size, int):
                context.require(
                    size >= least, f"{name}: spatial axis {axis} is shorter than {least}, so the result has no size"
                )
    geometry.out.require_divides(context, geometry.result(shapes.batch, made, shapes.sizes), name)
    return context.te(lambda x, w: _spread(geometry, x, w, attrs.out_dtype or str(x.dtype)), data, weight)


def _spread(geometry: Transposed, data: te.Tensor, weight: te.Tensor, out_dtype: str) -> te.Tensor:
    """Return the transposed convolution: a plain one with the kernel turned round, over the data spread by strides."""
    shapes = geometry.shapes(*([dims.simplify(d) for d in t.shape] for t in (data, weight)))
    outputs, kernel = shapes.second, shapes.kernel
    result = geometry.result_sizes(shapes.sizes, kernel)
    windows = geometry.windows(kernel)
    before = [dims.sub(dims.sub(w, 1), p) for w, p in zip(windows, geometry.padding, strict=False)]

    def spread(*index: tirx.Expr) -> tirx.Expr:
        at, tests = geometry.data.position(index), []
        for i, letter in enumerate(geometry.spatial):
            position, stride = at[letter] - before[i], geometry.strides[i]
            source = tirx.floordiv(position, stride) if stride > 1 else position
            tests += [position >= 0, source < dims.as_expr(shapes.sizes[i])]
            if stride > 1:
                tests.append(tirx.floormod(position, stride) == 0)
            at[letter] = source
        return tirx.if_then_else(tirx.all(*tests), data(*geometry.data.index(at)), tirx.const(0, data.dtype))

    whole = [dims.sub(dims.add(r, w), 1) for r, w in zip(result, windows, strict=True)]
    reach = geometry.data.shape(geometry.result(shapes.batch, shapes.channels, whole))
    stage = te.compute([dims.as_expr(d) for d in reach], spread, name="pad_temp")
    group_inputs = dims.floordiv(shapes.channels, geometry.groups)
    reduced = {"C": te.reduce_axis((0, dims.as_expr(group_inputs)), name="rc")}
    for letter, size in zip(geometry.spatial, kernel, strict=True):
        reduced[letter] = te.reduce_axis((0, size), name=f"r{letter.lower()}")
    sums = accumulator(out_dtype)

    def element(*index: tirx.Expr) -> tirx.Expr:
        at = geometry.out.position(index)
        of_data = {"N": at["N"], "C": reduced["C"]}
        of_kernel = {"O": at["C"], "I": reduced["C"]}
        if geometry.groups > 1:
            of_data["C"] = of_kernel["I"] = tirx.floordiv(at["C"], outputs) * group_inputs + reduced["C"]
            of_kernel["O"] = tirx.floormod(at["C"], outputs)
        for letter, size, step in zip(geometry.spatial, kernel, geometry.dilation, strict=True):
            of_data[letter] = at[letter] + reduced[letter] * step
            of_kernel[letter] = size - 1 - reduced[letter]
        x, w = stage(*geometry.data.index(of_data)), weight(*geometry.kernel.index(of_kernel))
        axes = [reduced[a] for a in geometry.data.letters if a in reduced]
        return te.sum(x.astype(sums) * w.astype(sums), axis=axes)

    shape = geometry.out.shape(geometry.result(shapes.batch, dims.mul(outputs, geometry.groups), result))
    name = f"conv{len(geometry.spatial)}d_transpose_{geometry.data.text.lower()}"
    return as_dtype(te.compute([dims.as_expr(d) for d in shape], element, name=name), out_dtype)


_ORDER = (
    "data weight strides padding dilation groups channels kernel_size data_layout kernel_layout out_layout "
    "output_padding out_dtype"
)


@operator(
    "nn.conv{rank}d_transpose",
    "data",
    "weight",
    attrs=ConvTransposeAttrs,
    level=2,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    parameters=Parameters(_ORDER),
    mixed="always",
    layout="own",
)
class ConvTranspose:
    """Transposed convolution over {axes}.

    The weight is (input channels, output channels of a group, ...), in the order of kernel_layout.
    """

    @staticmethod
    def infer_inputs(attrs: ConvTransposeAttrs, data: Type, weight: Type) -> dict[int, Type]:
        def channels(inputs: Dim, outputs: Dim) -> tuple[Dim, Dim]:
            return inputs, dims.floordiv(outputs, attrs.groups)

        return weight_type(Transposed.read(attrs), attrs, data, channels)

    relation = staticmethod(_type)
    lower = staticmethod(_lower)
