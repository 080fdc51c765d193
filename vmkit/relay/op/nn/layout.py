"""Layouts: the order of a tensor's axes, one letter an axis, such as ``NCHW``, ``HWIO`` or the blocked ``NCHW16c``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from ....errors import TypeCheckError
from ...ir.types import TensorType

__all__ = ["SPATIAL", "axes_of", "ordered", "require_layout", "require_rank"]

# The letters of the spatial axes of 1-, 2- and 3-dimensional operators.
SPATIAL = {1: "W", 2: "HW", 3: "DHW"}

_AXIS = re.compile(r"([A-Z])|(\d+)([a-z])")


@lru_cache(maxsize=256)
def axes_of(layout: str) -> str:
    """Return the letters of a layout in order; a block of an axis, such as ``16c``, is its small letter.

    >>> axes_of("NCHW16c")
    'NCHWc'
    """
    axes, at = [], 0
    for found in _AXIS.finditer(layout):
        if found.start() != at:
            break
        axes.append(found[1] or found[3])
        at = found.end()
    if at != len(layout) or len(set(axes)) != len(axes) or any(a.islower() and a.upper() not in axes for a in axes):
        raise TypeCheckError(
            f"{layout!r} is no layout: write one capital letter an axis, such as NCHW, and a block as NCHW16c"
        )
    return "".join(axes)


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
