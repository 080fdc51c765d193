"""What a deformed window reads: the columns of a deformable convolution, of any number of spatial dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Expr
from ...ir.types import Dim, TensorType, Type
from ..agreement import may_agree, require_agreed
from ..attrs import Attrs, Int, Ints, attrs_node
from ..elementwise import require_tensor
from ..kernel import inside
from ..registry import OpPattern, entry, operator
from .window import extent, fitted, padding_of, positive, require_fits

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.ContribDeformedColumnsAttrs")
class DeformedColumnsAttrs(Attrs):
    """Attributes of nn.contrib_deformed_columns; padding holds all beginnings, then all ends."""

    kernel_size: Ints
    strides: Ints
    padding: Ints
    dilation: Ints
    deformable_groups: Int = 1


@operator(
    "nn.contrib_deformed_columns",
    "data",
    "offset",
    "*mask",
    attrs=DeformedColumnsAttrs,
    level=10,
    pattern=OpPattern.INJECTIVE,
)
class DeformedColumns:
    """The elements that windows read: (batch, points of the window, positions of the result, channels).

    Each point is moved by offset (batch, deformable_groups * points * spatial dimensions, positions...) and read
    between the elements around it, those outside of data counting as 0; mask (batch, deformable_groups * points,
    positions...) multiplies it.
    """

    @staticmethod
    def build(data: Expr, offset: Expr, mask: Expr | None = None, **attrs: Any) -> Expr:
        given = [data, offset] if mask is None else [data, offset, mask]
        return entry("nn.contrib_deformed_columns").call(*given, **attrs)

    @staticmethod
    def relation(attrs: DeformedColumnsAttrs, data: Type, offset: Type, *mask: Type) -> Type:
        source = require_tensor(data, "data")
        rank = len(attrs.kernel_size)
        if len(source.shape) != rank + 2 or not source.dtype.startswith(("float", "bfloat")) or len(mask) > 1:
            raise TypeCheckError(f"data must be floats of batch, channels and {rank} spatial dimensions, not {source}")
        batch, channels, *sizes = source.shape
        groups = attrs.deformable_groups
        if groups < 1 or (isinstance(channels, int) and channels % groups):
            raise TypeCheckError(f"deformable_groups is {groups}, which does not divide the {channels} channels")
        places = _places(attrs, list(sizes))
        for ty, name, each in ((offset, "offset", rank), *((m, "mask", 1) for m in mask)):
            given, wanted = require_tensor(ty, name), [batch, _points(attrs) * groups * each, *places]
            if not may_agree(given.shape, wanted) or given.dtype != source.dtype:
                text = ", ".join(str(d) for d in wanted)
                raise TypeCheckError(f"{name} must be Tensor[({text}), {source.dtype}], not {given}")
        return TensorType([batch, _points(attrs), dims.product(places), channels], source.dtype)

    @staticmethod
    def lower(
        context: LowerContext, attrs: DeformedColumnsAttrs, data: relax.Expr, offset: relax.Expr, *mask: relax.Expr
    ) -> relax.Expr:
        batch, channels, *sizes = context.shape(data)
        name, groups, rank = context.operator, attrs.deformable_groups, len(sizes)
        if groups > 1 and not isinstance(channels, int):
            message = f"{name}: deformable_groups is {groups}, which does not divide the channels"
            context.require(dims.as_expr(channels) % groups == 0, message)
        require_fits(context, sizes, padding_of(attrs.padding, rank), _windows(attrs))
        places = _places(attrs, sizes)
        for value, what, each in ((offset, "offset", rank), *((m, "mask", 1) for m in mask)):
            wanted = [batch, _points(attrs) * groups * each, *places]
            require_agreed(context, context.shape(value), wanted, what)

        def compute(places: list[tirx.Expr], *tensors: te.Tensor) -> te.Tensor:
            return _columns(attrs, places, *tensors)

        return context.te(compute, [dims.as_expr(d) for d in places], data, offset, *mask)


def _points(attrs: DeformedColumnsAttrs) -> int:
    return int(dims.product(attrs.kernel_size))


def _windows(attrs: DeformedColumnsAttrs) -> list[Dim]:
    rank = len(attrs.kernel_size)
    dilation = positive(attrs.dilation, rank, "dilation")
    return [extent(k, d) for k, d in zip(attrs.kernel_size, dilation, strict=True)]


def _places(attrs: DeformedColumnsAttrs, sizes: list[Dim]) -> list[Dim]:
    """Return the spatial sizes of the result."""
    rank = len(attrs.kernel_size)
    return fitted(sizes, padding_of(attrs.padding, rank), _windows(attrs), positive(attrs.strides, rank, "strides"))


def _columns(
    attrs: DeformedColumnsAttrs, places: list[tirx.Expr], data: te.Tensor, offset: te.Tensor, *mask: te.Tensor
) -> te.Tensor:
    """Return what is read, computed in three stages, so that where a point lies is found once for all channels.

    The pixels of a channel become the last axis but one, and a pixel of zeros behind them is that of all outside.
    """
    batch, channels, *sizes = data.shape
    count, points, groups = dims.as_expr(dims.product(sizes)), _points(attrs), attrs.deformable_groups
    corners = list(product((0, 1), repeat=len(sizes)))

    def pixel(n: tirx.Expr, at: tirx.Expr, c: tirx.Expr) -> tirx.Expr:
        return tirx.if_then_else(at < count, data(n, c, *_unflattened(at, sizes)), tirx.const(0, data.dtype))

    def near(corner: Sequence[int], which: int, *index: tirx.Expr) -> tirx.Expr:
        n, part, k, flat = index
        place, point = _unflattened(flat, places), _unflattened(k, attrs.kernel_size)
        at = []
        for axis in range(len(sizes)):
            first = place[axis] * attrs.strides[axis] - attrs.padding[axis] + point[axis] * attrs.dilation[axis]
            at.append(first.astype(data.dtype) + offset(n, (part * points + k) * len(sizes) + axis, *place))
        return _near(at, corner, sizes, count)[which]

    pixels = te.compute([batch, count + 1, channels], pixel, name="pixels")
    shape = [batch, groups, points, dims.product(places)]
    known = [
        te.compute(shape, partial(near, corner, which), name=name)
        for corner in corners
        for which, name in enumerate(("pixel", "share"))
    ]

    def element(n: tirx.Expr, k: tirx.Expr, flat: tirx.Expr, c: tirx.Expr) -> tirx.Expr:
        part = tirx.floordiv(c, tirx.floordiv(channels, groups)) if groups > 1 else tirx.IntImm("int64", 0)
        total: Any = tirx.const(0, data.dtype)
        for number in range(len(corners)):
            index, weight = (known[2 * number + i](n, part, k, flat) for i in (0, 1))
            total = total + weight * pixels(n, index, c)
        return total * mask[0](n, part * points + k, *_unflattened(flat, places)) if mask else total

    return te.compute([batch, points, dims.product(places), channels], element, name="deformed_columns")


def _unflattened(flat: tirx.Expr, sizes: Sequence[Dim]) -> list[tirx.Expr]:
    index = []
    for size in reversed(sizes[1:]):
        index.append(tirx.floormod(flat, dims.as_expr(size)))
        flat = tirx.floordiv(flat, dims.as_expr(size))
    return [flat, *reversed(index)]


def _near(
    at: Sequence[tirx.Expr], corner: Sequence[int], sizes: Sequence[tirx.Expr], count: tirx.Expr
) -> tuple[tirx.Expr, tirx.Expr]:
    """Return the number of the pixel at a corner around a point, and how much of the point it is.

    What is outside has the number behind all pixels, and nothing of the point.
    """
    dtype = str(at[0].ty.dtype)
    one: Any = tirx.const(1, dtype)
    weight, index, tests = one, tirx.IntImm("int64", 0), []
    for a, step, size in zip(at, corner, sizes, strict=True):
        below = tirx.floor(a)
        # A point far outside must not overflow as an integer; all of its neighbours are outside all the same.
        limited = tirx.max(tirx.min(below.astype("float64"), size.astype("float64")), tirx.const(-2.0, "float64"))
        neighbour = limited.astype("int64") + step
        share = a - below
        weight = weight * (share if step else one - share)
        tests += [neighbour >= 0, neighbour < size]
        index = index * size + inside(neighbour, size)
    is_inside = tirx.all(*tests)
    return tirx.Select(is_inside, index, count), tirx.Select(is_inside, weight, tirx.const(0, dtype))
