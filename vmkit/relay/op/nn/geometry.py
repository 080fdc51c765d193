"""What plain and transposed convolutions have in common: layouts, numbers, and how data and weight must agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ...._dataclasses import dataclass
from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import Dim, IncompleteType, TensorType, Type
from ..elementwise import require_tensor
from .layout import SPATIAL, Layout
from .window import extent, padding_of, positive

if TYPE_CHECKING:
    from ...lower.context import LowerContext
    from .convolution import ConvAttrs
    from .transposed import ConvTransposeAttrs

__all__ = ["Geometry", "Shapes", "agreed_kernel", "spatial_layout", "weight_type"]

G = TypeVar("G", bound="Geometry")


@dataclass(frozen=True)
class Shapes:
    """The whole axes of a convolution's data and weight.

    Attributes
    ----------
    batch, channels : dimension
        Of the data.
    first, second : dimension
        The two channel axes of the weight in the order of :attr:`Geometry.filters`.
    sizes, kernel : list of dimensions
        The spatial axes of data and weight.
    """

    batch: Dim
    channels: Dim
    sizes: list[Dim]
    first: Dim
    second: Dim
    kernel: list[Dim]


@dataclass(frozen=True)
class Geometry:
    """A convolution's layouts and numbers, checked.

    Attributes
    ----------
    spatial, filters : str
        The letters of the spatial axes, and those of the weight in the order in which Relay declares a plain one.
    data, kernel, out : Layout
        The layouts of data, weight and result.
    strides, dilation, padding : list of int
        For each spatial axis; padding holds all beginnings, then all ends.
    """

    spatial: str
    filters: str
    data: Layout
    kernel: Layout
    out: Layout
    strides: list[int]
    dilation: list[int]
    padding: list[int]
    groups: int

    @classmethod
    def of(cls: type[G], attrs: ConvAttrs | ConvTransposeAttrs, filters: str = "OI", **more: Any) -> G:
        """Read the attributes; TypeCheckError where they make no sense."""
        rank, spatial = attrs.rank, SPATIAL[attrs.rank]
        if attrs.groups < 1:
            raise TypeCheckError(f"groups must be positive, not {attrs.groups}")
        return cls(
            spatial=spatial,
            filters=filters + spatial,
            data=spatial_layout(attrs.data_layout, "NC", spatial, "data_layout"),
            kernel=spatial_layout(attrs.kernel_layout, filters, spatial, "kernel_layout"),
            out=spatial_layout(attrs.out_layout or attrs.data_layout, "NC", spatial, "out_layout"),
            strides=positive(attrs.strides, rank, "strides"),
            dilation=positive(attrs.dilation, rank, "dilation"),
            padding=padding_of(attrs.padding, rank),
            groups=attrs.groups,
            **more,
        )

    def shapes(self, data: Sequence[Any], weight: Sequence[Any]) -> Shapes:
        """Return the sizes of the whole axes of data and weight."""
        batch, channels, *sizes = self.data.sizes(data, "NC" + self.spatial)
        first, second, *kernel = self.kernel.sizes(weight, self.filters)
        return Shapes(batch, channels, sizes, first, second, kernel)

    def require(self, data: Type, weight: Type) -> tuple[TensorType, Shapes]:
        """Return the data's type and the sizes of all whole axes, once both types fit their layouts."""
        source, filters = require_tensor(data, "data"), require_tensor(weight, "weight")
        self.data.require(source, "data")
        self.kernel.require(filters, "weight")
        return source, self.shapes(source.shape, filters.shape)

    def require_at_run_time(self, context: LowerContext, data: Sequence[Dim], weight: Sequence[Dim]) -> Shapes:
        """Return the sizes of all whole axes; blocks whose sizes are not known now are checked at run time."""
        self.data.require_at_run_time(context, data, "data")
        self.kernel.require_at_run_time(context, weight, "weight")
        return self.shapes(data, weight)

    def windows(self, kernel: Sequence[Dim]) -> list[Dim]:
        """Return how far the dilated kernel reaches on each axis."""
        return [extent(k, d) for k, d in zip(kernel, self.dilation, strict=True)]

    def result(self, batch: Dim, channels: Dim, sizes: Sequence[Dim]) -> dict[str, Dim]:
        """Return the whole axes of the result by letter."""
        return dict(zip("NC" + self.spatial, [batch, channels, *sizes], strict=True))


def spatial_layout(text: str, others: str, spatial: str, name: str) -> Layout:
    """Return a layout that orders `others` and the spatial axes, these in one piece, for windows slide over them."""
    layout = Layout.of(text)
    if sorted(layout.letters) != sorted(others + spatial):
        raise TypeCheckError(f"{name} {text!r} must order the axes {', '.join(others + spatial)}")
    if any(layout.block(letter) > 1 for letter in spatial):
        raise TypeCheckError(f"{name} {text!r} cuts one of the spatial axes {', '.join(spatial)} into blocks")
    return layout


def weight_type(
    geometry: Geometry,
    attrs: ConvAttrs | ConvTransposeAttrs,
    data: Type,
    channels: Callable[[Dim, Dim], tuple[Dim, Dim]],
) -> dict[int, Type]:
    """Return the type of a weight without one, where the attributes give its channels and size.

    `channels` says, given the channels of data and result, the two channel axes of the weight in the geometry's order.
    """
    if isinstance(data, IncompleteType) or attrs.channels is None or attrs.kernel_size is None:
        return {}
    source, kernel = require_tensor(data, "data"), list(attrs.kernel_size)
    geometry.data.require(source, "data")
    if len(kernel) != len(geometry.spatial):
        raise TypeCheckError(f"kernel_size must have {len(geometry.spatial)} values, not {len(kernel)}: {kernel}")
    (whole,) = geometry.data.sizes(source.shape, "C")
    axes = dict(zip(geometry.filters, [*channels(whole, attrs.channels), *kernel], strict=True))
    return {1: TensorType(geometry.kernel.shape(axes), source.dtype)}


def agreed_kernel(wanted: Sequence[Dim] | None, kernel: list[Dim]) -> list[Dim]:
    """Return the kernel's size by the attribute where there is one, else by the weight; both must agree."""
    if wanted is None:
        return kernel
    given = list(wanted)
    if len(given) != len(kernel) or any(dims.equal(a, b) is False for a, b in zip(given, kernel, strict=True)):
        raise TypeCheckError(f"kernel_size is {_text(given)}, but the weight's kernel is {_text(kernel)}")
    return given


def _text(values: Sequence[Any]) -> str:
    return " x ".join(str(v) for v in values)
