"""Gradient of a convolution over two spatial axes with regard to its weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...._dataclasses import dataclass
from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import Dim, TensorType, Type
from ..elementwise import require_tensor
from ..registry import OpPattern, Parameters, operator
from .convolution import ConvAttrs
from .geometry import spatial_layout
from .layout import Layout
from .precision import accumulator, as_dtype
from .window import extent, fitted, pad_spatial, padding_of, positive, require_fits

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


@dataclass(frozen=True)
class _Gradient:
    """The layouts and numbers of a weight's gradient, checked.

    Relay kept them in the attributes of a convolution: data_layout is that of the gradient, kernel_layout that of the
    data and out_layout that of the weight.
    """

    grad: Layout
    data: Layout
    weight: Layout
    kernel: list[Dim]
    strides: list[int]
    dilation: list[int]
    padding: list[int]
    groups: int

    @classmethod
    def of(cls, attrs: ConvAttrs) -> _Gradient:
        if attrs.kernel_size is None or len(attrs.kernel_size) != 2:
            raise TypeCheckError("kernel_size must be given with 2 values, for the shape of the weight follows from it")
        if attrs.groups < 1:
            raise TypeCheckError(f"groups must be positive, not {attrs.groups}")
        return cls(
            spatial_layout(attrs.data_layout, "NC", "HW", "grad_layout"),
            spatial_layout(attrs.kernel_layout, "NC", "HW", "data_layout"),
            spatial_layout(attrs.out_layout, "OI", "HW", "kernel_layout"),
            list(attrs.kernel_size),
            positive(attrs.strides, 2, "strides"),
            positive(attrs.dilation, 2, "dilation"),
            padding_of(attrs.padding, 2),
            attrs.groups,
        )

    def windows(self) -> list[Dim]:
        """Return how far the dilated kernel reaches on each axis."""
        return [extent(k, d) for k, d in zip(self.kernel, self.dilation, strict=True)]

    def weight_shape(self, outputs: Dim, channels: Dim) -> list[Dim]:
        """Return the shape of the weight."""
        inputs = dims.floordiv(channels, self.groups)
        return self.weight.shape(dict(zip("OIHW", [outputs, inputs, *self.kernel], strict=True)))


@operator(
    "nn.conv2d_backward_weight",
    "grad",
    "data",
    attrs=ConvAttrs.over(2),
    level=2,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    layout="own",
    parameters=Parameters(
        "grad data strides padding dilation groups channels kernel_size grad_layout data_layout kernel_layout "
        "out_dtype",
        renamed={"grad_layout": "data_layout", "data_layout": "kernel_layout", "kernel_layout": "out_layout"},
        given={"data_layout": "NCHW", "kernel_layout": "OIHW"},
        kept=("padding",),
    ),
)
class Conv2DBackwardWeight:
    """The gradient of nn.conv2d with regard to its weight, from that of its result and the data."""

    @staticmethod
    def relation(attrs: ConvAttrs, grad: Type, data: Type) -> Type:
        given, source, how = require_tensor(grad, "grad"), require_tensor(data, "data"), _Gradient.of(attrs)
        how.grad.require(given, "grad")
        how.data.require(source, "data")
        batch, outputs, *places = how.grad.sizes(given.shape, "NCHW")
        images, channels, *sizes = how.data.sizes(source.shape, "NCHW")
        for count, whose in ((channels, "data"), (outputs, "grad")):
            if isinstance(count, int) and count % how.groups:
                raise TypeCheckError(f"groups is {how.groups}, which does not divide the {count} channels of {whose}")
        if attrs.channels is not None and dims.equal(attrs.channels, outputs) is False:
            raise TypeCheckError(f"channels is {attrs.channels}, but grad has {outputs}")
        wanted = [images, *fitted(sizes, how.padding, how.windows(), how.strides)]
        for letter, have, want in zip("NHW", [batch, *places], wanted, strict=True):
            if dims.equal(have, want) is False:
                raise TypeCheckError(f"axis {letter} of grad has {have} elements; the convolution of data gives {want}")
        return TensorType(how.weight_shape(outputs, channels), attrs.out_dtype or given.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: ConvAttrs, grad: relax.Expr, data: relax.Expr) -> relax.Expr:
        how, name = _Gradient.of(attrs), context.operator
        how.grad.require_at_run_time(context, context.shape(grad), "grad")
        how.data.require_at_run_time(context, context.shape(data), "data")
        batch, outputs, *places = how.grad.sizes(context.shape(grad), "NCHW")
        images, channels, *sizes = how.data.sizes(context.shape(data), "NCHW")
        require_fits(context, sizes, how.padding, how.windows())
        wanted = [images, *fitted(sizes, how.padding, how.windows(), how.strides)]
        for letter, have, want in zip("NHW", [batch, *places], wanted, strict=True):
            message = (
                f"{name}: axis {letter} of grad has {{actual}} elements; the convolution of data gives {{expected}}"
            )
            context.require_equal(have, want, message)
        if isinstance(attrs.channels, int):
            context.require_equal(outputs, attrs.channels, f"{name}: channels is {{expected}}, but grad has {{actual}}")
        for count, whose in ((channels, "data"), (outputs, "grad")):
            if how.groups > 1 and not isinstance(count, int):
                context.require(
                    dims.as_expr(count) % how.groups == 0,
                    f"{name}: groups is {how.groups}, which does not divide the channels of {whose}",
                )
        whole = {"O": outputs, "I": dims.floordiv(channels, how.groups), "H": how.kernel[0], "W": how.kernel[1]}
        how.weight.require_divides(context, whole, name)
        return context.te(lambda g, x: _weight_gradient(how, g, x, attrs.out_dtype or str(g.dtype)), grad, data)


def _weight_gradient(how: _Gradient, grad: te.Tensor, data: te.Tensor, out_dtype: str) -> te.Tensor:
    batch, outputs, *places = how.grad.sizes([dims.simplify(d) for d in grad.shape], "NCHW")
    _, channels, *_ = how.data.sizes([dims.simplify(d) for d in data.shape], "NCHW")
    inputs = dims.floordiv(channels, how.groups)
    padded = pad_spatial(data, [a for a, _ in how.data.axes], "HW", how.padding, 0)
    over = [te.reduce_axis((0, dims.as_expr(d)), name=n) for n, d in zip("nyx", [batch, *places], strict=True)]
    image, *place = over
    sums = accumulator(out_dtype)

    def element(*index: tirx.Expr) -> tirx.Expr:
        at = how.weight.position(index)
        of_data = {"N": image, "C": at["I"]}
        if how.groups > 1:
            of_data["C"] = at["O"] // dims.floordiv(outputs, how.groups) * inputs + at["I"]
        for i, letter in enumerate("HW"):
            of_data[letter] = place[i] * how.strides[i] + at[letter] * how.dilation[i]
        g = grad(*how.grad.index({"N": image, "C": at["O"], "H": place[0], "W": place[1]}))
        return te.sum(g.astype(sums) * padded(*how.data.index(of_data)).astype(sums), axis=over)

    shape = [dims.as_expr(d) for d in how.weight_shape(outputs, channels)]
    return as_dtype(te.compute(shape, element, name="conv2d_backward_weight"), out_dtype)
