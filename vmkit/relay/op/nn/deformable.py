"""Deformable convolution: the window's points are moved by offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import IncompleteType, TensorType, Type
from ..agreement import may_agree, require_agreed
from ..attrs import Attrs, Dim, Dims, DType, Int, Ints, Str, attrs_node, field
from ..elementwise import require_tensor
from ..kernel import inside
from ..registry import OpPattern, operator
from .layout import ordered, require_rank
from .precision import accumulator, as_dtype
from .window import extent, fitted, padding_of, positive, require_fits
from .window_fields import each_axis, each_side, in_order

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []

_KERNEL_LAYOUTS = {"NCHW": "OIHW", "NHWC": "HWIO"}


@attrs_node("relay.attrs.DeformableConv{rank}DAttrs", ranks=(2,))
class DeformableConvAttrs(Attrs):
    """Attributes of nn.deformable_conv{rank}d."""

    strides: Ints = each_axis(1, "Steps of the window.")
    padding: Ints = each_side(0, "Elements added on each side: before all axes, then behind.")
    dilation: Ints = each_axis(1, "Steps between the elements of the window.")
    deformable_groups: Int = field(1, doc="Into how many groups the channels fall, each with its own offsets.")
    groups: Int = field(1, doc="Into how many groups the channels fall, none of which sees another's.")
    channels: Dim | None = field(None, doc="Channels of the result; those that the weight makes.")
    kernel_size: Dims | None = each_axis(None, "Size of the window; that of the weight.")
    data_layout: Str = in_order("NC", "Order of the data's axes.")
    kernel_layout: Str = in_order("OI", "Order of the weight's axes.")
    out_layout: Str = field("", doc="Order of the result's axes, which must be that of the data's.")
    out_dtype: DType = field("", doc="Data type of the result; that of the data where it is empty.")


def _result(attrs: DeformableConvAttrs, shape: list[Dim], kernel: list[Dim]) -> list[Dim]:
    """Return the spatial sizes of the result."""
    dilation = positive(attrs.dilation, 2, "dilation")
    windows = [extent(k, d) for k, d in zip(kernel, dilation, strict=True)]
    _, _, *sizes = ordered(shape, attrs.data_layout, "NCHW")
    return fitted(sizes, padding_of(attrs.padding, 2), windows, positive(attrs.strides, 2, "strides"))


def _offset_shape(attrs: DeformableConvAttrs, shape: list[Dim], kernel: list[Dim]) -> list[Dim]:
    (batch,) = ordered(shape, attrs.data_layout, "N")
    points = dims.mul(dims.product(kernel), 2 * attrs.deformable_groups)
    return ordered([batch, points, *_result(attrs, shape, kernel)], "NCHW", attrs.data_layout)


@operator(
    "nn.deformable_conv2d",
    "data",
    "offset",
    "weight",
    attrs=DeformableConvAttrs.over(2),
    level=5,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    layout="own",
)
class DeformableConv2D:
    """Convolution whose window reads at points moved by offset, interpolated between the elements.

    offset holds (y, x) for each point of the window, for each of deformable_groups groups of channels.
    """

    @staticmethod
    def infer_inputs(attrs: DeformableConvAttrs, data: Type, offset: Type, weight: Type) -> dict[int, Type]:
        unknown = isinstance(data, IncompleteType) or attrs.channels is None or attrs.kernel_size is None
        if unknown or attrs.data_layout not in _KERNEL_LAYOUTS:
            return {}
        source, kernel = require_tensor(data, "data"), list(attrs.kernel_size or ())
        require_rank(source, 4, "data")
        (channels,) = ordered(source.shape, attrs.data_layout, "C")
        shape = [attrs.channels, dims.floordiv(channels, max(attrs.groups, 1)), *kernel]
        filters = ordered(shape, "OIHW", _KERNEL_LAYOUTS[attrs.data_layout])
        made: dict[int, Type] = {2: TensorType(filters, source.dtype)}
        if isinstance(offset, IncompleteType):
            made[1] = TensorType(_offset_shape(attrs, list(source.shape), kernel), source.dtype)
        return made

    @staticmethod
    def relation(attrs: DeformableConvAttrs, data: Type, offset: Type, weight: Type) -> Type:
        source, moved, filters = (
            require_tensor(t, n) for t, n in ((data, "data"), (offset, "offset"), (weight, "weight"))
        )
        if _KERNEL_LAYOUTS.get(attrs.data_layout) != attrs.kernel_layout or attrs.out_layout not in (
            "",
            attrs.data_layout,
        ):
            raise TypeCheckError(
                "the layouts of data and weight must be NCHW and OIHW, or NHWC and HWIO, and that of the result the "
                f"data's, not {attrs.data_layout!r}, {attrs.kernel_layout!r} and {attrs.out_layout!r}"
            )
        for ty, name in ((source, "data"), (moved, "offset"), (filters, "weight")):
            require_rank(ty, 4, name)
        batch, channels, *_ = ordered(source.shape, attrs.data_layout, "NCHW")
        outputs, inputs, *kernel = ordered(filters.shape, attrs.kernel_layout, "OIHW")
        for count, whose in ((channels, "the data"), (outputs, "the result")):
            if attrs.groups < 1 or (isinstance(count, int) and count % attrs.groups):
                raise TypeCheckError(f"groups is {attrs.groups}, which does not divide the {count} channels of {whose}")
        if dims.equal(channels, dims.mul(inputs, attrs.groups)) is False:
            raise TypeCheckError(
                f"the data has {channels} channels, but the weight takes {inputs} in each of {attrs.groups} groups"
            )
        if attrs.channels is not None and dims.equal(attrs.channels, outputs) is False:
            raise TypeCheckError(f"channels is {attrs.channels}, but the weight makes {outputs}")
        if attrs.deformable_groups < 1 or (isinstance(channels, int) and channels % attrs.deformable_groups):
            raise TypeCheckError(
                f"deformable_groups is {attrs.deformable_groups}, which does not divide the {channels} channels"
            )
        wanted = _offset_shape(attrs, list(source.shape), kernel)
        if not may_agree(wanted, moved.shape):
            raise TypeCheckError(f"offset must have shape ({', '.join(str(d) for d in wanted)}), not {moved}")
        shape = [batch, outputs, *_result(attrs, list(source.shape), kernel)]
        return TensorType(ordered(shape, "NCHW", attrs.data_layout), attrs.out_dtype or source.dtype)

    @staticmethod
    def lower(
        context: LowerContext, attrs: DeformableConvAttrs, data: relax.Expr, offset: relax.Expr, weight: relax.Expr
    ) -> relax.Expr:
        shape = context.shape(data)
        _, channels, *sizes = ordered(shape, attrs.data_layout, "NCHW")
        outputs, inputs, *kernel = ordered(context.shape(weight), attrs.kernel_layout, "OIHW")
        name, message = context.operator, "the data has {actual} channels, but the weight takes {expected}"
        context.require_equal(channels, dims.mul(inputs, attrs.groups), f"{name}: {message}")
        for which, count in (("groups", outputs), ("deformable_groups", channels)):
            parts = getattr(attrs, which)
            if parts > 1 and not isinstance(count, int):
                message = f"{name}: {which} is {parts}, which does not divide the channels"
                context.require(dims.as_expr(count) % parts == 0, message)
        windows = [extent(k, d) for k, d in zip(kernel, positive(attrs.dilation, 2, "dilation"), strict=True)]
        require_fits(context, sizes, padding_of(attrs.padding, 2), windows)
        require_agreed(context, context.shape(offset), _offset_shape(attrs, shape, kernel), "offset")
        return context.te(lambda *tensors: _convolve(attrs, *tensors), data, offset, weight)


def _convolve(attrs: DeformableConvAttrs, data: te.Tensor, offset: te.Tensor, weight: te.Tensor) -> te.Tensor:
    axes = attrs.data_layout
    batch, channels, height, width = ordered(data.shape, axes, "NCHW")
    outputs, inputs, *kernel = ordered(weight.shape, attrs.kernel_layout, "OIHW")
    places = ordered(offset.shape, axes, "HW")
    strides, dilation = positive(attrs.strides, 2, "strides"), positive(attrs.dilation, 2, "dilation")
    padding = padding_of(attrs.padding, 2)
    dtype, out_dtype = str(data.dtype), attrs.out_dtype or str(data.dtype)
    of_part = tirx.floordiv(channels, attrs.deformable_groups)

    def moved(n: tirx.Expr, c: tirx.Expr, ky: tirx.Expr, kx: tirx.Expr, y: tirx.Expr, x: tirx.Expr) -> tirx.Expr:
        point = (tirx.floordiv(c, of_part) * kernel[0] * kernel[1] + ky * kernel[1] + kx) * 2
        shifts = [offset(*ordered([n, point + i, y, x], "NCHW", axes)) for i in (0, 1)]
        row = (y * strides[0] - padding[0] + ky * dilation[0]).astype(dtype) + shifts[0]
        column = (x * strides[1] - padding[1] + kx * dilation[1]).astype(dtype) + shifts[1]
        return _between(lambda i, j: data(*ordered([n, c, i, j], "NCHW", axes)), row, column, (height, width))

    # The points are read once for all output channels.
    points = te.compute([batch, channels, *kernel, *places], moved, name="data_deform")
    rc = te.reduce_axis((0, inputs), name="rc")
    ry, rx = (te.reduce_axis((0, k), name=name) for k, name in zip(kernel, ("ry", "rx"), strict=True))
    sums = accumulator(out_dtype)

    def element(*index: tirx.Expr) -> tirx.Expr:
        n, o, y, x = ordered(index, axes, "NCHW")
        c = rc if attrs.groups == 1 else tirx.floordiv(o, tirx.floordiv(outputs, attrs.groups)) * inputs + rc
        w = weight(*ordered([o, rc, ry, rx], "OIHW", attrs.kernel_layout))
        return te.sum(points(n, c, ry, rx, y, x).astype(sums) * w.astype(sums), axis=[rc, ry, rx])

    shape = ordered([batch, outputs, *places], "NCHW", axes)
    return as_dtype(te.compute(shape, element, name="deformable_conv2d"), out_dtype)


def _between(
    read: Callable[..., tirx.Expr],
    row: tirx.Expr,
    column: tirx.Expr,
    sizes: tuple[tirx.Expr, tirx.Expr],
) -> tirx.Expr:
    """Return an image at a point between its pixels, by those around it.

    A pixel past the end counts as 0, and so does a point that is not on the image, before its first pixel too.
    """
    dtype = str(row.ty.dtype)
    value: Any = tirx.const(0, dtype)
    low = [tirx.floor(at).astype("int64") for at in (row, column)]
    share = [at - tirx.floor(at) for at in (row, column)]
    for steps in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight, tests, pixel = tirx.const(1, dtype), [], []
        for axis, step in enumerate(steps):
            at = low[axis] + step
            weight = weight * (share[axis] if step else tirx.const(1, dtype) - share[axis])
            tests += [low[axis] >= 0, at < sizes[axis]]
            pixel.append(inside(at, sizes[axis]))
        value = value + weight * tirx.if_then_else(tirx.all(*tests), read(*pixel), tirx.const(0, dtype))
    return value
