"""What a deformed window reads: the columns of a deformable convolution, of any number of spatial dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """The elements that windows read: (batch, channels, points of the window, positions of the result).

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
        return TensorType([batch, channels, _points(attrs), dims.product(places)], source.dtype)

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

        def compute(whole: list[tirx.Expr], places: list[tirx.Expr], *tensors: te.Tensor) -> te.Tensor:
            return te.compute(whole, lambda *i: _element(attrs, places, tensors, *i), name="deformed_columns")

        shape = [batch, channels, _points(attrs), dims.product(places)]
        lists = [[dims.as_expr(d) for d in values] for values in (shape, places)]
        return context.te(compute, *lists, data, offset, *mask)


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


def _element(
    attrs: DeformedColumnsAttrs,
    places: Sequence[tirx.Expr],
    tensors: Sequence[te.Tensor],
    n: tirx.Expr,
    c: tirx.Expr,
    k: tirx.Expr,
    flat: tirx.Expr,
) -> tirx.Expr:
    data, offset, *mask = tensors
    rank, points = len(places), _points(attrs)
    part = tirx.floordiv(c, tirx.floordiv(data.shape[1], attrs.deformable_groups))
    place, point = _unflattened(flat, places), _unflattened(k, attrs.kernel_size)
    at = []
    for axis in range(rank):
        corner = place[axis] * attrs.strides[axis] - attrs.padding[axis] + point[axis] * attrs.dilation[axis]
        at.append(corner.astype(data.dtype) + offset(n, (part * points + k) * rank + axis, *place))
    value = _between(lambda index: data(n, c, *index), at, data.shape[2:])
    return value * mask[0](n, part * points + k, *place) if mask else value


def _unflattened(flat: tirx.Expr, sizes: Sequence[Dim]) -> list[tirx.Expr]:
    index = []
    for size in reversed(sizes[1:]):
        index.append(tirx.floormod(flat, dims.as_expr(size)))
        flat = tirx.floordiv(flat, dims.as_expr(size))
    return [flat, *reversed(index)]


def _between(read: Callable[..., tirx.Expr], at: Sequence[tirx.Expr], sizes: Sequence[tirx.Expr]) -> tirx.Expr:
    """Return what lies at a point between elements, by how near it is to each of those around it."""
    dtype = str(at[0].ty.dtype)
    one: Any = tirx.const(1, dtype)
    below = [tirx.floor(a) for a in at]
    # A point far outside must not overflow as an integer; all of its neighbours are outside all the same.
    limited = [
        tirx.max(tirx.min(b.astype("float64"), s.astype("float64")), tirx.const(-2.0, "float64")).astype("int64")
        for b, s in zip(below, sizes, strict=True)
    ]
    total: Any = tirx.const(0, dtype)
    for steps in product((0, 1), repeat=len(at)):
        weight, tests, index = one, [], []
        for axis, step in enumerate(steps):
            share = at[axis] - below[axis]
            weight = weight * (share if step else one - share)
            neighbour = limited[axis] + step
            tests += [neighbour >= 0, neighbour < sizes[axis]]
            index.append(inside(neighbour, sizes[axis]))
        total = total + tirx.if_then_else(tirx.all(*tests), weight * read(index), tirx.const(0, dtype))
    return total
