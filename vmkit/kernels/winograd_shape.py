"""What Winograd's convolution on a CPU computes, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import overload

from tvm import tirx

from .._dataclasses import dataclass
from .builder import Size

__all__ = ["WinogradCosts", "WinogradPlan", "WinogradShape"]


@dataclass(frozen=True)
class WinogradShape:
    """What a kernel of :func:`.winograd` computes.

    Attributes
    ----------
    kernel : tuple of int
        Height and width of the kernel; an axis of 1 has no tiles.
    tile : tuple of int
        How many results on each axis come from one tile. With the kernel less one it makes the `reach`, for which
        :mod:`.winograd_points` must have points.
    batch, height, width : int or None
        Sizes of the data; None where they are known at run time.
    inner, outer : int or expression
        Channels of the data and of the result: multiples of `lanes` and of `block`.
    padding : tuple of int
        Zeros above, left, below and right of the image.
    block : int
        Output channels in a block of the weight: one or two vectors.
    lanes : int
        How many float32 a vector has.
    has_bias, has_residual : bool
        Whether a vector (outer,) and a tensor like the result are added, in this order.
    low, high : float or None
        What sums are raised and lowered to.
    activation : str
        The program of :mod:`.activation` that results are made by from those; empty if they are the results.
    """

    kernel: tuple[int, int]
    tile: tuple[int, int]
    batch: int | None
    height: int | None
    width: int | None
    inner: Size
    outer: Size
    padding: tuple[int, int, int, int]
    block: int
    lanes: int
    has_bias: bool = False
    has_residual: bool = False
    low: float | None = None
    high: float | None = None
    activation: str = ""

    def without_channels(self) -> WinogradShape:
        """Return the shape of what convolutions have in common that differ in channels alone."""
        return replace(self, inner=0, outer=0)

    def without_sizes(self) -> WinogradShape:
        """Return the shape of what convolutions have in common that differ in channels and sizes of images alone."""
        return replace(self.without_channels(), batch=None, height=None, width=None)

    def with_variables(self) -> WinogradShape:
        """Return the shape :meth:`without_channels` with variables in their places, which a kernel is given."""
        return replace(self, inner=tirx.Var("inner", "int64"), outer=tirx.Var("outer", "int64"))

    @property
    def reach(self) -> tuple[int, int]:
        """How many elements on each axis a tile depends on."""
        return self.tile[0] + self.kernel[0] - 1, self.tile[1] + self.kernel[1] - 1

    @property
    def points(self) -> int:
        """How many products of matrices there are."""
        return self.reach[0] * self.reach[1]

    @property
    def is_of_known_image(self) -> bool:
        """Whether the sizes of images are known."""
        return self.height is not None and self.width is not None

    @property
    def tiles(self) -> int | None:
        """How many tiles there are, None where that is known at run time."""
        if self.batch is None or self.height is None or self.width is None:
            return None
        down, across = self.made(self.height, self.width)
        return self.batch * -(-down // self.tile[0]) * -(-across // self.tile[1])

    @overload
    def made(self, height: int, width: int) -> tuple[int, int]: ...
    @overload
    def made(self, height: Size, width: Size) -> tuple[Size, Size]: ...
    def made(self, height: Size, width: Size) -> tuple[Size, Size]:
        """Return height and width of the result for those of the data."""
        top, left, bottom, right = self.padding
        return height + (top + bottom + 1 - self.kernel[0]), width + (left + right + 1 - self.kernel[1])


@dataclass(frozen=True)
class WinogradCosts:
    """What steps of a convolution take, by which tiles and the sum itself are compared; only proportions matter.

    Attributes
    ----------
    products, weight : int
        Of each input with each output channel: the products of `rows` tiles, and the transformed weight.
    data, result : int
        Of a tile: the transforms of an input and of an output channel.
    sums, plain : int
        As `products` and `weight`, of :attr:`sum_rows` results without tiles.
    sum_rows : int
        How many results are computed together without tiles.
    """

    products: int
    weight: int
    data: int
    result: int
    sums: int
    plain: int
    sum_rows: int


@dataclass(frozen=True)
class WinogradPlan:
    """How :func:`.winograd` goes about it.

    Attributes
    ----------
    rows : int
        Tiles whose products are in registers at once.
    count : int
        Tiles that go through all steps together; a multiple of `rows`.
    unrolled : int
        Steps of the products that are unrolled; a divisor of the lanes.
    is_parallel_over_tiles : bool
        Whether cores share groups of tiles; otherwise the steps of each group.
    few : WinogradCosts or None
        By what the kernel tells, when it runs, for how few results the sum itself is faster. It is given the weight as
        it is, too, in blocks, after the transformed one. None of a kernel that knows tiles alone.
    """

    rows: int
    count: int
    unrolled: int = 2
    is_parallel_over_tiles: bool = True
    few: WinogradCosts | None = None
