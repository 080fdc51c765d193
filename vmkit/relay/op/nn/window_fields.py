"""Fields that have a number for each spatial axis, or the order of the axes: what the rows of windows are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..fields import AS_FIELD, REQUIRED, field
from .layout import SPATIAL
from .window import padding_of, per_axis

__all__ = ["each_axis", "each_side", "in_order"]


def each_axis(
    value: int | type | None = REQUIRED, doc: str = "", *, script: int | type | None = AS_FIELD, first: bool = False
) -> Any:
    """Return a field with a number for each spatial axis; a single one that a builder gets serves all of them."""
    return field(
        value, script=script, of_rank=lambda number, rank: (number,) * rank, spread=per_axis, doc=doc, first=first
    )


def each_side(value: int, doc: str = "", *, least: int = 1, spread_from: int = 1) -> Any:
    """Return a field of padding, of which builders make one number for each side.

    Parameters
    ----------
    value : int
        The default for each axis.
    doc : str
        What the padding does.
    least : int
        How many numbers the default has at least.
    spread_from : int
        Over fewer axes than this, builders leave the padding as it is given.
    """

    def spread(padding: int | Sequence[int], rank: int) -> int | Sequence[int]:
        return padding if rank < spread_from else padding_of(padding, rank)

    return field(value, of_rank=lambda number, rank: (number,) * max(rank, least), spread=spread, doc=doc)


def in_order(others: str, doc: str = "") -> Any:
    """Return a field for a layout: `others`, and then the spatial axes."""
    return field(others, of_rank=lambda letters, rank: letters + SPATIAL[rank], doc=doc)
