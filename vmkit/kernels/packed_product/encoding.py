"""What an encoding says of a packed product; all else is the same for every encoding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvm import te

from ..._dataclasses import dataclass
from .shape import BLOCK

if TYPE_CHECKING:
    import numpy as np
    from tvm import tirx
    from tvm.target import Target

    from ..builder import Size
    from .loops import PackedProduct
    from .shape import ProductShape
    from .weight import PackedWeight

__all__ = ["Encoding", "Term", "Terms"]

Term = tuple[tuple["Size", "Size", "Size"], "tirx.Expr"]
"""A row and a column of the window, and a channel; what the data there are multiplied with."""


@dataclass(frozen=True)
class Terms:
    """What a sum goes over.

    Attributes
    ----------
    axes : list of reduction axes
    of : callable
        Takes an output, and returns the term for a place on the axes.
    """

    axes: list[tirx.IterVar]
    of: Callable[[tirx.Expr], Term]


@dataclass(frozen=True)
class Encoding(ABC):
    """Which numbers are multiplied, in which order a weight has them, and by which instructions.

    Attributes
    ----------
    name : str
        Its name in :data:`.encodings.ENCODINGS`.
    data, weight, sums : str
        The data types of the data, of the packed weight, and of the sums.
    element : str
        That of a weight before it is :meth:`arranged`.
    depth, width : int
        What the length of a run, and the number of outputs, are filled up to multiples of.
    has_filler : bool
        Whether what stands around the data is an operand of its own, of the data's type; otherwise it is 0.
    """

    name: str
    data: str
    weight: str
    sums: str
    element: str
    depth: int
    width: int
    has_filler: bool

    @property
    def block(self) -> int:
        """How many outputs are computed at once."""
        return BLOCK

    @property
    def has_extras(self) -> bool:
        """Whether groups of inputs may be there twice."""
        return False

    @property
    def shares_sizes(self) -> bool:
        """Whether loops may be written for sizes that are known at run time only."""
        return False

    @property
    def is_depthwise(self) -> bool:
        """Whether an output is of the input channel of the same number alone."""
        return False

    @abstractmethod
    def takes_rows(self, product: ProductShape) -> bool:
        """Say whether a run is a whole row of a product's window."""

    @abstractmethod
    def packed_shape(self, weight: PackedWeight) -> tuple[Size, ...]:
        """Return the shape of a packed weight."""

    @abstractmethod
    def arranged(self, weight: PackedWeight, whole: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return elements (units, runs, inputs of a run), filled up, in the order of a packed weight."""

    def extras_of(self, weight: PackedWeight, whole: np.ndarray[Any, Any]) -> int:
        """Return how many groups of inputs the fullest block needs twice for such elements."""
        return 0

    def terms(self, weight: PackedWeight, packed: te.Tensor, axes: int) -> Terms:
        """Return what a product over data of so many axes with a packed weight is the sum of."""
        product = weight.product
        window = [te.reduce_axis((0, k), name=f"k{i}") for i, k in enumerate(product.kernel[2 - axes :])]
        row, column = [0, 0, *window][-2:]
        channel = te.reduce_axis((0, product.channels), name="c")

        def of(unit: tirx.Expr) -> Term:
            factor = self.factor(weight, packed, (row, column, channel), unit)
            return (row, column, unit if self.is_depthwise else channel), factor

        return Terms(window if self.is_depthwise else [*window, channel], of)

    @abstractmethod
    def factor(
        self, weight: PackedWeight, packed: te.Tensor, place: tuple[Size, Size, Size], unit: tirx.Expr
    ) -> tirx.Expr:
        """Return what the data are multiplied with: an element, in the data type of the sums.

        The place is a row and a column of the window, and a channel.
        """

    @abstractmethod
    def loops(
        self, weight: PackedWeight, operands: Sequence[tirx.Buffer], shape: Sequence[tirx.Expr], target: Target
    ) -> PackedProduct[Any] | None:
        """Return the loops of a product for a target; None for one that has not the instructions.

        Parameters
        ----------
        operands : sequence of buffer
            The data, the packed weight, and the filler where it is read.
        shape : sequence of expression
            The result's.
        """
