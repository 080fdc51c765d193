"""Layouts: the order of a tensor's dimensions, one letter an axis, such as ``NCHW``, or the blocked ``NCHW16c``.

In ``NCHW16c`` the channels are two dimensions: C counts blocks of 16 channels, c the channels of a block. What computes
with a layout works on whole axes, by their capital letters, and leaves blocks to the layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from tvm import tirx

from ...._dataclasses import dataclass
from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import Dim, TensorType

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = ["SPATIAL", "Layout", "axes_of", "ordered", "require_layout", "require_rank"]

# The letters of the spatial axes of 1-, 2- and 3-dimensional operators.
SPATIAL = {1: "W", 2: "HW", 3: "DHW"}

_AXIS = re.compile(r"([A-Z])|(\d+)([a-z])")


@dataclass(frozen=True)
class Layout:
    """The dimensions of a tensor in their order.

    Attributes
    ----------
    text : str
        The layout as it was written.
    axes : tuple of (str, int)
        The letter of each dimension; with a small letter, for a block, the number of its elements, else 1.

    Examples
    --------
    >>> layout = Layout.of("NCHW16c")
    >>> layout.whole([1, 4, 7, 7, 16])
    {'N': 1, 'C': 64, 'H': 7, 'W': 7}
    >>> layout.shape({'N': 1, 'C': 64, 'H': 7, 'W': 7})
    [1, 4, 7, 7, 16]
    """

    text: str
    axes: tuple[tuple[str, int], ...]

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, text: str) -> Layout:
        """Read a layout; TypeCheckError for what is none."""
        axes, at = [], 0
        for found in _AXIS.finditer(text):
            if found.start() != at:
                break
            axes.append((found[1] or found[3], int(found[2] or 1)))
            at = found.end()
        capitals = [a for a, _ in axes if a.isupper()]
        is_whole = at == len(text) and len(set(capitals)) == len(capitals)
        if not is_whole or any(a.upper() not in capitals or size < 1 for a, size in axes):
            raise TypeCheckError(
                f"{text!r} is no layout: write one capital letter an axis, such as NCHW, and a block as NCHW16c"
            )
        return cls(text, tuple(axes))

    @cached_property
    def letters(self) -> str:
        """The capital letters in order."""
        return "".join(a for a, _ in self.axes if a.isupper())

    def block(self, letter: str) -> int:
        """Return how many elements the blocks of an axis hold; 1 for an axis in one piece."""
        size = 1
        for axis, elements in self.axes:
            size *= elements if axis == letter.lower() else 1
        return size

    def by_letter(self) -> list[int]:
        """Return the dimensions in the order that puts the blocks of each axis behind it, the larger ones first."""
        places = range(len(self.axes))
        # A block that stands before its axis in the text counts within it all the same.
        return sorted(places, key=lambda at: (self.letters.index(self.axes[at][0].upper()), self.axes[at][0].islower()))

    def require(self, ty: TensorType, name: str) -> None:
        """Check that a tensor's dimensions can be those of the layout."""
        require_rank(ty, len(self.axes), name)
        for (axis, size), dim in zip(self.axes, ty.shape, strict=True):
            if axis.islower() and dims.equal(dim, size) is False:
                raise TypeCheckError(f"{name} has {dim} elements in the block {size}{axis} of {self.text}: {ty}")

    def require_at_run_time(self, context: LowerContext, shape: Sequence[Dim], name: str) -> None:
        """Check that dimensions not known now have the sizes of the layout's blocks."""
        for (axis, size), dim in zip(self.axes, shape, strict=True):
            if axis.islower():
                message = f"{name} has {{actual}} elements in the block {axis} of {self.text}, expected {{expected}}"
                context.require_equal(dim, size, f"{context.operator}: {message}")

    def whole(self, shape: Sequence[Dim]) -> dict[str, Dim]:
        """Return the sizes of whole axes by letter."""
        sizes: dict[str, Dim] = dict.fromkeys(self.letters, 1)
        for (axis, size), dim in zip(self.axes, shape, strict=True):
            letter = axis.upper()
            sizes[letter] = dims.mul(sizes[letter], dim if axis.isupper() else size)
        return sizes

    def sizes(self, shape: Sequence[Dim], letters: Iterable[str]) -> list[Dim]:
        """Return the sizes of whole axes, in the order of `letters`."""
        whole = self.whole(shape)
        return [whole[letter] for letter in letters]

    def shape(self, whole: Mapping[str, Dim], *, padded: bool = False) -> list[Dim]:
        """Return the shape of a tensor whose whole axes have these sizes.

        Raises
        ------
        TypeCheckError
            When blocks do not divide their axis, unless with `padded` a last block may be filled up.
        """
        shape: list[Dim] = []
        for axis, size in self.axes:
            if axis.islower():
                shape.append(size)
                continue
            block, dim = self.block(axis), whole[axis]
            if not padded and isinstance(dim, int) and dim % block:
                raise TypeCheckError(f"axis {axis} has {dim} elements, which the blocks of {self.text} do not divide")
            shape.append(dim if block == 1 else dims.ceildiv(dim, block) if padded else dims.floordiv(dim, block))
        return shape

    def require_divides(self, context: LowerContext, whole: Mapping[str, Dim], name: str) -> None:
        """Check at run time that the layout's blocks divide axes whose sizes are not known now."""
        for letter in self.letters:
            block = self.block(letter)
            if block > 1 and not isinstance(whole[letter], int):
                rest = dims.simplify(tirx.floormod(dims.as_expr(whole[letter]), block))
                message = f"{name}: the blocks of {self.text} do not divide axis {letter}; {{actual}} is left"
                context.require_equal(rest, 0, message)

    def index(self, whole: Mapping[str, Any]) -> list[Any]:
        """Return the index of the element at a position on each whole axis."""
        index, steps = [], {letter: self.block(letter) for letter in self.letters}
        for axis, size in self.axes:
            letter = axis.upper()
            if axis.isupper():
                block = self.block(letter)
                index.append(whole[letter] if block == 1 else tirx.floordiv(whole[letter], block))
            else:
                steps[letter] //= size
                step = steps[letter]
                index.append(tirx.floormod(whole[letter] if step == 1 else tirx.floordiv(whole[letter], step), size))
        return index

    def position(self, index: Sequence[Any]) -> dict[str, Any]:
        """Return the position on each whole axis of the element at an index."""
        steps = {letter: self.block(letter) for letter in self.letters}
        parts: dict[str, list[Any]] = {}
        for (axis, size), i in zip(self.axes, index, strict=True):
            letter = axis.upper()
            if axis.islower():
                steps[letter] //= size
            step = self.block(letter) if axis.isupper() else steps[letter]
            parts.setdefault(letter, []).append(i if step == 1 else i * step)
        return {letter: sum(terms[1:], terms[0]) for letter, terms in parts.items()}


def axes_of(layout: str) -> str:
    """Return the letters of a layout in order; a block of an axis, such as ``16c``, is its small letter.

    >>> axes_of("NCHW16c")
    'NCHWc'
    """
    axes = "".join(axis for axis, _ in Layout.of(layout).axes)
    if len(set(axes)) != len(axes):
        raise TypeCheckError(f"layout {layout!r} cuts an axis into blocks twice")
    return axes


def require_layout(layout: str, letters: str, name: str) -> str:
    """Return the axes of a layout that must order exactly `letters`."""
    axes = axes_of(layout)
    if sorted(axes) != sorted(letters):
        raise TypeCheckError(f"{name} {layout!r} must order the axes {', '.join(letters)}")
    return axes


def require_rank(ty: TensorType, rank: int, name: str) -> None:
    """Check that a tensor has so many dimensions."""
    if len(ty.shape) != rank:
        raise TypeCheckError(f"{name} must have {rank} dimensions, not {len(ty.shape)}: {ty}")


def ordered(values: Sequence[Any], axes: str, letters: Iterable[str]) -> list[Any]:
    """Return values that are given in the order of `axes` in the order of `letters`."""
    return [values[axes.index(letter)] for letter in letters]
