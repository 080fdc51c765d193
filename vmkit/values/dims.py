"""Dimensions of tensors: extents, names that stand for one extent everywhere, and what a call binds names to."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Dim", "NamedDims", "TensorPlan", "is_dim", "tensor_plan"]

Dim = int | str
"""An extent, a name that stands for the same extent everywhere, ``"?"``, or (outputs only) an expression of names."""


def is_dim(dim: Dim) -> bool:
    """Tell whether a value is an extent, a name or ``"?"``."""
    if isinstance(dim, str):
        return bool(dim)
    return isinstance(dim, int) and not isinstance(dim, bool) and dim >= 0


class TensorPlan(NamedTuple):
    """A tensor's description taken apart for the check of a call: what to compare, by axis."""

    dtype: str
    rank: int
    fixed: tuple[tuple[int, int], ...]
    named: tuple[tuple[int, str], ...]


def tensor_plan(dtype: str, shape: tuple[Dim, ...]) -> TensorPlan:
    """Return what to compare of a tensor of a dtype and of dims.

    >>> tensor_plan("int8", ("n", 3, "?"))
    TensorPlan(dtype='int8', rank=3, fixed=((1, 3),), named=((0, 'n'),))
    """
    fixed = tuple((axis, dim) for axis, dim in enumerate(shape) if isinstance(dim, int))
    named = tuple((axis, dim) for axis, dim in enumerate(shape) if isinstance(dim, str) and dim != "?")
    return TensorPlan(dtype, len(shape), fixed, named)


class NamedDims:
    """The extents that names stand for in one call, each with the value that bound it first.

    >>> dims = NamedDims()
    >>> dims.disagreement("n", 2, "x"), dims.disagreement("n", 3, "y")
    (None, 'n = 3, but x already bound n = 2')
    """

    def __init__(self) -> None:
        self._bound: dict[str, tuple[int, str]] = {}

    def disagreement(self, name: str, extent: int, path: str) -> str | None:
        """Bind a name to the extent that the value at `path` has, or say to what it is bound already."""
        bound, first = self._bound.setdefault(name, (extent, path))
        return None if extent == bound else f"{name} = {extent}, but {first} already bound {name} = {bound}"
