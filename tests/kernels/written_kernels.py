"""Kernels that are written out, as functions of arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm
from tvm import tirx

__all__ = ["built", "normal"]

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
