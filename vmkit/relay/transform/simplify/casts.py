"""Casts that follow one another, do nothing, or stand beside clips."""

from __future__ import annotations

import numpy as np

from ....values.element_types import is_stored_type
from ...ir import Call, RelayExpr, is_call
from ...op.registry import build
from ..known_type import type_of
from .matching import rule

__all__: list[str] = []

# Numbers up to 2**bits are exact.
_MANTISSA_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


@rule("cast")
def identity_cast(call: Call) -> RelayExpr | None:
    """A cast to the same data type is nothing."""
    return call.args[0] if type_of(call.args[0]).dtype == call.attrs.dtype else None


@rule("cast")
def consecutive_casts(call: Call) -> RelayExpr | None:
    """A cast that loses nothing before another cast is nothing."""
    inner = call.args[0]
    if not is_call(inner, "cast"):
        return None
    source = inner.args[0]
    if _holds_all(type_of(source).dtype, inner.attrs.dtype) or _is_clipped_within(source, inner, call):
        return build("cast", source, dtype=call.attrs.dtype)
    return None


def _holds_all(source: str, target: str) -> bool:
    """Say whether every value of one data type is one of another, exactly."""
    if source == target or (source == "bool" and not is_stored_type(target)):
        return True
    if target == "bool" or is_stored_type(target):
        return False
    if source in _MANTISSA_BITS:
        if {source, target} == {"float16", "bfloat16"} or target not in _MANTISSA_BITS:
            return False
        return _MANTISSA_BITS[source] < _MANTISSA_BITS[target]
    bounds = integer_bounds(source)
    if bounds is None:
        return False
    if target in _MANTISSA_BITS:
        most = 1 << _MANTISSA_BITS[target]
        return -most <= bounds[0] and bounds[1] <= most and target != "float16"
    held = integer_bounds(target)
    return held is not None and held[0] <= bounds[0] and bounds[1] <= held[1]


def integer_bounds(dtype: str) -> tuple[int, int] | None:
    """Return the least and greatest value of an integer data type."""
    try:
        info = np.iinfo(dtype)
    except (TypeError, ValueError):
        return None
    return int(info.min), int(info.max)


def _is_clipped_within(source: RelayExpr, inner: Call, outer: Call) -> bool:
    """Say whether a cast to integers changes no number beyond its fraction, which the outer cast drops anyway."""
    bounds, last = integer_bounds(inner.attrs.dtype), integer_bounds(outer.attrs.dtype)
    if bounds is None or not is_call(source, "clip"):
        return False
    low, high = source.attrs.a_min, source.attrs.a_max
    if not (bounds[0] <= low and high <= bounds[1]):
        return False
    if integer_bounds(type_of(source).dtype) is not None:
        return True
    return last is not None and last[0] <= low and high <= last[1]


@rule("clip")
def clip_of_all(call: Call) -> RelayExpr | None:
    """A clip to the whole range of an integer data type is nothing."""
    bounds = integer_bounds(type_of(call.args[0]).dtype)
    if bounds is None or call.attrs.a_min > bounds[0] or call.attrs.a_max < bounds[1]:
        return None
    return call.args[0]


@rule("clip")
def clip_cast_clip(call: Call) -> RelayExpr | None:
    """A clip before a cast to integers takes the bounds of one after it."""
    cast = call.args[0]
    if not is_call(cast, "cast") or not is_call(cast.args[0], "clip"):
        return None
    inner = cast.args[0]
    bounds = integer_bounds(cast.attrs.dtype)
    limits = (inner.attrs.a_min, inner.attrs.a_max, call.attrs.a_min, call.attrs.a_max)
    if bounds is None or not all(float(v).is_integer() for v in limits):
        return None
    if inner.attrs.a_min < bounds[0] or inner.attrs.a_max > bounds[1]:
        return None
    low, high = max(limits[0], limits[2]), min(limits[1], limits[3])
    if low > high:
        return None
    return build("cast", build("clip", inner.args[0], a_min=low, a_max=high), dtype=cast.attrs.dtype)
