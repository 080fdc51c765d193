"""What quantised arithmetic is, in numpy and Python's integers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def column(values: Any, axis: int, rank: int) -> np.ndarray:
    """Return a number or a vector in a shape that broadcasts along an axis."""
    array = np.asarray(values)
    return array if array.ndim == 0 else array.reshape([-1 if k == axis % rank else 1 for k in range(rank)])


def saturated(values: np.ndarray, dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.clip(np.where(np.isnan(values), info.max, values), info.min, info.max).astype(dtype)


def round_away(values: np.ndarray) -> np.ndarray:
    """Round halves away from zero."""
    return np.sign(values) * np.floor(np.abs(values) + 0.5)


def quantized(reals: np.ndarray, scale: Any, zero_point: Any, dtype: str, axis: int = -1) -> np.ndarray:
    scales, zeros = column(scale, axis, reals.ndim), column(zero_point, axis, reals.ndim)
    quotient = (reals.astype("float32") / scales.astype("float32")).astype("float64")
    return saturated(round_away(quotient) + zeros, dtype)


def dequantized(q: np.ndarray, scale: Any, zero_point: Any, axis: int = -1) -> np.ndarray:
    scales, zeros = column(scale, axis, q.ndim), column(zero_point, axis, q.ndim)
    return (q.astype("int64") - zeros).astype("float32") * scales.astype("float32")


def fixed_point_product(value: int, factor: float, rounding: str) -> int:
    """Return an integer times a factor of 31 significant bits, by integers of any size."""
    significand, exponent = math.frexp(factor)
    product, bits = value * round(significand * 2**31) << max(exponent, 0), 31 + max(-exponent, 0)
    half = 1 << (bits - 1)
    return (product + (half - 1 if rounding == "TONEAREST" and product < 0 else half)) >> bits


def requantized(
    q: np.ndarray, scale: Any, zero: Any, out_scale: float, out_zero: int, dtype: str, axis: int = -1,
    rounding: str = "UPWARD",
) -> np.ndarray:  # fmt: skip
    """Return the exact result of requantisation by fixed-point numbers."""
    factors = column(np.float32(scale), axis, q.ndim).astype("float64") / np.float64(np.float32(out_scale))
    shifted = q.astype("int64") - column(zero, axis, q.ndim)
    pairs = zip(shifted.ravel(), np.broadcast_to(factors, q.shape).ravel(), strict=True)
    products = [fixed_point_product(int(v), float(f), rounding) if f != 1 else int(v) for v, f in pairs]
    return saturated(np.array(products, "int64").reshape(q.shape) + out_zero, dtype)


def integers(dtype: str, *shape: int, seed: int = 0, low: int | None = None, high: int | None = None) -> np.ndarray:
    """Return integers from the whole range of a data type, or from a narrower one."""
    info = np.iinfo(dtype)
    low, high = info.min if low is None else low, info.max if high is None else high
    return np.random.default_rng(seed).integers(low, high, shape, dtype="int64", endpoint=True).astype(dtype)
