"""How operators that cut a tensor along axes, or add to it, go on with it in another layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir import dims
from ..op.nn.layout import Layout
from .inferred_layout import SCALAR, InferCorrectLayoutOutput, LayoutQuestion, changed, index_of, is_blocked, where_now

__all__ = ["infer_pad", "infer_slice", "infer_split"]


def infer_pad(question: LayoutQuestion) -> InferCorrectLayoutOutput | None:
    """Pad the axes where they lie now; one that is in blocks cannot be padded."""
    old, attrs = question.old[0], question.attrs
    if old is None:
        return None
    new = old if question.new is None else question.new[0]
    if new != old:
        widths = {axis: list(width) for (axis, _), width in zip(old.axes, attrs.pad_width, strict=True)}
        torn = [a for a, _ in old.axes if where_now(old, new, letters(old).index(a)) is None]
        if not all(dims.equal(width, 0) for a in torn for width in widths[a]):
            return None
        attrs = changed(attrs, pad_width=[widths.get(axis, [0, 0]) for axis, _ in new.axes])
    return InferCorrectLayoutOutput([new, *[SCALAR] * (len(question.types) - 1)], [new], attrs)


def letters(layout: Layout) -> list[str]:
    """Return the letters of the dimensions in order."""
    return [axis for axis, _ in layout.axes]


def infer_split(question: LayoutQuestion) -> InferCorrectLayoutOutput | None:
    """Split the axis where it lies now; one that is in blocks, between blocks."""
    old, attrs = question.old[0], question.attrs
    if old is None:
        return None
    new = old if question.new is None else question.new[0]
    if new != old:
        axis = attrs.axis % len(old.axes)
        letter, now = old.axes[axis][0], where_now(old, new, axis)
        if now is not None:
            attrs = changed(attrs, axis=now)
        elif is_blocked(old, letter) or not letter.isupper():
            return None
        else:
            where = _between_blocks(attrs.indices_or_sections, new.block(letter), question.shape(0)[axis])
            if where is None:
                return None
            attrs = changed(attrs, axis=index_of(new, letter), indices_or_sections=where)
    return InferCorrectLayoutOutput([new], [new] * question.results, attrs)


def _between_blocks(where: int | Sequence[int], block: int, size: object) -> int | list[int] | None:
    """Return where an axis is split, counted in blocks; None where a block would be split."""
    if isinstance(where, int):
        return where if isinstance(size, int) and size % (block * where) == 0 else None
    places = [int(place) for place in where]
    return None if any(place % block for place in places) else [place // block for place in places]


def infer_slice(question: LayoutQuestion) -> InferCorrectLayoutOutput | None:
    """Slice the axes where they lie now; one that is in blocks, in whole blocks."""
    old, attrs = question.old[0], question.attrs
    if old is None:
        return None
    new = old if question.new is None else question.new[0]
    if new != old:
        attrs = _sliced(attrs, old, new, question.shape(0))
        if attrs is None:
            return None
    return InferCorrectLayoutOutput([new, *question.others(1)], [new], attrs)


def _sliced(attrs: Any, old: Layout, new: Layout, shape: Sequence[object]) -> Any:  # noqa: ANN401 - attributes
    """Return the attributes of a slice of the tensor in another layout, or None where that is none."""
    rank = len(old.axes)
    names_axes = attrs.axes is not None and len(attrs.axes) > 0
    begin, end = list(attrs.begin), list(attrs.end)
    told = max(len(begin), len(end), len(attrs.strides))
    axes = [a % rank for a in attrs.axes] if names_axes else list(range(told))
    count = len(axes)
    if not names_axes:
        # Lists may end early: what they leave out is the whole of an axis.
        begin += [0] * (count - len(begin))
        end += shape[len(end) : count] if attrs.slice_mode == "end" else [-1] * (count - len(end))
    strides = [1] * count if attrs.slice_mode == "size" else _spread(attrs.strides, count)
    if len(begin) != count or len(end) != count:
        return None
    cut = []
    for axis, *bounds in zip(axes, begin, end, strides, strict=True):
        letter, now = old.axes[axis][0], where_now(old, new, axis)
        if now is None:
            blocked = _in_blocks(bounds, old, new, letter)
            now = index_of(new, letter)
            if blocked is None or now is None:
                return None
            bounds = blocked
        cut.append((now, *bounds))
    steps = list(attrs.strides) if len(set(strides)) < 2 else [c[3] for c in cut]
    lists = {"begin": [c[1] for c in cut], "end": [c[2] for c in cut], "strides": steps}
    if names_axes:
        return changed(attrs, axes=[c[0] for c in cut], **lists)
    if [c[0] for c in cut] == list(range(count)):
        return changed(attrs, **lists)
    if len(new.axes) != rank or not all(isinstance(d, int) for d in shape) or attrs.slice_mode == "size":
        return changed(attrs, axes=[c[0] for c in cut], **lists)
    # Without axes, what is said of the last ones may be left out, but not of those in front of them.
    known = {c[0]: c[1:] for c in cut}
    whole = {where_now(old, new, i): (0, size, 1) for i, size in enumerate(shape)}
    rows = [known.get(i, whole[i]) for i in range(rank)]
    return changed(attrs, begin=[r[0] for r in rows], end=[r[1] for r in rows], strides=[r[2] for r in rows])


def _spread(values: Sequence[int], count: int) -> list[int]:
    if len(values) == 1 and count > 1:
        return list(values) * count
    return [*values, *[1] * (count - len(values))]


def _in_blocks(bounds: Sequence[int], old: Layout, new: Layout, letter: str) -> list[int] | None:
    """Return begin, end and stride of a slice counted in blocks; None where it takes parts of blocks."""
    begin, end, stride = bounds
    block = new.block(letter)
    if not all(isinstance(bound, int) for bound in bounds):
        return None
    if not letter.isupper() or is_blocked(old, letter) or stride != 1 or begin % block or end % block:
        return None
    return [begin // block, end // block, 1]
