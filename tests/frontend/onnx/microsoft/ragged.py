"""Requests of different lengths, the tokens of which lie one behind the other."""

from __future__ import annotations

import numpy as np

__all__ = ["LENGTHS", "ends_of"]

LENGTHS: tuple[tuple[int, ...], ...] = ((1,), (3, 1, 6), (2, 2))


def ends_of(lengths: tuple[int, ...]) -> np.ndarray:
    """Return where requests begin and end."""
    return np.cumsum([0, *lengths]).astype("int32")
