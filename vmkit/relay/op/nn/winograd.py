"""Winograd's convolution with a weight that has been transformed; see :mod:`.winograd_weight`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from ...._dataclasses import dataclass
from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import Dim, TensorType, Type
from ..attrs import Int, attrs_node, field
from ..elementwise import require_tensor
from ..registry import OpPattern, operator
from .convolution import ConvAttrs
from .layout import SPATIAL, Layout, require_rank
from .pooling import is_float
from .precision import accumulator, as_dtype
from .window import fitted, padding_of, positive, require_fits
from .winograd_weight import Tiles

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.Conv{rank}DWinogradAttrs", ranks=(2, 3))
class ConvWinogradAttrs(ConvAttrs):
    """Attributes of nn.contrib_conv{rank}d_winograd_without_weight_transform."""

    tile_size: Int = field(script=None, doc="Results of a tile on each axis.", first=True)


@dataclass(frozen=True)
class _Convolution:
    """A convolution with a transformed weight, checked.

    The weight is (products, ..., input channels, output channels); where the data's channels come last, output before
    input.
    """

    data: Layout
    tiles: Tiles
    padding: list[int]
    channels: Dim

    @classmethod
    def of(cls, attrs: ConvWinogradAttrs) -> _Convolution:
        rank, spatial = attrs.rank, SPATIAL[attrs.rank]
        allowed = ["NC" + spatial, "N" + spatial + "C"][: 2 if rank == 2 else 1]
        if attrs.data_layout not in allowed or attrs.out_layout not in ("", attrs.data_layout):
            raise TypeCheckError(f"data_layout must be {' or '.join(allowed)}, and out_layout the same")
        if attrs.kernel_size is None or attrs.channels is None or len(attrs.kernel_size) != rank:
            raise TypeCheckError(f"channels and {rank} values of kernel_size must be given: the weight does not tell")
        numbers = positive(attrs.strides, rank, "strides") + positive(attrs.dilation, rank, "dilation")
        if any(n != 1 for n in [*numbers, attrs.groups]):
            raise TypeCheckError("strides, dilation and groups of a Winograd convolution must be 1")
        tiles = Tiles.of(attrs.tile_size, list(attrs.kernel_size))
        return cls(Layout.of(attrs.data_layout), tiles, padding_of(attrs.padding, rank), attrs.channels)

    @property
    def is_last(self) -> bool:
        """Whether the channels of the data come last."""
        return self.data.text.endswith("C")

    def weight_shape(self, channels: Dim) -> list[Dim]:
        """Return the shape of the weight for data of so many channels."""
        inner = [self.channels, channels] if self.is_last else [channels, self.channels]
        return [*self.tiles.weight_lead(), *inner]

    def result(self, shape: Sequence[Dim]) -> dict[str, Dim]:
        """Return the whole axes of the result for data of a shape."""
        whole, spatial = self.data.whole(shape), SPATIAL[len(self.tiles.kernel)]
        sizes = fitted([whole[a] for a in spatial], self.padding, self.tiles.kernel, [1] * len(spatial))
        return {**whole, "C": self.channels, **dict(zip(spatial, sizes, strict=True))}


def _convolution_type(attrs: ConvWinogradAttrs, data: Type, weight: Type) -> Type:
    how, source, filters = _Convolution.of(attrs), require_tensor(data, "data"), require_tensor(weight, "weight")
    how.data.require(source, "data")
    if not is_float(attrs.out_dtype or source.dtype):
        raise TypeCheckError(f"a Winograd convolution divides, so its result must be float, not of {source}")
    (channels,) = how.data.sizes(source.shape, "C")
    wanted = how.weight_shape(channels)
    require_rank(filters, len(wanted), "weight")
    if any(dims.equal(a, b) is False for a, b in zip(wanted, filters.shape, strict=True)):
        raise TypeCheckError(f"weight must have shape ({', '.join(str(d) for d in wanted)}), not {filters}")
    return TensorType(how.data.shape(how.result(source.shape)), attrs.out_dtype or source.dtype)


def _lower(context: LowerContext, attrs: ConvWinogradAttrs, data: relax.Expr, weight: relax.Expr) -> relax.Expr:
    how, shape, spatial = _Convolution.of(attrs), context.shape(data), SPATIAL[attrs.rank]
    have, made = how.data.whole(shape), how.result(shape)
    for axis, (size, want) in enumerate(zip(context.shape(weight), how.weight_shape(have["C"]), strict=True)):
        message = f"{context.operator}: dimension {axis} of weight is {{actual}}, expected {{expected}}"
        context.require_equal(size, want, message)
    require_fits(context, [have[a] for a in spatial], how.padding, how.tiles.kernel)
    out_dtype = attrs.out_dtype or str(data.ty.dtype)
    wide, tiles = accumulator(out_dtype), how.tiles
    count = [dims.ceildiv(made[a], tiles.tile) if is_cut else made[a] for a, is_cut in tiles.cuts(spatial)]
    # On an axis without tiles the products are those of the kernel itself, so its elements are read where they are.
    reach = [
        size if is_cut else dims.add(size, k - 1)
        for (size, is_cut), k in zip(tiles.cuts(count), tiles.kernel, strict=True)
    ]
    moved = context.te(lambda x, r: _transform_data(how, x, r, wide), data, _exprs(reach), name="winograd_data")
    products = context.te(
        lambda x, w, c: _multiply(how, x, w, c, wide), moved, weight, _exprs(count), name="winograd_products"
    )
    return context.te(lambda p, s: _transform_result(how, p, s, out_dtype), products, _exprs(how.data.shape(made)))


def _exprs(values: Sequence[Any]) -> list[Any]:
    return [dims.as_expr(v) for v in values]


def _transform_data(how: _Convolution, data: te.Tensor, reach: list[Any], wide: str) -> te.Tensor:
    """Return the data as (points, batch, tiles, channels)."""
    tiles, spatial = how.tiles, SPATIAL[len(how.tiles.kernel)]
    have = how.data.whole([dims.simplify(d) for d in data.shape])
    _, matrix, _ = tiles.matrices(wide)
    over = [te.reduce_axis((0, tiles.reach), name=f"a{i}") for i in tiles.points]

    def read(n: tirx.Expr, c: tirx.Expr, place: Sequence[tirx.Expr]) -> tirx.Expr:
        at = {a: p - how.padding[i] for i, (a, p) in enumerate(zip(spatial, place, strict=True))}
        inside = [test for a in spatial for test in (at[a] >= 0, at[a] < dims.as_expr(have[a]))]
        x = data(*how.data.index({"N": n, "C": c, **at})).astype(wide)
        return tirx.if_then_else(tirx.all(*inside), x, tirx.const(0, wide))

    def element(*index: tirx.Expr) -> tirx.Expr:
        points, (n, *tile, c) = index[: len(over)], index[len(over) :]
        offsets = tiles.spread(over, [0] * len(spatial))
        place = [t * tiles.tile + o if is_cut else t for (t, is_cut), o in zip(tiles.cuts(tile), offsets, strict=True)]
        value = read(n, c, place)
        for point, r in zip(points, over, strict=True):
            value = value * matrix(r, point)
        return te.sum(value, axis=over)

    shape = [*[tiles.reach] * len(over), have["N"], *reach, have["C"]]
    return te.compute(_exprs(shape), element, name="winograd_data")


def _multiply(how: _Convolution, data: te.Tensor, weight: te.Tensor, count: list[Any], wide: str) -> te.Tensor:
    """Return the products of transformed data and weight, (points, batch, tiles, output channels)."""
    tiles, cut = how.tiles, len(how.tiles.points)
    rc = te.reduce_axis((0, data.shape[-1]), name="rc")
    plain = [te.reduce_axis((0, k), name=f"k{i}") for i, k in enumerate(tiles.weight_lead()[cut:])]

    def element(*index: tirx.Expr) -> tirx.Expr:
        points, (n, *tile, o) = index[:cut], index[cut:]
        shifts = tiles.spread([0] * cut, plain)
        x = data(*points, n, *[t + s for t, s in zip(tile, shifts, strict=True)], rc)
        w = weight(*points, *plain, *((o, rc) if how.is_last else (rc, o)))
        return te.sum(x * w.astype(wide), axis=[rc, *plain])

    shape = [*data.shape[: cut + 1], *count, how.channels]
    return te.compute(_exprs(shape), element, name="winograd_products")


def _transform_result(how: _Convolution, products: te.Tensor, shape: list[Any], out_dtype: str) -> te.Tensor:
    """Return the result put together from the products of every tile."""
    tiles, spatial = how.tiles, SPATIAL[len(how.tiles.kernel)]
    matrix, _, _ = tiles.matrices(str(products.dtype))
    over = [te.reduce_axis((0, tiles.reach), name=f"b{i}") for i in tiles.points]

    def element(*index: tirx.Expr) -> tirx.Expr:
        at = how.data.position(index)
        place = list(tiles.cuts([at[a] for a in spatial]))
        tile = [tirx.floordiv(p, tiles.tile) if is_cut else p for p, is_cut in place]
        value = products(*over, at["N"], *tile, at["C"])
        for p, r in zip([p for p, is_cut in place if is_cut], over, strict=True):
            value = value * matrix(r, tirx.floormod(p, tiles.tile))
        return te.sum(value, axis=over)

    return as_dtype(te.compute(shape, element, name="winograd_result"), out_dtype)


@operator(
    "nn.contrib_conv{rank}d_winograd_without_weight_transform",
    "data",
    "weight",
    attrs=ConvWinogradAttrs,
    level=10,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
)
class ConvWinograd:
    """Convolution by tiles, with a transformed weight (products, ..., input channels, output channels)."""

    relation = staticmethod(_convolution_type)
    lower = staticmethod(_lower)
