"""Where the data of a product lies, how much is there at once, and which output a place in it stands for.

Of a number of images or rows that is known at run time only, as many are there at once as fit, so that distances in
memory are constants of the kernel; what depends on other such sizes is computed once, before the loops.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from tvm import tirx

from ..._dataclasses import dataclass
from ...relay.ir import dims
from ..builder import Size
from .shape import ProductShape
from .sizes import divided, is_same, known, unravel
from .weight import PackedWeight

__all__ = ["Axes", "Chunk", "Plan"]


@dataclass(frozen=True)
class Axes:
    """The sizes of a product's data and result; images of one axis have one row.

    Attributes
    ----------
    outer : list of size
        The axes of positions, where a window is of one: all of them are rows of one image then. Otherwise none.
    has_rows : bool
        Whether the data has rows, not columns alone.
    images, rows, columns : size
        Of the result.
    rows_of_data, columns_of_data : size
        Of the data.
    """

    outer: list[Size]
    has_rows: bool
    images: Size
    rows: Size
    columns: Size
    rows_of_data: Size
    columns_of_data: Size

    @classmethod
    def of(
        cls, product: ProductShape, data: Sequence[Size], shape: Sequence[Size], keep: Callable[[Size], Size]
    ) -> Axes:
        """Return the sizes from the shapes of data and result; `keep` may give what run time computes a name."""
        if product.is_pointwise:
            outer = [keep(known(size)) for size in shape[:-1]]
            positions = keep(dims.product(outer))
            return cls(outer, len(shape) == 4, 1, positions, 1, positions, 1)
        row = [1] if len(shape) == 3 else []
        sizes = (shape[0], *row, *shape[1:-1], *row, *data[1:-1])
        return cls([], not row, *(keep(known(size)) for size in sizes))


@dataclass(frozen=True)
class Chunk:
    """The images and rows that are in the cache, and groups of output positions at one distance from each other."""

    image: Size
    images: Size
    row: Size
    rows: Size
    input_rows: Size
    groups: Size
    positions: Size


@dataclass(frozen=True)
class Plan(ABC):
    """Where data lies, and how much of it is there at once. Distances count numbers of the data as they are multiplied.

    Attributes
    ----------
    weight : PackedWeight
        The window, and the runs that its sums go over.
    axes : Axes
        The sizes.
    pitch : size
        Positions from a row to the next, where their distance is the same over the ends of rows.
    rows_at_once, images_at_once : size
        For which there is room.
    input_rows : size
        Of the data of an image in a chunk.
    """

    weight: PackedWeight
    axes: Axes
    pitch: Size
    rows_at_once: Size
    images_at_once: Size
    input_rows: Size

    @property
    def product(self) -> ProductShape:
        """The sizes of the window."""
        return self.weight.product

    @property
    def is_over_chunks(self) -> bool | tirx.Expr:
        """Whether cores share the chunks, not the steps of each; a test if run time tells."""
        return False

    @property
    @abstractmethod
    def is_flat(self) -> bool:
        """Whether output positions keep their distance over the ends of rows, so that a group is an image."""

    @property
    @abstractmethod
    def step(self) -> Size:
        """How many numbers lie between two output positions."""

    @abstractmethod
    def offset(self, row: Size, column: Size) -> Size:
        """Return how far from an output position's place the run of the window is that it is multiplied with."""

    @abstractmethod
    def start(self, here: Chunk, group: Size) -> Size:
        """Return where the first output position of a group is."""

    @abstractmethod
    def chunk(self, group: Size, chunk: Size) -> Chunk:
        """Compute the sizes of a chunk of a group of images in the builder at hand."""

    @abstractmethod
    def image_and_row(self, here: Chunk, group: Size) -> tuple[Size, Size]:
        """Return which image a group is in and, where it is of a row, which one of the chunk."""

    def position(self, here: Chunk, group: Size, at: Size) -> tuple[list[Size], bool | tirx.Expr | None]:
        """Return the result's index for a position of a group, and whether it is one at all (None: always)."""
        if self.product.is_pointwise:
            return unravel(here.row + at, self.axes.outer), None
        image, row = self.image_and_row(here, group)
        inside, column = None, at
        if self.is_flat:
            row, column = divided(at, self.pitch)
            inside = None if is_same(self.pitch, self.axes.columns) else column < self.axes.columns
        return [image, *([here.row + row] if self.axes.has_rows else []), column], inside
