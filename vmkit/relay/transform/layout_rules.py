"""How operators go on with a tensor in another layout: one rule for each way that entries name.

A rule takes the :class:`~vmkit.relay.transform.inferred_layout.LayoutQuestion` and returns the layouts and attributes
that the operator goes on with, or None where it needs its arguments as the program knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir import Call
from ..op.attrs import Attrs
from ..op.nn.layout import Layout
from ..op.pointwise import is_broadcast, is_pointwise
from ..op.registry import WithLayout, entry
from .broadcast_layout import infer_broadcast
from .inferred_layout import (
    InferCorrectLayoutOutput,
    LayoutQuestion,
    changed,
    holds_whole_blocks,
    index_of,
    is_blocked,
    made_of,
    some_layout,
    where_now,
)
from .layout_slices import infer_pad, infer_slice, infer_split

__all__ = ["Rule", "rule_of", "with_attrs"]

Rule = Callable[[LayoutQuestion], InferCorrectLayoutOutput | None]


def rule_of(call: Call) -> Rule | None:
    """Return how the operator of a call goes on with layouts; None for one that needs what the program knows."""
    if is_pointwise(call):
        return _as_it_comes
    if is_broadcast(call):
        return infer_broadcast
    way = entry(call.op).layout
    return None if way is None else _RULES[way]


def with_attrs(call: Call, **changes: Any) -> Attrs:
    """Return the attributes of a call with some of them changed."""
    return changed(call.attrs, **changes)


def _data(question: LayoutQuestion) -> tuple[Layout, Layout] | None:
    """Return the layout of the first argument as the program has it and now; None where nothing says it."""
    old = question.old[0]
    return None if old is None else (old, old if question.new is None else question.new[0])


def _as_it_comes(question: LayoutQuestion) -> InferCorrectLayoutOutput | None:
    found = _data(question)
    return None if found is None else InferCorrectLayoutOutput([found[1]], [found[1]], question.attrs)


def _axis(question: LayoutQuestion) -> InferCorrectLayoutOutput | None:
    """Go on along the axis as it lies now; the other arguments are about that axis alone."""
    found, attrs = _data(question), question.attrs
    if found is None or attrs.axis is None:
        return None
    now = where_now(*found, attrs.axis)
    if now is None:
        return None
    attrs = attrs if question.new is None else changed(attrs, axis=now)
    return InferCorrectLayoutOutput([found[1], *question.others(1)], [found[1]] * question.results, attrs)


def _statistics(question: LayoutQuestion) -> InferCorrectLayoutOutput | None:
    """Go on with a normalisation that gives its result and vectors along its axis."""
    result = _axis(question)
    if result is None:
        return None
    vectors = [some_layout(1)] * (question.results - 1)
    return InferCorrectLayoutOutput(result.input_layouts, [result.output_layouts[0], *vectors], result.new_attrs)


def _axes(question: LayoutQuestion) -> InferCorrectLayoutOutput | None:
    found, attrs = _data(question), question.attrs
    if found is None or attrs.axis is None:
        return None
    old, new = found
    if question.new is not None:
        letters = {old.axes[a % len(old.axes)][0] for a in attrs.axis}
        attrs = changed(attrs, axis=_in(old, new, letters, [a % len(old.axes) for a in attrs.axis]))
    return InferCorrectLayoutOutput([new], [new], attrs)


def _in(old: Layout, new: Layout, letters: set[str], order: list[int]) -> list[int]:
    """Return the dimensions of `new` that belong to axes of `old`: in the order given, then their blocks."""
    first = [at for a in order if (at := index_of(new, old.axes[a][0])) is not None]
    blocks = [i for i, (axis, _) in enumerate(new.axes) if axis.islower() and axis.upper() in letters]
    return [*first, *(b for b in blocks if b not in first)]


def _concatenate(question: LayoutQuestion) -> InferCorrectLayoutOutput | None:
    count, attrs = question.in_first, question.attrs
    known = [layout for layout in question.old[:count] if layout is not None]
    if not known:
        return None
    old, new = known[0], known[0]
    if question.new is not None:
        new = next((n for n, o in zip(question.new[:count], question.old[:count], strict=True) if n != o), old)
        if not all(holds_whole_blocks(old, new, question.shape(i)) for i in range(count)):
            return None
        letter, _ = old.axes[attrs.axis % len(old.axes)]
        # Blocks follow each other where elements did.
        is_cut = letter.isupper() and not is_blocked(old, letter)
        now = index_of(new, letter) if is_cut else where_now(old, new, attrs.axis)
        if now is None:
            return None
        attrs = changed(attrs, axis=now)
    return InferCorrectLayoutOutput([*[new] * count, *question.others(count)], [new], attrs)


def _reduce(question: LayoutQuestion) -> InferCorrectLayoutOutput | None:
    found, attrs = _data(question), question.attrs
    if found is None:
        return None
    old, new = found
    rank = len(old.axes)
    named = range(rank) if attrs.axis is None else _listed(attrs.axis)
    lost = {old.axes[a % rank][0] for a in named}
    if attrs.exclude:
        lost = {axis for axis, _ in old.axes} - lost
    if any(is_blocked(old, letter) for letter in lost) and new != old:
        return None
    lost |= {axis for axis, _ in new.axes if axis.islower() and axis.upper() in lost and not is_blocked(old, axis)}
    if question.new is not None and lost:
        kept_or_lost = [i for i, (axis, _) in enumerate(new.axes) if (axis in lost) != bool(attrs.exclude)]
        attrs = changed(attrs, axis=kept_or_lost)
    one = tuple((axis, 1 if axis in lost else size) for axis, size in new.axes)
    result = made_of(one if attrs.keepdims else tuple(each for each in one if each[0] not in lost))
    # The mean of a variance is reduced already.
    means = [made_of(one)] if len(question.types) == 2 else []
    return InferCorrectLayoutOutput([new, *means], [result], attrs)


def _listed(axis: int | Sequence[int]) -> list[int]:
    return [axis] if isinstance(axis, int) else list(axis)


def _transpose(question: LayoutQuestion) -> InferCorrectLayoutOutput | None:
    found, attrs = _data(question), question.attrs
    if found is None:
        return None
    old, new = found
    rank = len(old.axes)
    order = (
        [a % rank for a in attrs.axes] if attrs.axes is not None and len(attrs.axes) else list(reversed(range(rank)))
    )
    now = [where_now(old, new, a) for a in order]
    if None in now or len(new.axes) != rank:
        return None
    if question.new is not None:
        attrs = changed(attrs, axes=now)
    return InferCorrectLayoutOutput([new], [made_of(tuple(old.axes[a] for a in order))], attrs)


def _squeeze(question: LayoutQuestion) -> InferCorrectLayoutOutput | None:
    found, attrs, shape = _data(question), question.attrs, question.shape(0)
    if found is None or (attrs.axis is None and not all(isinstance(d, int) for d in shape)):
        return None
    old, new = found
    lost = [i for i, d in enumerate(shape) if d == 1] if attrs.axis is None else _listed(attrs.axis)
    now = [where_now(old, new, a) for a in lost]
    if None in now:
        return None
    if question.new is not None:
        attrs = changed(attrs, axis=now)
    return InferCorrectLayoutOutput([new], [made_of(tuple(x for i, x in enumerate(new.axes) if i not in now))], attrs)


def _slice_like(question: LayoutQuestion) -> InferCorrectLayoutOutput | None:
    found, attrs = _data(question), question.attrs
    if found is None or question.old[1] not in (None, found[0]):
        return None
    old, new = found
    if question.new is not None and attrs.axes is not None:
        letters = {old.axes[a % len(old.axes)][0] for a in attrs.axes}
        now = _in(old, new, letters, [a % len(old.axes) for a in attrs.axes])
        attrs = changed(attrs, axes=now or None)
    return InferCorrectLayoutOutput([new, new], [new], attrs)


def _layout(question: LayoutQuestion) -> InferCorrectLayoutOutput | None:
    """Go on with an operator that has the layout of its one tensor as attribute."""
    attrs = question.attrs
    own, given = Layout.of(attrs.layout), getattr(attrs, "out_layout", "")
    if given not in ("", attrs.layout):
        return None
    if question.new is not None and not question.is_altered and own == question.old[0]:
        own = question.new[0]
        attrs = changed(attrs, layout=own.text, **({"out_layout": own.text} if given else {}))
    return InferCorrectLayoutOutput([own, *question.others(1)], [own] * question.results, attrs)


def _own(question: LayoutQuestion) -> InferCorrectLayoutOutput | None:
    """Take the layouts that the attributes name: the operators that the others follow."""
    attrs = question.attrs
    data = Layout.of(attrs.data_layout if hasattr(attrs, "data_layout") else attrs.layout)
    layouts = [data, *question.others(1)]
    for i, name in enumerate(question.inputs[: len(layouts)]):
        # What a gradient of a convolution by its weight takes second has its layout where others have the weight's.
        if name in ("weight", "kernel") or (name == "data" and i):
            layouts[i] = Layout.of(attrs.kernel_layout)
        elif name == "offset":
            layouts[i] = data
    out = getattr(attrs, "out_layout", "")
    return InferCorrectLayoutOutput(layouts, [Layout.of(out) if out else data] * question.results, attrs)


def _dense(question: LayoutQuestion) -> InferCorrectLayoutOutput | None:
    """Take the rows and the weight as they are, NC for the usual matrices."""
    rank = len(question.shape(0))
    data = Layout.of("NC" if rank == 2 else some_layout(rank).text)
    weight = Layout.of(getattr(question.attrs, "weight_layout", "NC"))
    return InferCorrectLayoutOutput([data, weight, *question.others(2)], [data], question.attrs)


def _layout_transform(question: LayoutQuestion) -> InferCorrectLayoutOutput | None:
    attrs = question.attrs
    source, target = Layout.of(attrs.src_layout), Layout.of(attrs.dst_layout)
    if question.new is not None and question.old[0] == source:
        source = question.new[0]
        attrs = changed(attrs, src_layout=source.text)
    return InferCorrectLayoutOutput([source], [target], attrs)


# By what the entries of operators say of them.
_RULES: dict[WithLayout, Rule] = {
    "axis": _axis,
    "axes": _axes,
    "concatenate": _concatenate,
    "dense": _dense,
    "fields": _axis,
    "layout": _layout,
    "layout_transform": _layout_transform,
    "own": _own,
    "pad": infer_pad,
    "quantized": infer_broadcast,
    "reduce": _reduce,
    "slice": infer_slice,
    "slice_like": _slice_like,
    "split": infer_split,
    "squeeze": _squeeze,
    "statistics": _statistics,
    "transpose": _transpose,
}
