"""Winograd's tiles, and weights transformed ahead for them.

S. Winograd, "Arithmetic complexity of computations" (1980); A. Lavin and S. Gray, "Fast algorithms for convolutional
neural networks" (2015): tiles of m results on an axis come from ``m + r - 1`` products, r being the kernel's size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tvm import te, tirx
from tvm.topi.nn.winograd_util import winograd_transform_matrices

from ...._dataclasses import dataclass
from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, Type
from ..attrs import Attrs, Int, attrs_node, field
from ..elementwise import require_tensor
from ..registry import operator
from .layout import SPATIAL, require_rank
from .pooling import is_float
from .precision import accumulator, as_dtype

__all__ = ["Tiles"]


@attrs_node("relay.attrs.ConvWinogradWeightTransformAttrs")
class ConvWinogradWeightTransformAttrs(Attrs):
    """Attributes of the transforms of weights."""

    tile_size: Int = field(doc="Results of a tile on each axis.")


@dataclass(frozen=True)
class Tiles:
    """How a kernel is cut into tiles.

    Attributes
    ----------
    tile : int
        Results of a tile on each axis.
    kernel : list of int
        The size of the kernel on each spatial axis.
    transformed : list of bool
        On which axes there are tiles; a volume's depth keeps its plain sum where its kernel is shorter than 3.
    """

    tile: int
    kernel: list[int]
    transformed: list[bool]

    @classmethod
    def of(cls, tile: int, kernel: Sequence[Any]) -> Tiles:
        """Check the sizes for which there are matrices."""
        sizes = list(kernel)
        if not all(isinstance(k, int) for k in sizes):
            raise TypeCheckError(f"the size of the kernel must be known, not {sizes}")
        transformed = [True] * len(sizes)
        if len(sizes) == 3:
            transformed[0] = 2 < sizes[0] < 8
        over = {k for k, is_cut in zip(sizes, transformed, strict=True) if is_cut}
        if len(over) != 1 or not 2 < min(over) < 8 or not 1 < tile < 9:
            raise TypeCheckError(
                f"tile_size must be 2 to 8 and the kernel of one size from 3 to 7 on every axis, not {tile} and {sizes}"
            )
        return cls(tile, sizes, transformed)

    @property
    def size(self) -> int:
        """The size of the kernel on the axes that have tiles."""
        return self.kernel[-1]

    @property
    def reach(self) -> int:
        """How many elements of the data a tile depends on, and as many products it takes."""
        return self.tile + self.size - 1

    def spread(self, cut: Sequence[Any], whole: Sequence[Any]) -> list[Any]:
        """Return values for all spatial axes from those of the axes with tiles and those of the others."""
        tiles, others = iter(cut), iter(whole)
        return [next(tiles) if is_cut else next(others) for is_cut in self.transformed]

    def weight_lead(self) -> list[int]:
        """Return the leading dimensions of a transformed weight: products on the axes with tiles, then plain ones."""
        plain = [k for k, is_cut in zip(self.kernel, self.transformed, strict=True) if not is_cut]
        return [self.reach] * len(self.points) + plain

    @property
    def points(self) -> range:
        """The axes that have tiles, numbered from 0."""
        return range(sum(self.transformed))

    def cuts(self, values: Sequence[Any]) -> Iterator[tuple[Any, bool]]:
        """Return each value of the spatial axes with whether its axis has tiles."""
        return zip(values, self.transformed, strict=True)

    def matrices(self, dtype: str) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
        """Return the matrices that transform results (products x tile), data (data x products), weights."""
        return tuple(winograd_transform_matrices(self.tile, self.size, dtype))


def _type(rank: int, attrs: ConvWinogradWeightTransformAttrs, weight: Type) -> Type:
    filters = require_tensor(weight, "weight")
    require_rank(filters, rank + 2, "weight")
    if not is_float(filters.dtype):
        raise TypeCheckError(f"weight must be a float tensor, not {filters}")
    outputs, inputs, *kernel = filters.shape
    return TensorType([*Tiles.of(attrs.tile_size, kernel).weight_lead(), outputs, inputs], filters.dtype)


def _compute(attrs: ConvWinogradWeightTransformAttrs, weight: te.Tensor) -> te.Tensor:
    outputs, inputs, *kernel = [dims.simplify(d) for d in weight.shape]
    tiles, dtype = Tiles.of(attrs.tile_size, kernel), str(weight.dtype)
    wide = accumulator(dtype)
    _, _, matrix = tiles.matrices(wide)
    over = [te.reduce_axis((0, tiles.size), name=f"r{i}") for i in range(sum(tiles.transformed))]

    def element(*index: tirx.Expr) -> tirx.Expr:
        *lead, o, i = index
        points, plain = lead[: len(over)], lead[len(over) :]
        value = weight(o, i, *tiles.spread(over, plain)).astype(wide)
        for point, r in zip(points, over, strict=True):
            value = value * matrix(point, r)
        return te.sum(value, axis=over)

    shape = [*tiles.weight_lead(), dims.as_expr(outputs), dims.as_expr(inputs)]
    return as_dtype(te.compute(shape, element, name="winograd_weight"), dtype)


def _transform(rank: int) -> None:
    """Register the transform over `rank` spatial axes."""
    name = f"nn.contrib_conv{rank}d_winograd_weight_transform"
    body: dict[str, Any] = {
        "__doc__": f"A weight OI{SPATIAL[rank]} as (products, ..., output channels, input channels), for tiles.",
        "relation": staticmethod(lambda attrs, weight: _type(rank, attrs, weight)),
        "compute": staticmethod(_compute),
    }
    operator(name, "weight", attrs=ConvWinogradWeightTransformAttrs, level=10)(type(name, (), body))


_transform(2)
_transform(3)
