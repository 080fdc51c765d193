"""Axes given as attributes: negative ones count from the end, and all are checked."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import TypeCheckError

__all__ = ["resolve_axes", "resolve_axis"]


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
