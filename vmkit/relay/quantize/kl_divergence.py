"""The magnitude up to which numbers are kept: that whose distribution, in few bins, is most like the whole one.

The method is that of S. Migacz, "8-bit inference with TensorRT" (2017), with the smoothing of MXNet.
"""

from __future__ import annotations

import numpy as np

__all__ = ["scale_by_kl_divergence"]

_SMALL = 1e-4


def scale_by_kl_divergence(samples: np.ndarray, num_bins: int = 8001, num_quantized_bins: int = 255) -> float:
    """Return the magnitude up to which samples are kept when they are quantised.

    Parameters
    ----------
    samples : numpy.ndarray
        The numbers, at least one.
    num_bins : int
        The bins of the distribution as it is; odd, so that 0 is the middle of one.
    num_quantized_bins : int
        The bins of the distribution of integers.
    """
    largest = float(np.max(np.abs(samples)))
    if largest == 0:
        return 1.0
    histogram, edges = np.histogram(samples, bins=num_bins, range=(-largest, largest))
    middle = num_bins // 2
    halves = np.arange(num_quantized_bins // 2, middle + 1)
    divergences = [_divergence(histogram, middle - i, middle + i + 1, num_quantized_bins) for i in halves]
    return float(edges[middle + halves[int(np.argmin(divergences))] + 1])


def _divergence(histogram: np.ndarray, start: int, stop: int, num_quantized_bins: int) -> float:
    """Return how much is lost when what lies outside of some bins counts for the outermost, and bins are merged."""
    inside = histogram[start:stop].astype("float64")
    kept = inside.copy()
    kept[0] = histogram[: start + 1].sum()
    kept[-1] += histogram[stop:].sum()
    inside[0] = 0.0
    width = len(inside) // num_quantized_bins
    begins = np.arange(num_quantized_bins) * width
    sums = np.add.reduceat(inside, begins)
    filled = np.add.reduceat(inside != 0, begins, dtype="int64")
    means = np.divide(sums, filled, out=np.zeros_like(sums), where=filled > 0)
    lengths = np.diff(np.append(begins, len(inside)))
    merged = np.where(kept != 0, np.repeat(means, lengths), 0.0)
    p, q = _smoothed(kept), _smoothed(merged)
    if p is None or q is None or (q <= 0).any() or (p <= 0).any():
        return np.inf
    p, q = p / p.sum(), q / q.sum()
    return float(np.sum(p * np.log(p / q)))


def _smoothed(distribution: np.ndarray) -> np.ndarray | None:
    """Return a distribution without zeros; None where there is too little else to take from."""
    is_zero = distribution == 0
    zeros = int(is_zero.sum())
    others = len(distribution) - zeros
    if others == 0 or _SMALL * zeros / others >= 1:
        return None
    return np.where(is_zero, _SMALL, distribution - _SMALL * zeros / others)
