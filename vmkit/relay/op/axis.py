"""Axes given as attributes: negative ones count from the end, and all are checked; and how many there may be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ...errors import TypeCheckError

__all__ = ["Axes", "checked_rank", "resolve_axes", "resolve_axis"]

Axes: TypeAlias = int | Sequence[int] | None
"""The axes that a caller names; None is all of them."""

# As many as numpy has since version 2; a text may ask for billions.
_MOST_DIMENSIONS = 64


def checked_rank(rank: int) -> int:
    """Return the rank that a result shall have; TypeCheckError when no tensor has so many dimensions."""
    if rank > _MOST_DIMENSIONS:
        raise TypeCheckError(f"the result would have {rank} dimensions; a tensor has at most {_MOST_DIMENSIONS}")
    return rank


def resolve_axis(axis: int, rank: int, name: str = "axis") -> int:
    """Return an axis counted from the front; TypeCheckError when a tensor of `rank` dimensions has no such axis."""
    if not -rank <= axis < rank:
        allowed = f"{-rank} to {rank - 1}" if rank else "none, for a scalar"
        raise TypeCheckError(f"{name} is {axis}, but the input has {rank} dimensions; allowed are {allowed}")
    return axis % rank


def resolve_axes(axes: Iterable[int] | None, rank: int, name: str = "axis") -> list[int]:
    """Return axes counted from the front, in the order given; all axes for None."""
    if axes is None:
        return list(range(rank))
    axes = list(axes)
    resolved = [resolve_axis(a, rank, name) for a in axes]
    if len(set(resolved)) != len(resolved):
        raise TypeCheckError(f"{name} {axes} names the same axis of {rank} twice")
    return resolved
