"""Deformable convolution: the window's points are moved by offsets."""

from __future__ import annotations

from typing import Any

from tvm import relax, topi

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import IncompleteType, TensorType, Type
from ..attrs import Attrs, Dim, Dims, DType, Int, Ints, Str, attrs_node
from ..elementwise import require_tensor
from ..registry import OpPattern, operator
from .layout import ordered, require_rank
from .window import extent, fitted, padding_of, positive, require_fits, window_builder

__all__: list[str] = []

_KERNEL_LAYOUTS = {"NCHW": "OIHW", "NHWC": "HWIO"}
_KERNELS = {"NCHW": topi.nn.deformable_conv2d_nchw, "NHWC": topi.nn.deformable_conv2d_nhwc}


@attrs_node("relay.attrs.DeformableConv2DAttrs")
class DeformableConv2DAttrs(Attrs):
    """Attributes of nn.deformable_conv2d."""

    strides: Ints = (1, 1)
    padding: Ints = (0, 0)
    dilation: Ints = (1, 1)
    deformable_groups: Int = 1
    groups: Int = 1
    channels: Dim | None = None
    kernel_size: Dims | None = None
    data_layout: Str = "NCHW"
    kernel_layout: Str = "OIHW"
    out_layout: Str = ""
    out_dtype: DType = ""


def _result(attrs: DeformableConv2DAttrs, shape: list[Dim], kernel: list[Dim]) -> list[Dim]:
    """Return the spatial sizes of the result."""
    dilation = positive(attrs.dilation, 2, "dilation")
    windows = [extent(k, d) for k, d in zip(kernel, dilation, strict=True)]
    _, _, *sizes = ordered(shape, attrs.data_layout, "NCHW")
    return fitted(sizes, padding_of(attrs.padding, 2), windows, positive(attrs.strides, 2, "strides"))


def _offset_shape(attrs: DeformableConv2DAttrs, shape: list[Dim], kernel: list[Dim]) -> list[Dim]:
    (batch,) = ordered(shape, attrs.data_layout, "N")
    points = dims.mul(dims.product(kernel), 2 * attrs.deformable_groups)
    return ordered([batch, points, *_result(attrs, shape, kernel)], "NCHW", attrs.data_layout)


@operator(
    "nn.deformable_conv2d",
    "data",
    "offset",
    "weight",
    attrs=DeformableConv2DAttrs,
    level=5,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
)
class DeformableConv2D:
    """Convolution whose window reads at points moved by offset, interpolated between the elements.

    offset holds (y, x) for each point of the window, for each of deformable_groups groups of channels.
    """

    build = staticmethod(
        window_builder(
            "nn.deformable_conv2d",
            ("data", "offset", "weight"),
            2,
            strides=(1, 1),
            padding=(0, 0),
            dilation=(1, 1),
            deformable_groups=1,
            groups=1,
            channels=None,
            kernel_size=None,
            data_layout="NCHW",
            kernel_layout="OIHW",
            out_layout="",
            out_dtype="",
        )
    )

    @staticmethod
    def infer_inputs(attrs: DeformableConv2DAttrs, data: Type, offset: Type, weight: Type) -> dict[int, Type]:
        unknown = isinstance(data, IncompleteType) or attrs.channels is None or attrs.kernel_size is None
        if unknown or attrs.data_layout not in _KERNEL_LAYOUTS:
            return {}
        source, kernel = require_tensor(data, "data"), list(attrs.kernel_size or ())
        require_rank(source, 4, "data")
        (channels,) = ordered(source.shape, attrs.data_layout, "C")
        filters = ordered([attrs.channels, channels, *kernel], "OIHW", _KERNEL_LAYOUTS[attrs.data_layout])
        made = {2: TensorType(filters, source.dtype)}
        if isinstance(offset, IncompleteType):
            made[1] = TensorType(_offset_shape(attrs, list(source.shape), kernel), source.dtype)
        return made

    @staticmethod
    def relation(attrs: DeformableConv2DAttrs, data: Type, offset: Type, weight: Type) -> Type:
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
        if attrs.groups != 1:
            raise TypeCheckError(f"groups must be 1, not {attrs.groups}")
        if dims.equal(channels, inputs) is False:
            raise TypeCheckError(f"the data has {channels} channels, but the weight takes {inputs}")
        if attrs.channels is not None and dims.equal(attrs.channels, outputs) is False:
            raise TypeCheckError(f"channels is {attrs.channels}, but the weight makes {outputs}")
        if attrs.deformable_groups < 1 or (isinstance(channels, int) and channels % attrs.deformable_groups):
            raise TypeCheckError(
                f"deformable_groups is {attrs.deformable_groups}, which does not divide the {channels} channels"
            )
        wanted = _offset_shape(attrs, list(source.shape), kernel)
        if any(dims.equal(a, b) is False for a, b in zip(wanted, moved.shape, strict=True)):
            raise TypeCheckError(f"offset must have shape ({', '.join(str(d) for d in wanted)}), not {moved}")
        shape = [batch, outputs, *_result(attrs, list(source.shape), kernel)]
        return TensorType(ordered(shape, "NCHW", attrs.data_layout), attrs.out_dtype or source.dtype)

    @staticmethod
    def lower(
        context: Any, attrs: DeformableConv2DAttrs, data: relax.Expr, offset: relax.Expr, weight: relax.Expr
    ) -> Any:
        shape = context.shape(data)
        _, channels, *sizes = ordered(shape, attrs.data_layout, "NCHW")
        _, inputs, *kernel = ordered(context.shape(weight), attrs.kernel_layout, "OIHW")
        name, groups = context.current.name, attrs.deformable_groups
        context.require_equal(
            channels, inputs, f"{name}: the data has {{actual}} channels, but the weight takes {{expected}}"
        )
        if not isinstance(inputs, int):
            context.require(
                inputs % groups == 0, f"{name}: deformable_groups is {groups}, which does not divide the channels"
            )
        windows = [extent(k, d) for k, d in zip(kernel, positive(attrs.dilation, 2, "dilation"), strict=True)]
        require_fits(context, sizes, padding_of(attrs.padding, 2), windows)
        for axis, (have, want) in enumerate(
            zip(context.shape(offset), _offset_shape(attrs, shape, kernel), strict=True)
        ):
            context.require_equal(
                have, want, f"{name}: dimension {axis} of offset is {{actual}}, expected {{expected}}"
            )
        numbers = [
            positive(attrs.strides, 2, "strides"),
            padding_of(attrs.padding, 2),
            positive(attrs.dilation, 2, "dilation"),
        ]
        compute = _KERNELS[attrs.data_layout]
        return context.te(
            lambda x, o, w: compute(x, o, w, *numbers, groups, 1, attrs.out_dtype or str(x.dtype)), data, offset, weight
        )
