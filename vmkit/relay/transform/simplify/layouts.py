"""Reshapes, transposes and changes of layout that follow one another, or do nothing."""

from __future__ import annotations

import re

from ...ir import Call, RelayExpr, is_call
from ...op.registry import build
from ..known_type import type_of
from .matching import rule, same_type, static_shape

__all__ = ["consecutive_transposes", "identity_reshape", "identity_transpose", "permutation"]

_RESHAPES = ("reshape", "contrib_reverse_reshape")
_TRANSPOSES = ("transpose", "layout_transform")


@rule(*_RESHAPES)
def consecutive_reshapes(call: Call) -> RelayExpr | None:
    """A reshape of a reshape is one to the last shape."""
    shape = static_shape(call)
    if shape is None or not is_call(call.args[0], *_RESHAPES):
        return None
    return build("reshape", call.args[0].args[0], newshape=shape)


@rule("reshape")
def identity_reshape(call: Call) -> RelayExpr | None:
    """A reshape to the same shape is nothing."""
    return call.args[0] if same_type(call.args[0], call) else None


@rule(*_TRANSPOSES)
def identity_transpose(call: Call) -> RelayExpr | None:
    """A transpose that leaves all axes in place, and a transform to the same layout, are nothing."""
    if call.op.name == "layout_transform":
        return call.args[0] if call.attrs.src_layout == call.attrs.dst_layout else None
    axes = permutation(call)
    return call.args[0] if axes == list(range(len(axes or ()))) else None


@rule(*_TRANSPOSES)
def consecutive_transposes(call: Call) -> RelayExpr | None:
    """Permutations of axes in a row are one; before and after a change of rank they join the layouts' names."""
    inner = call.args[0]
    if not is_call(inner, *_TRANSPOSES):
        return None
    first, second = permutation(inner), permutation(call)
    if first is not None and second is not None:
        axes = [first[axis] for axis in second]
        return inner.args[0] if axes == list(range(len(axes))) else build("transpose", inner.args[0], axes=axes)
    source, target = _outer_layouts(inner, first, call, second)
    if source is None or target is None:
        return None
    made = inner.args[0] if source == target else build("layout_transform", inner.args[0], source, target)
    return made if same_type(made, call) else None


def permutation(call: Call) -> list[int] | None:
    """Return the axes of a transpose, or of a layout transform that only moves axes."""
    rank = len(type_of(call.args[0]).shape)
    if call.op.name == "transpose":
        axes = call.attrs.axes
        return [a % rank for a in axes] if axes is not None and len(axes) else list(reversed(range(rank)))
    source, target = _axes(call.attrs.src_layout), _axes(call.attrs.dst_layout)
    return [source.index(axis) for axis in target] if sorted(source) == sorted(target) else None


def _outer_layouts(
    inner: Call, first: list[int] | None, call: Call, second: list[int] | None
) -> tuple[str | None, str | None]:
    """Return the layouts before the inner and after the outer call, of which one changes the rank."""
    if inner.op.name == "layout_transform" and call.op.name == "layout_transform":
        joined = inner.attrs.dst_layout == call.attrs.src_layout
        return (inner.attrs.src_layout, call.attrs.dst_layout) if joined else (None, None)
    if call.op.name == "layout_transform" and first is not None:
        names = _axes(call.attrs.src_layout)
        before = [""] * len(first)
        for name, axis in zip(names, first, strict=True):
            before[axis] = name
        return "".join(before), call.attrs.dst_layout
    if inner.op.name == "layout_transform" and second is not None:
        names = _axes(inner.attrs.dst_layout)
        return inner.attrs.src_layout, "".join(names[axis] for axis in second)
    return None, None


def _axes(layout: str) -> list[str]:
    """Return the names of a layout's axes: ``NCHW4c`` has ``N, C, H, W, 4c``."""
    return re.findall(r"\d*[A-Za-z]", layout)
