"""Correlation of the patches of two images, as in FlowNet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, te, topi

from ....errors import TypeCheckError
from ...ir.types import TensorType, Type
from ..agreement import may_agree
from ..attrs import Attrs, Bool, Dim, Int, Ints, Str, attrs_node, field
from ..elementwise import require_tensor
from ..fields import REQUIRED
from ..registry import OpPattern, operator
from .layout import require_rank
from .precision import accumulator, as_dtype
from .window import output_size, padding_of, require_fits
from .window_fields import each_axis, in_order

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.CorrelationAttrs", ranks=(2,))
class CorrelationAttrs(Attrs):
    """Attributes of nn.correlation."""

    kernel_size: Int = field(1, script=REQUIRED, doc="Size of a patch on each axis.")
    max_displacement: Int = field(1, script=REQUIRED, doc="How far the patches of the second image lie away, at most.")
    stride1: Int = field(1, script=REQUIRED, doc="Steps of the patches of the first image.")
    stride2: Int = field(1, script=REQUIRED, doc="Steps of the displacements.")
    padding: Ints = each_axis(0, "Elements added on each side of both images.", script=REQUIRED)
    is_multiply: Bool = field(True, script=REQUIRED, doc="Whether products are summed, not absolute differences.")
    layout: Str = in_order("NC", "Order of the axes, which must be NCHW.")


def _window(attrs: CorrelationAttrs) -> int:
    """Return how far the kernel reaches, with all its displacements."""
    return 2 * attrs.max_displacement + attrs.kernel_size


def _result(attrs: CorrelationAttrs, shape: list[Dim]) -> list[Dim]:
    batch, _, *sizes = shape
    padding = padding_of(attrs.padding, 2)
    made = [output_size(d, padding[i], padding[2 + i], _window(attrs), attrs.stride1) for i, d in enumerate(sizes)]
    steps = 2 * (attrs.max_displacement // attrs.stride2) + 1
    return [batch, steps * steps, *made]


@operator(
    "nn.correlation", "data1", "data2", attrs=CorrelationAttrs.over(2), level=2, pattern=OpPattern.OUT_ELEMWISE_FUSABLE
)
class Correlation:
    """For each displacement, the mean product (or absolute difference) of patches of one image and the other."""

    @staticmethod
    def relation(attrs: CorrelationAttrs, data1: Type, data2: Type) -> Type:
        first, second = require_tensor(data1, "data1"), require_tensor(data2, "data2")
        require_rank(first, 4, "data1")
        require_rank(second, 4, "data2")
        if attrs.layout != "NCHW":
            raise TypeCheckError(f"layout must be NCHW, not {attrs.layout!r}")
        if attrs.kernel_size < 1 or attrs.kernel_size % 2 == 0:
            raise TypeCheckError(f"kernel_size must be odd and positive, not {attrs.kernel_size}")
        if attrs.max_displacement < 0 or attrs.stride1 < 1 or attrs.stride2 < 1:
            raise TypeCheckError("the strides must be positive, and max_displacement must not be negative")
        if first.dtype != second.dtype or not may_agree(first.shape, second.shape):
            raise TypeCheckError(f"data1 and data2 must have one type, not {first} and {second}")
        return TensorType(_result(attrs, list(first.shape)), first.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: CorrelationAttrs, data1: relax.Expr, data2: relax.Expr) -> relax.Expr:
        shape = context.shape(data1)
        for axis, (a, b) in enumerate(zip(shape, context.shape(data2), strict=True)):
            message = f"nn.correlation: dimension {axis} is {{actual}} in data1 and {{expected}} in data2"
            context.require_equal(a, b, message)
        require_fits(context, shape[2:], padding_of(attrs.padding, 2), [_window(attrs)] * 2)
        if not all(isinstance(d, int) for d in shape):
            # TVM's kernel wants the two shapes to be the same expressions.
            data2 = context.pin(data2, shape)
        return context.te(lambda x, y: _correlate(attrs, x, y), data1, data2)


def _correlate(attrs: CorrelationAttrs, data1: te.Tensor, data2: te.Tensor) -> te.Tensor:
    dtype = str(data1.dtype)
    first, second = (as_dtype(x, accumulator(dtype)) for x in (data1, data2))
    mean = topi.nn.correlation_nchw(
        first,
        second,
        attrs.kernel_size,
        attrs.max_displacement,
        attrs.stride1,
        attrs.stride2,
        padding_of(attrs.padding, 2),
        attrs.is_multiply,
    )
    return as_dtype(mean, dtype)
