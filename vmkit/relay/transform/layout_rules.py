"""How operators go on with a tensor in another layout: one rule for each way that entries name.

A rule takes the converter's :class:`Layouts`, the call, the values of its arguments and the first one in another
layout. It returns the value of the call, or None where the operator needs its arguments as the program knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir import Call, RelayExpr, Tuple, TupleGetItem
from ..op.attrs import Attrs
from ..op.registry import WithLayout, build, entry
from .converted_layout import Converted, Layouts, LayoutValue, Several
from .known_type import type_of
from .pointwise import is_broadcast, is_pointwise

__all__ = ["follow", "with_attrs"]

Rule = Callable[[Layouts, Call, Sequence[LayoutValue], Converted], LayoutValue | None]


def follow(layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted) -> LayoutValue | None:
    """Return the value of a call on values of which `first` is converted, or None where they must be restored."""
    if is_pointwise(call):
        return _again(call, [first.expr], first)
    if is_broadcast(call):
        return _broadcast(layouts, call, values, first)
    way = entry(call.op).layout
    return None if way is None else _RULES[way](layouts, call, values, first)


def with_attrs(call: Call, **changes: Any) -> Attrs:
    """Return the attributes of a call with some of them changed."""
    return type(call.attrs)(**{**{f.name: getattr(call.attrs, f.name) for f in call.attrs.declared}, **changes})


def _again(call: Call, args: Sequence[RelayExpr], like: Converted, **changes: Any) -> Converted:
    attrs = with_attrs(call, **changes) if changes else call.attrs
    made = Call(call.op, list(args), attrs, span=call.span)
    type_of(made)
    return Converted(made, like.old, like.new)


def _broadcast(
    layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted, count: int | None = None
) -> LayoutValue | None:
    count = len(values) if count is None else count
    if len(type_of(call).shape) != len(first.old):
        return None
    args = [layouts.broadcast(v, first.old, first.new) for v in values[:count]]
    return _again(call, [*args, *(layouts.restored(v) for v in values[count:])], first)


def _bias_add(layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted) -> LayoutValue | None:
    if values[0] is not first:
        return None
    rank = len(first.old)
    after = rank - 1 - call.attrs.axis % rank
    bias = layouts.restored(values[1])
    bias = build("expand_dims", bias, axis=1, num_newaxis=after) if after else bias
    type_of(bias)
    made = build("add", first.expr, layouts.broadcast(bias, first.old, first.new))
    type_of(made)
    return Converted(made, first.old, first.new)


def _axis(layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted) -> Converted | None:
    """Go on along the axis as it lies now; the other arguments are about that axis alone."""
    if values[0] is not first or call.attrs.axis is None:
        return None
    others = [layouts.restored(v) for v in values[1:]]
    return _again(call, [first.expr, *others], first, axis=first.moved(call.attrs.axis))


def _axis_of_several(
    layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted
) -> LayoutValue | None:
    """Go on with an operator of one tensor whose result is a tuple of tensors in its layout."""
    result = _axis(layouts, call, values, first)
    if result is None:
        return None
    fields = [TupleGetItem(result.expr, i) for i in range(len(type_of(result.expr).fields))]
    return Several([Converted(field, first.old, first.new) for field in fields])


def _batch_norm(layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted) -> LayoutValue | None:
    result = _axis(layouts, call, values, first)
    if result is None:
        return None
    fields = [TupleGetItem(result.expr, i) for i in range(3)]
    return Several([Converted(fields[0], first.old, first.new), *fields[1:]])


def _axes(layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted) -> LayoutValue | None:
    if call.attrs.axis is None:
        return None
    return _again(call, [first.expr], first, axis=[first.moved(a) for a in call.attrs.axis])


def _concatenate(layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted) -> LayoutValue | None:
    if not isinstance(values[0], Several):
        return None
    fields = Tuple([layouts.as_layout(v, first.old, first.new) for v in values[0].fields])
    others = [layouts.restored(v) for v in values[1:]]
    return _again(call, [fields, *others], first, axis=first.moved(call.attrs.axis))


def _pad(layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted) -> LayoutValue | None:
    widths = [list(w) for w in call.attrs.pad_width]
    moved = [widths[first.old.index(name)] for name in first.new]
    return _again(call, [first.expr, *(layouts.restored(v) for v in values[1:])], first, pad_width=moved)


def _reduce(layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted) -> LayoutValue | None:
    attrs = call.attrs
    if values[0] is not first or attrs.axis is None or len(values) != 1:
        return None
    rank = len(first.old)
    axes = [a % rank for a in (attrs.axis if hasattr(attrs.axis, "__iter__") else [attrs.axis])]
    result = _again(call, [first.expr], first, axis=[first.moved(a) for a in axes])
    if attrs.keepdims:
        return result
    lost = [a for a in range(rank) if (a in axes) != bool(attrs.exclude)]
    return result.without(result.expr, lost)


def _transpose(layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted) -> LayoutValue | None:
    rank = len(first.old)
    axes = call.attrs.axes
    known = [a % rank for a in axes] if axes is not None and len(axes) else list(reversed(range(rank)))
    return build("transpose", first.expr, axes=[first.moved(a) for a in known])


def _squeeze(layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted) -> LayoutValue | None:
    if call.attrs.axis is None:
        return None
    made = _again(call, [first.expr], first, axis=[first.moved(a) for a in call.attrs.axis])
    return made.without(made.expr, list(call.attrs.axis))


def _strided_slice(layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted) -> LayoutValue | None:
    attrs = call.attrs
    axes = list(range(len(attrs.begin))) if attrs.axes is None or not len(attrs.axes) else list(attrs.axes)
    if len(axes) == len(first.old) and axes == list(range(len(axes))):
        lists = {name: _spread(getattr(attrs, name), len(axes)) for name in ("begin", "end", "strides")}
        order = [first.old.index(name) for name in first.new]
        return _again(call, [first.expr], first, **{n: [v[i] for i in order] for n, v in lists.items()})
    return _again(call, [first.expr], first, axes=[first.moved(a) for a in axes])


def _spread(values: Sequence[int], count: int) -> list[int]:
    return list(values) * count if len(values) == 1 and count > 1 else list(values)


def _slice_like(layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted) -> LayoutValue | None:
    if values[0] is not first or not first.agrees(values[1]):
        return None
    axes = [] if call.attrs.axes is None else [first.moved(a) for a in call.attrs.axes]
    return _again(call, [first.expr, values[1].expr], first, axes=axes or None)


def _layout(layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted) -> LayoutValue | None:
    """Go on with an operator that has the layout of its one tensor as attribute."""
    if call.attrs.layout != first.old or getattr(call.attrs, "out_layout", "") not in ("", first.old):
        return None
    changes = {"layout": first.new}
    if getattr(call.attrs, "out_layout", ""):
        changes["out_layout"] = first.new
    return _again(call, [first.expr], first, **changes)


def _layout_transform(
    layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted
) -> LayoutValue | None:
    if call.attrs.src_layout != first.old:
        return None
    return layouts.transformed(first.expr, first.new, call.attrs.dst_layout)


def _quantized(count: int) -> Rule:
    """Go on with a broadcasting operator whose further arguments are scalars, or vectors along its axis."""

    def rule(layouts: Layouts, call: Call, values: Sequence[LayoutValue], first: Converted) -> LayoutValue | None:
        if any(type_of(layouts.restored(v)).shape for v in values[count:]):
            return None
        return _broadcast(layouts, call, values, first, count)

    return rule


# By what the entries of operators say of them.
_RULES: dict[WithLayout, Rule] = {
    "axis": _axis,
    "axes": _axes,
    "bias": _bias_add,
    "concatenate": _concatenate,
    "fields": _axis_of_several,
    "layout": _layout,
    "layout_transform": _layout_transform,
    "pad": _pad,
    "quantized": _quantized(2),
    "reduce": _reduce,
    "slice": _strided_slice,
    "slice_like": _slice_like,
    "squeeze": _squeeze,
    "statistics": _batch_norm,
    "transpose": _transpose,
}
