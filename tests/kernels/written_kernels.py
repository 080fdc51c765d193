"""Kernels that are written out, as functions of arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm
from tvm import tirx

__all__ = ["built", "convolved", "normal"]

Run = Callable[[list[np.ndarray], list[tuple[int, ...]]], list[np.ndarray]]


def built(kernel: tirx.PrimFunc) -> Run:
    """Return a kernel as a function of arrays and of the shapes of its results."""
    main = tvm.compile(tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")}), "llvm")["main"]

    def run(arrays: list[np.ndarray], shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
        results = [tvm.runtime.tensor(np.full(shape, np.nan, "float32")) for shape in shapes]
        main(*[tvm.runtime.tensor(a) for a in arrays], *results)
        return [r.numpy() for r in results]

    return run


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def convolved(data: np.ndarray, weight: np.ndarray, padding: tuple[int, int, int, int]) -> np.ndarray:
    """Return a convolution of (n, h, w, i) by (kh, kw, i, o) in float64."""
    top, left, bottom, right = padding
    padded = np.pad(data.astype("float64"), ((0, 0), (top, bottom), (left, right), (0, 0)))
    down, across = weight.shape[:2]
    height, width = padded.shape[1] - down + 1, padded.shape[2] - across + 1
    places = ((i, j) for i in range(down) for j in range(across))
    return sum(padded[:, i : i + height, j : j + width] @ weight[i, j] for i, j in places)
