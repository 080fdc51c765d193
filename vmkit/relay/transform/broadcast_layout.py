"""Layouts of the two operands of an operator that broadcasts them."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase

from ..op.nn.layout import Layout
from .inferred_layout import Axes, InferCorrectLayoutOutput, LayoutQuestion, letters_of, made_of, sub_layout

__all__ = ["infer_broadcast"]


def infer_broadcast(question: LayoutQuestion, count: int = 2) -> InferCorrectLayoutOutput | None:
    """Return the layouts of an operator whose first two arguments are broadcast.

    The operand of fewer axes follows the other one, of as many that with more of size 1: its axes are the last ones of
    that, and are moved as those are.

    Parameters
    ----------
    question : LayoutQuestion
        What is asked.
    count : int
        The number of arguments that this is about; the others are scalars.
    """
    if any(question.shape(i) for i in range(count, len(question.types))):
        return None
    old = _as_the_program_has_them(question)
    if old is None:
        return None
    larger = 0 if len(question.shape(0)) >= len(question.shape(1)) else 1
    if question.new is None:
        return InferCorrectLayoutOutput([*old, *question.others(count)], [old[larger]], question.attrs)
    new = list(question.new[:2])
    by = max((0, 1), key=lambda i: (len(new[i].letters), _broadcast_from(question.shape(i))))
    follows = 1 - by
    wanted = _moved_likewise(old[follows], old[by], new[by])
    if wanted is None:
        return None
    if len(question.shape(0)) == len(question.shape(1)):
        larger = by
    result = question.new[larger]
    new[follows] = _with_blocks_of_one(wanted, old[follows], question.shape(follows))
    return InferCorrectLayoutOutput([*new, *question.others(count)], [result], question.attrs)


def _broadcast_from(shape: Sequence[object]) -> int:
    """Return along how many axes an operand has elements of its own: what has few is moved at less cost."""
    return sum(not (isinstance(size, int) and size == 1) for size in shape)


def _as_the_program_has_them(question: LayoutQuestion) -> list[Layout] | None:
    """Return the operands' layouts, of which one may follow from the other; None where neither is known."""
    old, shapes = list(question.old[:2]), [question.shape(0), question.shape(1)]
    for known, unknown in ((0, 1), (1, 0)):
        layout = old[known]
        if layout is not None and old[unknown] is None:
            more = len(shapes[known]) - len(shapes[unknown])
            if more < 0:
                return None  # what the axes in front are called, nothing says
            old[unknown] = _of_shape(sub_layout(layout, more, len(shapes[unknown])), shapes[unknown])
    return None if old[0] is None or old[1] is None else [old[0], old[1]]


def _moved_likewise(layout: Layout, old: Layout, new: Layout) -> Layout | None:
    """Return what becomes of a layout when another one, which ends like it, becomes `new`; None where it cannot."""
    count = min(len(layout.axes), len(old.axes))
    if len(layout.axes) > len(old.axes):
        return None
    rest, last = old.axes[: len(old.axes) - count], old.axes[len(old.axes) - count :]
    is_torn = {axis.upper() for axis, _ in rest} & {axis.upper() for axis, _ in last}
    if is_torn or not _is_alike(last, layout.axes):
        return None
    if not count:
        return layout
    names = {theirs.upper(): own.upper() for (theirs, _), (own, _) in zip(last, layout.axes, strict=True)}
    for letter in reversed(letters_of(old)):
        if letter.upper() not in names:
            names[letter.upper()] = _unused(letter.upper(), names.values())
    if any(axis.upper() not in names for axis, _ in new.axes):
        return None
    return made_of(
        tuple((names[a] if a.isupper() else names[a.upper()].lower(), size) for a, size in new.axes),
    )


def _unused(letter: str, used: object) -> str:
    taken = set(used)  # type: ignore[call-overload]
    return letter if letter not in taken else next(each for each in ascii_uppercase if each not in taken)


def _is_alike(one: Axes, other: Axes) -> bool:
    """Say whether two layouts differ by the letters of their axes alone."""
    there: dict[str, str] = {}
    back: dict[str, str] = {}
    for (a, size), (b, other_size) in zip(one, other, strict=True):
        if a.isupper() != b.isupper() or size != other_size:
            return False
        if there.setdefault(a, b) != b or back.setdefault(b, a) != a:
            return False
    return True


def _with_blocks_of_one(layout: Layout, old: Layout, shape: Sequence[object]) -> Layout:
    """Return a layout whose blocks hold one element where the tensor has no more: NCHW1c for one channel."""
    has_more = {axis.upper() for (axis, _), dim in zip(old.axes, shape, strict=True) if dim != 1}
    return made_of(tuple((a, size if a.isupper() or a.upper() in has_more else 1) for a, size in layout.axes))


def _of_shape(layout: Layout, shape: Sequence[object]) -> Layout:
    """Return a layout with blocks of one element where a tensor that is broadcast has no more."""
    return made_of(tuple((a, 1 if dim == 1 else size) for (a, size), dim in zip(layout.axes, shape, strict=True)))
