"""Boxes for tests, and how much two of them overlap, by definition."""

from __future__ import annotations

from typing import Any

import numpy as np


def boxes(rng: np.random.Generator, batch: int, count: int, *, upright: bool = False) -> np.ndarray:
    """Return boxes that overlap a good deal, some of them with swapped corners unless they must be upright."""
    low = rng.uniform(0, 1, (batch, count, 2))
    made = np.concatenate([low, low + rng.uniform(0.1, 0.6, (batch, count, 2))], 2)
    if not upright:
        made[:, ::4] = made[:, ::4][..., [2, 1, 0, 3]]
    return made.astype("float32")


def area(box: np.ndarray) -> Any:
    """Return the area of a box given by opposite corners."""
    return abs(box[2] - box[0]) * abs(box[3] - box[1])


def overlap(a: np.ndarray, b: np.ndarray) -> Any:
    """Return the intersection over union of two boxes given by opposite corners; 0 if both have no area."""
    low = np.maximum(np.minimum(a[:2], a[2:]), np.minimum(b[:2], b[2:]))
    high = np.minimum(np.maximum(a[:2], a[2:]), np.maximum(b[:2], b[2:]))
    both = np.prod(np.maximum(high - low, 0))
    union = area(a) + area(b) - both
    return both / union if union > 0 else np.float32(0)


def best_first(scores: np.ndarray) -> list[int]:
    """Return the positions of scores from the highest; equal ones in order, NaN last."""
    return sorted(range(len(scores)), key=lambda i: (np.isnan(scores[i]), -scores[i]))
