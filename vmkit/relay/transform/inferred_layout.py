"""The question which layouts an operator takes and gives, and the answer.

A layout pass asks it twice of each call: how the program has it, and how it is with the layouts that the arguments have
now.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from tvm.s_tir import SLayout

from ..._dataclasses import dataclass
from ..ir import TensorType, Type
from ..op.attrs import Attrs
from ..op.nn.layout import Layout

__all__ = [
    "SCALAR",
    "InferCorrectLayoutOutput",
    "KnownLayouts",
    "LayoutQuestion",
    "as_layout",
    "changed",
    "holds_whole_blocks",
    "index_of",
    "is_blocked",
    "letters_of",
    "made_of",
    "some_layout",
    "sub_layout",
    "where_now",
]

SCALAR = Layout("", ())

Axes = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class LayoutQuestion:
    """What an operator is asked.

    Attributes
    ----------
    attrs : Attrs or None
        The attributes of the call.
    types : list of Type
        The types of the arguments as the program has them, the fields of tuples one by one.
    old : list of Layout or None
        Their layouts as the program has them, None where nothing says it.
    new : list of Layout, optional
        Their layouts now; none where the question is about the program as it is.
    inputs : tuple of str
        The names of the operator's inputs.
    in_first : int
        How many of the arguments are fields of the first one; 1 where that is a tensor.
    results : int
        The number of results.
    is_altered : bool
        Whether the call has just been put in the place of another, so that its own layouts are meant.
    """

    attrs: Any
    types: Sequence[Type]
    old: Sequence[Layout | None]
    new: Sequence[Layout] | None = None
    inputs: tuple[str, ...] = ()
    in_first: int = 1
    results: int = 1
    is_altered: bool = False

    def shape(self, i: int) -> list[object]:
        """Return the shape of an argument; that of a scalar for what is no tensor."""
        ty = self.types[i]
        return list(ty.shape) if isinstance(ty, TensorType) else []

    def others(self, start: int) -> list[Layout]:
        """Return the layouts of the arguments from `start` on as the program has them: they are no matter of layout."""
        return [self.old[i] or some_layout(len(self.shape(i))) for i in range(start, len(self.types))]


class InferCorrectLayoutOutput:
    """The layouts that an operator takes and gives.

    Parameters
    ----------
    input_layouts : sequence of layouts
        Of its arguments, the fields of tuples one by one; each as text, as layout of TVM or of vmkit. None says that
        the layout cannot be.
    output_layouts : sequence of layouts
        Of its results.
    new_attrs : Attrs
        The attributes that go with them.
    """

    def __init__(
        self,
        input_layouts: Sequence[str | SLayout | Layout | None],
        output_layouts: Sequence[str | SLayout | Layout | None],
        new_attrs: Attrs | None,
    ) -> None:
        self.input_layouts = [as_layout(each) for each in input_layouts]
        self.output_layouts = [as_layout(each) for each in output_layouts]
        self.new_attrs = new_attrs

    def known(self) -> KnownLayouts | None:
        """Return the layouts where all of them can be, else None."""
        inputs = [each for each in self.input_layouts if each is not None]
        outputs = [each for each in self.output_layouts if each is not None]
        if len(inputs) < len(self.input_layouts) or len(outputs) < len(self.output_layouts):
            return None
        return KnownLayouts(inputs, outputs, self.new_attrs)


@dataclass(frozen=True)
class KnownLayouts:
    """The layouts that an operator takes and gives, all of which are known, and its attributes with them."""

    input_layouts: list[Layout]
    output_layouts: list[Layout]
    new_attrs: Any


def as_layout(given: str | SLayout | Layout | None) -> Layout | None:
    """Return a layout in any of its forms as one of vmkit's."""
    if given is None or isinstance(given, Layout):
        return given
    return Layout.of(given if isinstance(given, str) else str(given.name))


def made_of(axes: Axes) -> Layout:
    """Return the layout of some axes; a block may be there without the rest of its axis."""
    return Layout("".join(f"{size}{axis}" if axis.islower() else axis for axis, size in axes), axes)


def sub_layout(layout: Layout, start: int, count: int) -> Layout:
    """Return `count` axes of a layout."""
    return made_of(layout.axes[start : start + count])


def letters_of(layout: Layout) -> list[str]:
    """Return the letters of the dimensions, small ones for blocks."""
    return [axis for axis, _ in layout.axes]


def index_of(layout: Layout, letter: str) -> int | None:
    """Return which dimension has a letter, or None."""
    letters = letters_of(layout)
    return letters.index(letter) if letter in letters else None


def is_blocked(layout: Layout, letter: str) -> bool:
    """Say whether an axis is cut into blocks."""
    return any(axis == letter.lower() for axis, _ in layout.axes)


@cache
def some_layout(rank: int) -> Layout:
    """Return a layout for a tensor of which nothing says one: a vector is along the channels."""
    return made_of(tuple((letter, 1) for letter in "CDEFGHIJKLMNOPQRSTUVWXYZAB"[:rank]))


def where_now(old: Layout, new: Layout, axis: int) -> int | None:
    """Return which dimension of `new` is a dimension of `old`, or None where it is not there in one piece."""
    letter, _ = old.axes[axis % len(old.axes)]
    if letter.isupper() and is_blocked(new, letter) != is_blocked(old, letter):
        return None
    if new.block(letter.upper()) != old.block(letter.upper()):
        return None
    return index_of(new, letter)


def holds_whole_blocks(old: Layout, new: Layout, shape: Sequence[object]) -> bool:
    """Say whether a tensor of a shape in `old` falls into the blocks of `new` without any to be filled up."""
    if len(new.axes) == len(new.letters):
        return True
    whole = old.whole(shape)  # type: ignore[arg-type]
    sizes = [(whole.get(letter), new.block(letter)) for letter in new.letters]
    return all(block == 1 or (isinstance(size, int) and size % block == 0) for size, block in sizes)


def changed(attrs: Any, **changes: Any) -> Any:  # noqa: ANN401 - the class of the attributes given
    """Return attributes with some of them changed."""
    return type(attrs)(**{**{f.name: getattr(attrs, f.name) for f in attrs.declared}, **changes})
